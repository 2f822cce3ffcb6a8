#include "router/events/kv_event_fields.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "router/events/kv_event_decoder.h"

namespace ember::router {
namespace {

using Kind = MsgpackReader::Kind;

// The tier of a medium's name, and whether the name is known.
std::pair<HolderTier, bool> TierOf(std::string_view medium) {
  std::string name(medium.substr(0, 32));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view known : {"", "gpu", "device", "hbm", "npu", "xpu"}) {
    if (name == known) return {HolderTier::kDevice, true};
  }
  for (const std::string_view known : {"cpu", "cpu_pinned", "cpu_tier1", "host", "dram"}) {
    if (name == known) return {HolderTier::kHost, true};
  }
  for (const std::string_view known :
       {"disk", "cpu_tier2", "external", "storage", "fs", "obj", "nvme", "ssd", "remote"}) {
    if (name == known) return {HolderTier::kDisk, true};
  }
  return {HolderTier::kDisk, false};
}

}  // namespace

void KvEventFields::Read(KvEventField field, MsgpackReader& in) {
  switch (field) {
    case KvEventField::kOther:
      in.Skip();
      break;
    case KvEventField::kType:
      type = ReadOptionalText(in);
      break;
    case KvEventField::kHashes:
      hashes_ = in.Skip();
      break;
    case KvEventField::kParent:
      parent_ = in.Skip();
      break;
    case KvEventField::kTokens:
      ReadTokens(in);
      break;
    case KvEventField::kBlockSize:
      stored_.block_size = ReadSmall(in);
      break;
    case KvEventField::kLoraId:
      ReadLoraId(in);
      break;
    case KvEventField::kMedium:
      ReadMedium(in);
      break;
    case KvEventField::kLoraName:
      lora_name_ = ReadOptionalText(in);
      break;
    case KvEventField::kSalt:
      stored_.salt = ReadOptionalText(in);
      break;
    case KvEventField::kExtraKeys:
      extra_keys_ = in.Skip();
      break;
    case KvEventField::kGroup:
      stored_.group = ReadSmall(in);
      break;
    case KvEventField::kGroupKind:
      stored_.group_kind = ReadOptionalText(in).substr(0, 64);
      break;
    case KvEventField::kWindow:
      stored_.window_tokens = ReadSmall(in);
      break;
  }
}

std::optional<EngineKey> KvEventFields::ReadHash(MsgpackReader& in) {
  switch (in.Peek()) {
    case Kind::kInt: {
      const MsgpackReader::Int value = in.ReadInt();
      return value.negative ? fold_.OfSigned(static_cast<int64_t>(value.bits), stored_.group)
                            : fold_.OfUnsigned(value.bits, stored_.group);
    }
    case Kind::kString:
    case Kind::kBinary:
      return fold_.OfBytes(in.ReadBytes(), stored_.group);
    default:
      in.Skip();
      bad_ = true;
      return std::nullopt;
  }
}

void KvEventFields::ReadHashes() {
  MsgpackReader in(hashes_);
  if (in.Peek() != Kind::kArray) {
    bad_ = true;
    return;
  }
  const size_t count = in.ReadArray();
  stored_.keys.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (const std::optional<EngineKey> key = ReadHash(in)) stored_.keys.push_back(*key);
  }
}

void KvEventFields::ReadTokens(MsgpackReader& in) {
  stored_.tokens.clear();
  if (in.Peek() == Kind::kNil) return in.ReadNil();
  if (in.Peek() != Kind::kArray) {
    in.Skip();
    bad_ = true;
    return;
  }
  const size_t count = in.ReadArray();
  stored_.tokens.reserve(count);
  for (size_t i = 0; i < count && !in.failed(); ++i) {
    if (in.Peek() == Kind::kArray) {
      // SGLang with EAGLE speaks of pairs, each token with its successor.
      const size_t pair = in.ReadArray();
      if (pair == 0 || in.Peek() != Kind::kInt) bad_ = true;
      for (size_t j = 0; j < pair && !in.failed(); ++j) {
        if (j == 0 && in.Peek() == Kind::kInt) {
          stored_.tokens.push_back(static_cast<TokenId>(in.ReadInt().bits));
        } else {
          in.Skip();
        }
      }
    } else if (in.Peek() == Kind::kInt) {
      stored_.tokens.push_back(static_cast<TokenId>(in.ReadInt().bits));
    } else {
      in.Skip();
      bad_ = true;
    }
  }
}

uint32_t KvEventFields::ReadSmall(MsgpackReader& in) {
  if (in.Peek() == Kind::kInt) {
    const MsgpackReader::Int value = in.ReadInt();
    if (!value.negative && value.bits <= std::numeric_limits<uint32_t>::max()) {
      return static_cast<uint32_t>(value.bits);
    }
    bad_ = true;
    return 0;
  }
  if (in.Peek() != Kind::kNil) bad_ = true;
  in.Skip();
  return 0;
}

std::string_view KvEventFields::ReadOptionalText(MsgpackReader& in) {
  if (in.Peek() == Kind::kString || in.Peek() == Kind::kBinary) return in.ReadText();
  if (in.Peek() != Kind::kNil) bad_ = true;
  in.Skip();
  return {};
}

void KvEventFields::ReadMedium(MsgpackReader& in) {
  const Kind kind = in.Peek();
  if (kind == Kind::kString || kind == Kind::kBinary || kind == Kind::kNil) {
    medium_ = ReadOptionalText(in);
  } else {
    in.Skip();
    medium_ = "?";
  }
}

void KvEventFields::ReadLoraId(MsgpackReader& in) {
  lora_id_.clear();
  if (in.Peek() == Kind::kNil) return in.ReadNil();
  if (in.Peek() == Kind::kString) {
    lora_id_ = in.ReadText();
    return;
  }
  // A number of the engine's own, by which no request can ask: a name of its own. 0 is no adapter.
  MsgpackReader number(in.Skip());
  if (number.Peek() != Kind::kInt) {
    bad_ = true;
  } else if (const uint64_t id = number.ReadInt().bits; id != 0) {
    lora_id_ = '\0' + std::to_string(id);
  }
}

// One entry a block, each nil or a list; the adapter's name among them says nothing more than
// lora_name does. A salt that is the same text comes after it.
void KvEventFields::ReadExtras() {
  if (extra_keys_.empty()) return;
  MsgpackReader in(extra_keys_);
  if (in.Peek() == Kind::kNil) return;
  if (in.Peek() != Kind::kArray) {
    bad_ = true;
    return;
  }
  const size_t blocks = std::min(in.ReadArray(), stored_.keys.size());
  for (size_t block = 0; block < blocks && !in.failed(); ++block) {
    if (in.Peek() == Kind::kNil) {
      in.ReadNil();
      continue;
    }
    const size_t values = in.Peek() == Kind::kArray ? in.ReadArray() : 1;
    size_t kept = 0;
    bool named = lora_name_.empty();
    KvExtra extra{.block = static_cast<uint32_t>(block)};
    ChecksumStream digest;
    for (size_t i = 0; i < values && !in.failed(); ++i) {
      const bool text = in.Peek() == Kind::kString || in.Peek() == Kind::kBinary;
      const ByteSpan raw = in.Skip();
      const std::string_view value = text ? MsgpackReader(raw).ReadText() : std::string_view();
      if (text && !named && value == lora_name_) {
        named = true;
        continue;
      }
      extra.text = text && kept == 0 ? std::optional<std::string>(value) : std::nullopt;
      digest.Update(raw);
      ++kept;
    }
    if (kept == 0) continue;
    extra.digest = digest.Digest();
    stored_.extras.push_back(std::move(extra));
  }
}

void KvEventFields::AddStored(KvEventBatch& batch) {
  MsgpackReader parent(parent_);
  if (!parent_.empty() && parent.Peek() != Kind::kNil) {
    stored_.parent = ReadHash(parent);
  } else {
    parent_ = {};
  }
  ReadExtras();
  const size_t blocks = stored_.keys.size();
  const size_t tokens = stored_.tokens.size();
  const size_t size = stored_.block_size;
  if (bad_ || (tokens != 0 && (size == 0 || tokens % size != 0 || tokens / size < blocks))) {
    ++batch.unusable;
    return;
  }
  stored_.adapter = lora_name_.empty() ? lora_id_ : std::string(lora_name_);
  if (blocks == 0) return;
  if (tokens != 0 && tokens / size > blocks) {
    if (tokens / size > kMaxSparseBlocks) {
      ++batch.unusable;
      return;
    }
    places_.SeeSparse(batch.events.size(), hashes_, parent_);
    batch.events.emplace_back(std::move(stored_));
    return;
  }
  if (tokens != 0) places_.SeeWhole(stored_, hashes_, parent_);
  for (size_t first = 0; first < blocks; first += kMaxBlocksPerEvent) {
    const size_t end = std::min(blocks, first + kMaxBlocksPerEvent);
    if (first == 0 && end == blocks) {
      batch.events.emplace_back(std::move(stored_));
      return;
    }
    KvStored part{.tier = stored_.tier,
                  .group = stored_.group,
                  .group_kind = stored_.group_kind,
                  .window_tokens = stored_.window_tokens,
                  .block_size = stored_.block_size,
                  .adapter = stored_.adapter,
                  .salt = stored_.salt,
                  .parent = first == 0 ? stored_.parent : stored_.keys[first - 1]};
    const auto key = stored_.keys.begin();
    part.keys.assign(key + static_cast<ptrdiff_t>(first), key + static_cast<ptrdiff_t>(end));
    if (tokens != 0) {
      const auto token = stored_.tokens.begin();
      part.tokens.assign(token + static_cast<ptrdiff_t>(first * size),
                         token + static_cast<ptrdiff_t>(end * size));
    }
    for (const KvExtra& extra : stored_.extras) {
      if (extra.block < first || extra.block >= end) continue;
      part.extras.push_back(extra);
      part.extras.back().block -= static_cast<uint32_t>(first);
    }
    batch.events.emplace_back(std::move(part));
  }
}

bool KvEventFields::AddTo(KvEventBatch& batch) {
  if (type == kCleared) {
    batch.events.emplace_back(KvCleared{});
    return true;
  }
  if (type != kStored && type != kRemoved) {
    ++batch.unknown_types;
    return true;
  }
  const auto [tier, known] = TierOf(medium_);
  if (!known) ++batch.unknown_media;
  stored_.tier = tier;
  ReadHashes();
  if (type == kStored) {
    AddStored(batch);
    return true;
  }
  if (bad_) return false;
  for (size_t first = 0; first < stored_.keys.size(); first += kMaxBlocksPerEvent) {
    const auto begin = stored_.keys.begin() + static_cast<ptrdiff_t>(first);
    const size_t count = std::min(kMaxBlocksPerEvent, stored_.keys.size() - first);
    batch.events.emplace_back(
        KvRemoved{.tier = tier, .keys = {begin, begin + static_cast<ptrdiff_t>(count)}});
  }
  return true;
}

}  // namespace ember::router
