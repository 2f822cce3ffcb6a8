#include "router/events/event_stream.h"

#include <algorithm>
#include <string>
#include <utility>

#include "router/events/kv_event_decoder.h"

namespace ember::router {

void EventStream::OnConnected(TimePoint now) {
  last_live_.reset();
  DropHeld();
  failures_ = 0;
  if (!options_.has_replay) {
    if (next_) Lose(UnavailableError("the connection was new, and there is no replay to compare"));
    next_.reset();
    return;
  }
  Ask(!next_ ? Purpose::kJoin : *next_ == 0 ? Purpose::kGap : Purpose::kVerify, now);
}

void EventStream::OnLive(uint64_t sequence, ByteSpan payload, TimePoint now) {
  const uint64_t digest = Xxh3Of64(payload);
  if (last_live_ && sequence == *last_live_ && digest == last_live_digest_) return;
  const bool went_back = last_live_ && sequence <= *last_live_;
  // A replay may have brought what is read only now, but then it is the same.
  const bool another = next_ && sequence < *next_ && !IsKnown(sequence, digest);
  const bool hole = last_live_ ? sequence > *last_live_ + 1
                               : seen_live_ && phase_ == Phase::kLive && next_ && sequence > *next_;
  if (hole) metrics_.gaps.Add();
  seen_live_ = true;
  last_live_ = sequence;
  last_live_digest_ = digest;
  if (went_back || another) {
    if (went_back) DropHeld();
    Restart(UnavailableError("the publisher began anew"));
  }
  // A publisher's first batch: nothing is before it that could be asked for.
  if (!next_ && sequence == 0) {
    phase_ = Phase::kLive;
    Begin(0);
  }
  if (phase_ != Phase::kLive) {
    Hold(sequence, payload, now);
    DrainHeld();
    if (phase_ == Phase::kReplaying && held_.empty() && purpose_ == Purpose::kGap) FinishReplay();
    return;
  }
  if (!next_) {
    if (sequence != 0 && options_.has_replay && !resync_at_) {
      Hold(sequence, payload, now);
      return Ask(Purpose::kJoin, now);
    }
    Begin(sequence);
  }
  if (sequence < *next_) return;  // a replay brought it
  if (sequence > *next_) {
    if (options_.has_replay) {
      Hold(sequence, payload, now);
      failures_ = 0;
      return Ask(Purpose::kGap, now);
    }
    Lose(UnavailableError("batches " + std::to_string(*next_) + " to " +
                          std::to_string(sequence - 1) + " are missing, and there is no replay"));
    Begin(sequence);
  }
  if (Apply(sequence, payload, true)) return;
  metrics_.gaps.Add();
  unreadable_ = sequence;
  if (options_.has_replay) {
    failures_ = 0;
    Ask(Purpose::kGap, now);
  } else {
    ApplyOrLose(sequence, payload, true);
  }
}

bool EventStream::TakeFirstAnswer(uint64_t sequence, ByteSpan payload, TimePoint now) {
  if (purpose_ == Purpose::kVerify) {
    if (sequence < *next_ && IsKnown(sequence, Xxh3Of64(payload))) {
      reconnected_ = true;
      purpose_ = Purpose::kGap;
      return false;
    }
    if (sequence < *next_) {
      Restart(UnavailableError("another publisher answers"));
      Ask(Purpose::kJoin, now);
      return false;
    }
  }
  if (purpose_ == Purpose::kProbe) {
    if (sequence >= known_since_) {
      resync_wanted_ = false;  // no older one can be repeated than those that are known
      Settle(now);
    } else if (DecodeKvEventBatch(payload, options_.keys).ok()) {
      Ask(Purpose::kJoin, now);
    } else {
      GiveUp(CorruptError("batch " + std::to_string(sequence) + " still can't be read"), now);
    }
    return false;
  }
  if (purpose_ != Purpose::kGap || sequence > *next_) {
    if (next_) {
      Lose(UnavailableError("the publisher can't repeat what is before batch " +
                            std::to_string(sequence)));
    }
    Begin(sequence);
    // It is all that the publisher can repeat.
    resync_wanted_ = false;
    resync_at_.reset();
  }
  purpose_ = Purpose::kGap;
  return true;
}

void EventStream::OnReplayed(uint64_t sequence, ByteSpan payload, TimePoint now) {
  if (phase_ != Phase::kReplaying) return;
  if (!std::exchange(answered_, true)) {
    deadline_ = now + options_.stall;
    if (!TakeFirstAnswer(sequence, payload, now)) return;
  }
  if (sequence < *next_) return;
  if (sequence > *next_) {
    // The publisher's socket was full in the middle of its answer.
    if (!progressed_) return OnReplayBroken(UnavailableError("the replay has a hole"), now);
    return Ask(Purpose::kGap, now);
  }
  if (std::exchange(reconnected_, false)) metrics_.gaps.Add();
  if (!Apply(sequence, payload, false)) {
    if (std::exchange(unreadable_, sequence) != sequence) {
      return OnReplayBroken(CorruptError("a batch can't be read"), now);
    }
    LoseUnreadable(sequence, payload);
  }
  progressed_ = true;
  failures_ = 0;
  skipped_ = 0;
  deadline_ = now + options_.stall;
  if (held_.empty()) return;
  DrainHeld();
  if (held_.empty()) FinishReplay();
}

void EventStream::OnReplayEnd(TimePoint now) {
  if (phase_ != Phase::kReplaying) return;
  if (!answered_) {
    if (purpose_ == Purpose::kVerify) {
      Restart(UnavailableError("the publisher has fewer batches than before"));
      return Ask(Purpose::kJoin, now);
    }
    // Nothing was ever published, or nothing is kept.
    if (!next_) Begin(0);
    resync_at_.reset();
    purpose_ = Purpose::kGap;
  }
  DrainHeld();
  if (!held_.empty() && !progressed_ && had_target_) {
    SkipToHeld(UnavailableError("the publisher can't repeat batch " + std::to_string(*next_)));
  }
  Settle(now);
}

void EventStream::OnReplayBroken(const Status& why, TimePoint now) {
  if (phase_ != Phase::kReplaying) return;
  if (!progressed_ && ++failures_ >= options_.attempts &&
      !(why.code() == StatusCode::kCorrupt && SkipNext(why))) {
    return GiveUp(why, now);
  }
  phase_ = Phase::kPausing;
  deadline_ = now + options_.first_pause * (1 << std::min(failures_, 10));
}

void EventStream::Tick(TimePoint now) {
  if (phase_ == Phase::kLive) {
    if (resync_at_ && now >= *resync_at_) {
      resync_at_.reset();
      failures_ = 0;
      Ask(next_ ? Purpose::kProbe : Purpose::kJoin, now);
    } else if (std::exchange(resync_wanted_, false) && !resync_at_) {
      PlanResync(now);
    }
    return;
  }
  if (now >= HoldDeadline()) return GiveUp(DeadlineError("the replay takes too long"), now);
  if (now < deadline_) return;
  if (phase_ == Phase::kPausing) return Ask(purpose_, now);
  // Without an end marker, silence after the answers is the end, unless something is missing still.
  if (answered_ && held_.empty()) return FinishReplay();
  OnReplayBroken(DeadlineError("the replay doesn't answer"), now);
}

std::optional<EventStream::Replay> EventStream::replay() const {
  if (phase_ != Phase::kReplaying) return std::nullopt;
  return Replay{replays_, asked_from_};
}

std::optional<TimePoint> EventStream::deadline() const {
  if (phase_ != Phase::kLive) return std::min(deadline_, HoldDeadline());
  if (resync_wanted_ && !resync_at_) return TimePoint();  // to be planned
  return resync_at_;
}

void EventStream::Ask(Purpose purpose, TimePoint now) {
  purpose_ = purpose;
  phase_ = Phase::kReplaying;
  switch (purpose) {
    case Purpose::kJoin:
      asked_from_ = 0;
      break;
    case Purpose::kGap:
      asked_from_ = *next_;
      break;
    case Purpose::kVerify:
      // Without an end marker one that has fewer batches is silent: the last attempt asks for any.
      asked_from_ = failures_ + 1 < options_.attempts ? *next_ - 1 : 0;
      break;
    case Purpose::kProbe:
      asked_from_ = missing_;
      break;
  }
  answered_ = false;
  progressed_ = false;
  reconnected_ = false;
  had_target_ = !held_.empty();
  deadline_ = now + options_.first_answer;
  ++replays_;
  metrics_.replays.Add();
}

void EventStream::FinishReplay() {
  phase_ = Phase::kLive;
  if (!resync_wanted_ && !resync_at_) resync_pause_ = options_.first_resync;
  if (std::exchange(whole_, false)) sink_.OnTrusted();
}

void EventStream::PlanResync(TimePoint now) {
  resync_at_ = now + resync_pause_;
  resync_pause_ = std::min(2 * resync_pause_, options_.longest_resync);
}

void EventStream::Settle(TimePoint now) {
  DrainHeld();
  if (held_.empty()) return FinishReplay();
  Ask(Purpose::kGap, now);
}

void EventStream::SkipToHeld(const Status& why) {
  missing_ = *next_;
  Lose(why);
  Begin(held_.front().sequence);
  DrainHeld();
}

bool EventStream::SkipNext(const Status& why) {
  const bool takes_all = purpose_ == Purpose::kJoin && !next_;
  if ((purpose_ != Purpose::kGap && !takes_all) || skipped_ >= options_.attempts) return false;
  const uint64_t skipped = next_.value_or(0);
  if (!held_.empty() && skipped + 1 >= held_.front().sequence) return false;
  ++skipped_;
  failures_ = 0;
  purpose_ = Purpose::kGap;
  LoseBatch(skipped, 0, why);
  return true;
}

void EventStream::GiveUp(const Status& why, TimePoint now) {
  skipped_ = 0;
  if (next_ && (purpose_ == Purpose::kJoin || purpose_ == Purpose::kProbe)) {
    // What is known is true even when a resync fails.
    PlanResync(now);
    purpose_ = Purpose::kGap;
    failures_ = 0;
    return Settle(now);
  }
  missing_ = next_.value_or(0);
  Lose(why);
  next_.reset();
  phase_ = Phase::kLive;
  if (!held_.empty()) Begin(held_.front().sequence);
  DrainHeld();
  while (!held_.empty()) SkipToHeld(why);
  PlanResync(now);
}

TimePoint EventStream::HoldDeadline() const {
  return held_.empty() ? TimePoint::max() : held_.front().since + options_.longest_hold;
}

void EventStream::Restart(const Status& why) {
  metrics_.restarts.Add();
  Lose(why);
  next_.reset();
  failures_ = 0;
  skipped_ = 0;
  phase_ = Phase::kLive;
  resync_at_.reset();
}

void EventStream::Hold(uint64_t sequence, ByteSpan payload, TimePoint now) {
  // What finds no room is missing later, and asked for then.
  if (held_.size() >= options_.max_held || held_bytes_ + payload.size() > options_.max_held_bytes) {
    return;
  }
  held_bytes_ += payload.size();
  held_.push_back({sequence, Bytes(payload.begin(), payload.end()), now});
}

void EventStream::DropHeld() {
  held_.clear();
  held_bytes_ = 0;
}

void EventStream::DrainHeld() {
  // Until a first answer, nobody knows whether it follows what was applied.
  if (phase_ != Phase::kLive && purpose_ != Purpose::kGap && purpose_ != Purpose::kProbe) return;
  while (next_ && !held_.empty() && held_.front().sequence <= *next_) {
    const Held held = std::move(held_.front());
    held_.pop_front();
    held_bytes_ -= held.payload.size();
    if (held.sequence == *next_) ApplyOrLose(held.sequence, held.payload, true);
  }
}

bool EventStream::Apply(uint64_t sequence, ByteSpan payload, bool live) {
  Result<KvEventBatch> batch = DecodeKvEventBatch(payload, options_.keys);
  if (!batch.ok()) return false;
  Passed(sequence, Xxh3Of64(payload));
  metrics_.batches.Add();
  sink_.OnBatch(*std::move(batch), live);
  return true;
}

void EventStream::Passed(uint64_t sequence, uint64_t digest) {
  next_ = sequence + 1;
  digests_[sequence % digests_.size()] = digest;
}

bool EventStream::IsKnown(uint64_t sequence, uint64_t digest) const {
  return *next_ - sequence <= digests_.size() && digests_[sequence % digests_.size()] == digest;
}

void EventStream::ApplyOrLose(uint64_t sequence, ByteSpan payload, bool live) {
  if (!Apply(sequence, payload, live)) LoseUnreadable(sequence, payload);
}

void EventStream::LoseUnreadable(uint64_t sequence, ByteSpan payload) {
  LoseBatch(sequence, Xxh3Of64(payload),
            CorruptError("batch " + std::to_string(sequence) + " can't be read"));
}

void EventStream::LoseBatch(uint64_t sequence, uint64_t digest, const Status& why) {
  missing_ = sequence;
  Lose(why);
  Passed(sequence, digest);
  known_since_ = *next_;
}

void EventStream::Lose(const Status& why) {
  metrics_.losses.Add();
  resync_wanted_ = options_.has_replay;
  whole_ = false;
  sink_.OnLost(why);
}

void EventStream::Begin(uint64_t sequence) {
  next_ = sequence;
  known_since_ = sequence;
  digests_.fill(0);  // an earlier publisher's, maybe, with the same numbers
  whole_ = sequence == 0;
  if (!whole_) return;
  resync_wanted_ = false;
  if (phase_ == Phase::kLive) FinishReplay();
}

}  // namespace ember::router
