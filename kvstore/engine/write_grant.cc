#include "kvstore/engine/write_grant.h"

#include "kvstore/engine/shard_engine.h"

namespace ember::kv {

WriteGrant::WriteGrant(WriteGrant&& other) noexcept
    : engine_(other.engine_),
      token_(other.token_),
      attempt_(std::exchange(other.attempt_, nullptr)),
      memory_(other.memory_) {}

WriteGrant::~WriteGrant() {
  if (attempt_ != nullptr) engine_->EndWrite(token_, attempt_);
}

void WriteGrant::Advance(size_t n) {
  attempt_->hash.Update(memory_.first(n));
  attempt_->received += n;
  attempt_->last_progress = engine_->clock().Now();
  memory_ = memory_.subspan(n);
}

}  // namespace ember::kv
