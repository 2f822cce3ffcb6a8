// KvEventFields: the fields of one KV event of any type, in whatever order they come, until its
// type says what they mean. Used by the decoder alone; one thread.
#pragma once

#include <string>
#include <string_view>

#include "router/events/kv_event.h"
#include "router/events/kv_event_places.h"
#include "router/events/msgpack_reader.h"

namespace ember::router {

enum class KvEventField : uint8_t {
  kOther,
  kType,
  kHashes,
  kParent,
  kTokens,
  kBlockSize,
  kLoraId,
  kMedium,
  kLoraName,
  kSalt,
  kExtraKeys,
  kGroup,
  kGroupKind,
  kWindow,
};

class KvEventFields {
 public:
  KvEventFields(const EngineKeyFold& fold, KvEventPlaces& places) : fold_(fold), places_(places) {}

  void Read(KvEventField field, MsgpackReader& in);
  // Adds what the fields say. False: a removal that can't be read.
  bool AddTo(KvEventBatch& batch);

  // Views into the payload, as are others of its fields.
  std::string_view type;

  static constexpr std::string_view kStored = "BlockStored";
  static constexpr std::string_view kRemoved = "BlockRemoved";
  static constexpr std::string_view kCleared = "AllBlocksCleared";

 private:
  std::optional<EngineKey> ReadHash(MsgpackReader& in);
  void ReadHashes();
  void ReadTokens(MsgpackReader& in);
  uint32_t ReadSmall(MsgpackReader& in);
  std::string_view ReadOptionalText(MsgpackReader& in);
  void ReadMedium(MsgpackReader& in);
  void ReadLoraId(MsgpackReader& in);
  void ReadExtras();
  void AddStored(KvEventBatch& batch);

  const EngineKeyFold& fold_;
  KvEventPlaces& places_;
  bool bad_ = false;  // a field is of another kind than it should be
  KvStored stored_;
  std::string_view medium_;
  std::string_view lora_name_;
  std::string lora_id_;
  // Read when the group and the adapter are known.
  ByteSpan hashes_;
  ByteSpan parent_;
  ByteSpan extra_keys_;
};

}  // namespace ember::router
