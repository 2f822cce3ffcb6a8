#include "tests/crash/key_range.h"

namespace ember::testing {

using Kind = Promise::Kind;

Kind KeyRange::Holds(const Promise& promise) const {
  if (promise.kind != Kind::kMemory || promise.life == lives_->Now().life) return promise.kind;
  const bool kept = orderly_keeps_ && lives_->EndOf(promise.life) == Lives::End::kOrderly;
  return kept ? Kind::kDisk : Kind::kPossible;
}

void KeyRange::PutEnds(Promise* promise, bool on_disk, Moment begin, Moment end) const {
  promise->kind = Holds(*promise);
  if (on_disk) {
    promise->kind = Kind::kDisk;
  } else if (promise->kind == Kind::kPossible && begin.life == end.life) {
    *promise = {Kind::kMemory, end.life};
  }
}

void KeyRange::PurgeBegins() {
  for (OwnedChain& chain : chains_) {
    for (Promise& promise : chain.promises) {
      if (promise.kind != Kind::kNone && promise.kind != Kind::kPurged) {
        promise.kind = Kind::kPossible;
      }
    }
  }
}

void KeyRange::PurgeEnds() {
  for (OwnedChain& chain : chains_) {
    for (Promise& promise : chain.promises) {
      if (promise.kind != Kind::kNone) promise.kind = Kind::kPurged;
    }
  }
}

std::string_view NameOf(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "never put";
    case Kind::kPossible:
      return "not promised";
    case Kind::kMemory:
      return "acknowledged in memory";
    case Kind::kDisk:
      return "acknowledged on disk";
    case Kind::kPurged:
      return "purged";
  }
  return "";
}

}  // namespace ember::testing
