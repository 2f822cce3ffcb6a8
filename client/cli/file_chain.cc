#include "client/cli/file_chain.h"

namespace ember::cli {
namespace {

constexpr uint32_t kMagic = 0x4c494645;  // "EFIL"
constexpr uint16_t kFormat = 1;
constexpr uint32_t kTokensPerBlock = 64;  // so that a block is a segment

// What is not a model has no shape; the sizes only have to be the same for every file.
KvNamespace FileNamespace(std::string_view kind) {
  KvNamespace ns;
  ns.engine = "file";
  ns.engine_version = "1";
  ns.context_type = kind;
  ns.layout = {.tokens_per_block = kTokensPerBlock,
               .layers = 1,
               .kv_heads = 1,
               .head_size = 1,
               .key_type = "u8",
               .value_type = "u8",
               .order = "file.v1"};
  return ns;
}

void AppendTokens(const Sha256Digest& subject, uint64_t index, std::vector<TokenId>* out) {
  const size_t begin = out->size();
  out->resize(begin + kTokensPerBlock);
  TokenId* tokens = out->data() + begin;
  static_assert(sizeof subject + sizeof index <= kTokensPerBlock * sizeof(TokenId));
  std::memcpy(tokens, subject.data(), sizeof subject);
  std::memcpy(tokens + sizeof subject / sizeof(TokenId), &index, sizeof index);
}

}  // namespace

Bytes Encode(const FileManifest& manifest) {
  Bytes out;
  ByteWriter writer(&out);
  writer.Put(kMagic);
  writer.Put(kFormat);
  writer.Put(manifest.size);
  writer.PutRaw(manifest.digest);
  return out;
}

Result<FileManifest> DecodeFileManifest(ByteSpan bytes) {
  ByteReader reader(bytes);
  FileManifest manifest;
  const bool known = reader.Get<uint32_t>() == kMagic && reader.Get<uint16_t>() == kFormat;
  manifest.size = reader.Get<uint64_t>();
  if (ByteSpan digest = reader.GetRaw(manifest.digest.size()); !digest.empty()) {
    std::memcpy(manifest.digest.data(), digest.data(), digest.size());
  }
  EMBER_RETURN_IF_ERROR(reader.Finish("file manifest"));
  if (!known || manifest.size > kMaxFileBytes) {
    return InvalidError("file manifest: not one, or of a newer version");
  }
  return manifest;
}

FileChain::FileChain(std::string_view kind, const Sha256Digest& subject, uint64_t segments) {
  const KvNamespace ns = FileNamespace(kind);
  layout_ = DigestOf(ns.layout);
  tokens_.reserve(segments * kTokensPerBlock);
  for (uint64_t i = 0; i < segments; ++i) AppendTokens(subject, i, &tokens_);
  HashChain chain(RootOf(ns), kTokensPerBlock);
  chain.Append(tokens_);
  refs_ = CutSegments(chain);
}

FileChain FileChain::OfName(const std::string& name) {
  return FileChain("manifest", Sha256(AsBytes(name)), 1);
}

FileChain FileChain::OfContent(const FileManifest& manifest) {
  return FileChain("content", manifest.digest, manifest.chunk_count());
}

std::span<const TokenId> FileChain::tokens(size_t segment) const {
  return std::span(tokens_).subspan(segment * kTokensPerBlock, kTokensPerBlock);
}

}  // namespace ember::cli
