#include "proto/model/kv_namespace.h"

#include <openssl/evp.h>

#include <cerrno>
#include <fstream>

#include "proto/model/identity_record.h"

namespace ember {
namespace {

class Sha256Stream {
 public:
  Sha256Stream() : context_(EVP_MD_CTX_new()) {
    EVP_DigestInit_ex(context_, EVP_sha256(), nullptr);
  }
  ~Sha256Stream() { EVP_MD_CTX_free(context_); }
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;
  void Update(ByteSpan b) { EVP_DigestUpdate(context_, b.data(), b.size()); }
  Sha256Digest Finish() {
    Sha256Digest out;
    EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(out.data()), nullptr);
    return out;
  }

 private:
  EVP_MD_CTX* context_;
};

}  // namespace

Sha256Digest Sha256(ByteSpan bytes) {
  Sha256Stream stream;
  stream.Update(bytes);
  return stream.Finish();
}

Result<Sha256Digest> Sha256OfFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFoundError(path + ": " + std::strerror(errno));
  Sha256Stream stream;
  Bytes buffer(1 << 20);
  while (file) {
    file.read(reinterpret_cast<char*>(buffer.data()), static_cast<std::streamsize>(buffer.size()));
    stream.Update(ByteSpan(buffer).first(static_cast<size_t>(file.gcount())));
  }
  if (file.bad()) return UnavailableError(path + ": read failed");
  return stream.Finish();
}

Bytes CanonicalRecord(const KvNamespace& ns) {
  IdentityRecord record;
  record.Put(IdentityTag::kEngine, ns.engine);
  record.Put(IdentityTag::kEngineVersion, ns.engine_version);
  record.Put(IdentityTag::kContextType, ns.context_type);
  record.Put(IdentityTag::kWeightsDigest, ns.weights_digest);
  record.Put(IdentityTag::kTokenizerDigest, ns.tokenizer_digest);
  record.Put(IdentityTag::kAdapterDigest, ns.adapter_digest);
  record.Put(IdentityTag::kTenant, ns.tenant);
  record.Put(IdentityTag::kSalt, ns.salt);
  record.PutLayout(ns.layout);
  auto tag = static_cast<uint16_t>(IdentityTag::kFirstExtra);
  for (const auto& [name, value] : ns.extra) {
    Bytes pair;
    ByteWriter w(&pair);
    w.PutSized(AsBytes(name));
    w.PutSized(AsBytes(value));
    record.Put(static_cast<IdentityTag>(tag++), pair);
  }
  return record.Finish();
}

NamespaceRoot RootOf(const KvNamespace& ns) {
  NamespaceRoot root;
  root.proof = Sha256(CanonicalRecord(ns));
  std::memcpy(&root.seed, root.proof.data(), sizeof root.seed);
  std::memcpy(root.id.bytes.data(), root.proof.data() + 16, root.id.bytes.size());
  return root;
}

}  // namespace ember
