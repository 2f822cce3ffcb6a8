#include "kvstore/server/data_message.h"

namespace ember::kv {

Result<SegmentName> SegmentNameOf(const std::string& bytes) {
  SegmentName name;
  constexpr size_t kPart = sizeof(BlockHash);
  if (bytes.size() != 3 * kPart) return InvalidError("a segment's name has 48 bytes");
  std::memcpy(name.key.ns.bytes.data(), bytes.data(), kPart);
  std::memcpy(name.key.hash.bytes.data(), bytes.data() + kPart, kPart);
  std::memcpy(name.placement.bytes.data(), bytes.data() + 2 * kPart, kPart);
  return name;
}

Result<GenerationId> GenerationOf(const std::string& bytes) {
  GenerationId generation;
  if (bytes.size() != 16) return InvalidError("a generation has 16 bytes");
  std::memcpy(&generation.high, bytes.data(), 8);
  std::memcpy(&generation.low, bytes.data() + 8, 8);
  return generation;
}

std::string BytesOf(const GenerationId& generation) {
  std::string bytes(16, '\0');
  std::memcpy(bytes.data(), &generation.high, 8);
  std::memcpy(bytes.data() + 8, &generation.low, 8);
  return bytes;
}

Result<std::vector<SegmentName>> FromProto(const rpc::MatchSegmentsRequest& request) {
  if (request.names_size() > kMaxNamesPerCall) return InvalidError("more than 4096 names");
  std::vector<SegmentName> names;
  for (const std::string& bytes : request.names()) {
    Result<SegmentName> name = SegmentNameOf(bytes);
    if (!name.ok()) return name.status();
    names.push_back(*name);
  }
  return names;
}

Status Check(const rpc::GetSegmentsRequest& request) {
  if (request.items_size() > kMaxNamesPerCall) return InvalidError("more than 4096 items");
  for (const rpc::GetSegment& item : request.items()) {
    EMBER_RETURN_IF_ERROR(SegmentNameOf(item.name()).status());
  }
  return OkStatus();
}

}  // namespace ember::kv
