#include "client/agent/identity.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "proto/base/checksum.h"

namespace ember::agent {
namespace {
// GGUF metadata (mostly the vocabulary) is what a file has beyond its tensors.
constexpr uint64_t kMaxMetadataBytes = 256u << 20;

struct ElementType {
  int32_t number;  // in ggml
  const char* name;
  uint32_t block_elements;
  uint32_t block_bytes;
};
constexpr std::array kElementTypes = {
    ElementType{0, "f32", 1, 4},      ElementType{1, "f16", 1, 2},
    ElementType{30, "bf16", 1, 2},    ElementType{2, "q4_0", 32, 18},
    ElementType{3, "q4_1", 32, 20},   ElementType{6, "q5_0", 32, 22},
    ElementType{7, "q5_1", 32, 24},   ElementType{8, "q8_0", 32, 34},
    ElementType{20, "iq4_nl", 32, 18}};

ElementType TypeOf(int32_t number) {
  for (const ElementType& type : kElementTypes) {
    if (type.number == number) return type;
  }
  return {number, nullptr, 1, 1};
}

std::string TypeName(int32_t number) {
  const ElementType type = TypeOf(number);
  return type.name != nullptr ? type.name : "ggml-" + std::to_string(number);
}

int64_t ModifiedNs(const struct stat& info) {
  return int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
}

KvLayout LayoutOf(const SlotShape& shape) {
  const SlotPlane& key = shape.planes.front();
  const ElementType type = TypeOf(key.type);
  KvLayout out;
  out.tokens_per_block = kTokensPerBlock;
  out.layers = shape.layers;
  out.kv_heads = 1;  // a row holds all heads of a token; the file does not say how many they are
  out.head_size = std::max(1u, key.row_bytes / type.block_bytes * type.block_elements);
  out.key_type = TypeName(key.type);
  out.value_type = TypeName(shape.planes.back().type);
  // The digest of the whole shape, for layers may differ among themselves.
  const Checksum planes = Xxh3Of(shape.PayloadHeader(kTokensPerBlock));
  out.order = "llama.slot.v4." + ToHex(planes);
  return out;
}
}  // namespace

Result<ModelFile> ModelFile::Read(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return NotFoundError("model file " + path + ": " + std::strerror(errno));
  }
  Result<Sha256Digest> digest = Sha256OfFile(path);
  if (!digest.ok()) return digest.status().WithContext("model file " + path);
  return ModelFile{path, static_cast<uint64_t>(info.st_size), ModifiedNs(info), *digest};
}

bool ModelFile::Unchanged() const {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && static_cast<uint64_t>(info.st_size) == bytes &&
         ModifiedNs(info) == modified_ns;
}

Status CheckSameModel(const ModelFile& file, const EngineProps& props, uint64_t tensor_bytes) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path ours(file.path), theirs(props.model_path);
  const bool same =
      fs::equivalent(ours, theirs, error) || (error && ours.filename() == theirs.filename());
  if (!same) {
    return MismatchError("the engine runs " + props.model_path + ", not --model-file " + file.path);
  }
  if (tensor_bytes > file.bytes || tensor_bytes + kMaxMetadataBytes < file.bytes) {
    return MismatchError("the engine's model has " + std::to_string(tensor_bytes) +
                         " bytes of tensors, which does not fit " + file.path + " of " +
                         std::to_string(file.bytes) + " bytes");
  }
  return OkStatus();
}

Result<EngineIdentity> MakeIdentity(const IdentityOptions& options, const ModelFile& file,
                                    const EngineProps& props, const SlotShape& shape) {
  if (shape.planes.empty()) return InvalidError("identity: the probed slot was empty");
  EngineIdentity out;
  out.ns.engine = "llama.cpp";
  out.ns.engine_version = props.build;
  // One stream and V not transposed: else the slot file would have been refused.
  out.ns.context_type = "kvu,fa," + options.engine_settings;
  out.ns.weights_digest = file.digest;
  out.ns.layout = LayoutOf(shape);
  out.ns.tenant = options.tenant;
  out.ns.salt = options.salt;
  EMBER_RETURN_IF_ERROR(Validate(out.ns.layout));
  out.root = RootOf(out.ns);
  out.layout = DigestOf(out.ns.layout);
  out.shape = shape;
  out.props = props;
  return out;
}

}  // namespace ember::agent
