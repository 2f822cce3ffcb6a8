#include "proto/base/checksum.h"

#include <xxhash.h>
#if defined(__x86_64__)
// Takes AVX2 or AVX-512 where the processor has them: twice the speed of the plain build.
#include <xxh_x86dispatch.h>
#endif

#include "proto/base/random.h"

namespace ember {
namespace {
Checksum Canonical(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  Checksum out;
  std::memcpy(out.data(), canonical.digest, out.size());
  return out;
}
}  // namespace

Checksum Xxh3Of(ByteSpan bytes, uint64_t seed) {
  return Canonical(XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
}

SecretHash::SecretHash() {
  static_assert(sizeof secret_ >= XXH3_SECRET_SIZE_MIN);
  SystemRandom random;
  for (size_t i = 0; i < secret_.size(); i += sizeof(uint64_t)) {
    const uint64_t draw = random.Next();
    std::memcpy(secret_.data() + i, &draw, sizeof draw);
  }
}

Checksum SecretHash::Of(ByteSpan bytes) const {
  // Only ever compared within the process, so the byte order does not matter.
  const XXH128_hash_t hash =
      XXH3_128bits_withSecret(bytes.data(), bytes.size(), secret_.data(), secret_.size());
  Checksum out;
  std::memcpy(out.data(), &hash, out.size());
  return out;
}

uint64_t Xxh3Of64(ByteSpan bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

struct ChecksumStream::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() { XXH3_128bits_reset(xxh); }
  ~State() { XXH3_freeState(xxh); }
};

ChecksumStream::ChecksumStream() : state_(std::make_unique<State>()) {}
ChecksumStream::~ChecksumStream() = default;
ChecksumStream::ChecksumStream(ChecksumStream&&) noexcept = default;
ChecksumStream& ChecksumStream::operator=(ChecksumStream&&) noexcept = default;
void ChecksumStream::Update(ByteSpan bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}
Checksum ChecksumStream::Digest() const { return Canonical(XXH3_128bits_digest(state_->xxh)); }

}  // namespace ember
