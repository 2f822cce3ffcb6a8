#include "router/events/kv_event_decoder.h"

#include <array>
#include <limits>
#include <utility>

#include "router/events/kv_event_fields.h"
#include "router/events/msgpack_reader.h"

namespace ember::router {
namespace {

using Kind = MsgpackReader::Kind;
using Field = KvEventField;

// The names are those of vLLM's and SGLang's classes, the orders those of their arrays.
constexpr std::array<std::pair<std::string_view, Field>, 13> kFieldNames{{
    {"type", Field::kType},
    {"block_hashes", Field::kHashes},
    {"parent_block_hash", Field::kParent},
    {"token_ids", Field::kTokens},
    {"block_size", Field::kBlockSize},
    {"lora_id", Field::kLoraId},
    {"medium", Field::kMedium},
    {"lora_name", Field::kLoraName},
    {"cache_salt", Field::kSalt},
    {"extra_keys", Field::kExtraKeys},
    {"group_idx", Field::kGroup},
    {"kv_cache_spec_kind", Field::kGroupKind},
    {"kv_cache_spec_sliding_window", Field::kWindow},
}};
constexpr std::array kStoredOrder{Field::kHashes,    Field::kParent,    Field::kTokens,
                                  Field::kBlockSize, Field::kLoraId,    Field::kMedium,
                                  Field::kLoraName,  Field::kExtraKeys, Field::kGroup,
                                  Field::kGroupKind, Field::kWindow};
constexpr std::array kRemovedOrder{Field::kHashes, Field::kMedium, Field::kGroup};

// False: see KvEventFields::AddTo.
bool ReadEvent(MsgpackReader& in, const EngineKeyFold& keys, KvEventPlaces& places,
               KvEventBatch& batch) {
  KvEventFields fields(keys, places);
  if (in.Peek() == Kind::kMap) {
    const size_t pairs = in.ReadMap();
    for (size_t i = 0; i < pairs && !in.failed(); ++i) {
      Field field = Field::kOther;
      if (in.Peek() == Kind::kString || in.Peek() == Kind::kBinary) {
        const std::string_view name = in.ReadText();
        for (const auto& [known, which] : kFieldNames) {
          if (name == known) field = which;
        }
      } else {
        in.Skip();
      }
      fields.Read(field, in);
    }
  } else if (in.Peek() == Kind::kArray) {
    const size_t values = in.ReadArray();
    if (values > 0) fields.Read(Field::kType, in);
    std::span<const Field> order;
    if (fields.type == KvEventFields::kStored) order = kStoredOrder;
    if (fields.type == KvEventFields::kRemoved) order = kRemovedOrder;
    for (size_t i = 1; i < values && !in.failed(); ++i) {
      fields.Read(i <= order.size() ? order[i - 1] : Field::kOther, in);
    }
  } else {
    in.Skip();
  }
  return in.failed() || fields.AddTo(batch);
}

void ReadRank(MsgpackReader& in, KvEventBatch& batch) {
  if (in.Peek() != Kind::kInt) {
    in.Skip();
    return;
  }
  const MsgpackReader::Int rank = in.ReadInt();
  // One that is out of every range is not the endpoint's.
  batch.rank = rank.negative || rank.bits > std::numeric_limits<uint32_t>::max()
                   ? std::numeric_limits<uint32_t>::max()
                   : static_cast<uint32_t>(rank.bits);
}

// False: a removal that can't be read, or no list.
bool ReadEvents(MsgpackReader& in, const EngineKeyFold& keys, KvEventPlaces& places,
                KvEventBatch& batch) {
  if (in.Peek() != Kind::kArray) return false;
  const size_t count = in.ReadArray();
  for (size_t i = 0; i < count && !in.failed(); ++i) {
    if (!ReadEvent(in, keys, places, batch)) return false;
  }
  return !in.failed();
}

}  // namespace

Result<KvEventBatch> DecodeKvEventBatch(ByteSpan payload, const EngineKeyFold& keys) {
  KvEventBatch batch;
  KvEventPlaces places;
  MsgpackReader in(payload);
  bool has_events = false;
  const auto read = [&](std::string_view name) {
    if (name == "ts") {
      const bool number = in.Peek() == Kind::kInt || in.Peek() == Kind::kFloat;
      batch.timestamp = number ? in.ReadNumber() : (in.Skip(), 0);
    } else if (name == "events") {
      has_events = ReadEvents(in, keys, places, batch);
      return has_events;
    } else if (name == "data_parallel_rank" || name == "attn_dp_rank") {
      ReadRank(in, batch);
    } else {
      in.Skip();
    }
    return !in.failed();
  };
  if (in.Peek() == Kind::kMap) {
    const size_t pairs = in.ReadMap();
    for (size_t i = 0; i < pairs; ++i) {
      if (!read(in.ReadText())) return CorruptError("a batch of events can't be read");
    }
  } else {
    constexpr std::array<std::string_view, 3> kOrder{"ts", "events", "data_parallel_rank"};
    const size_t values = in.ReadArray();
    for (size_t i = 0; i < values; ++i) {
      if (!read(i < kOrder.size() ? kOrder[i] : "")) {
        return CorruptError("a batch of events can't be read");
      }
    }
  }
  if (in.failed() || !has_events) return CorruptError("a batch of events can't be read");
  places.Place(batch);
  return batch;
}

}  // namespace ember::router
