#include "router/fleet/health.h"

#include <algorithm>
#include <cmath>

namespace ember::router {
namespace {

constexpr int kSlowProbes = 3;
constexpr int kMinStrikes = 6;
constexpr int kMinLeft = 3;  // clients in a row
constexpr int kMaxRun = 1000;
// How improbable a run has to be as one of its peers: on trial less is enough.
constexpr double kChance = 1e-6, kChanceOnTrial = 1e-2;
// Replies without a failure that every replica is taken to have given.
constexpr double kGoodFaith = 2;
// A replica that was up this long has a clean record.
constexpr Duration kCleanRecord = seconds(60);

int StrikesOf(Health::Reply reply) {
  switch (reply) {
    case Health::Reply::kServerError:
      return 1;  // six in a row
    case Health::Reply::kReset:
      return 2;
    case Health::Reply::kTimeout:
      return 3;
    case Health::Reply::kGood:
      break;
  }
  return 0;
}

// Failures in a row that are less probable than `chance` where this share of all fails.
double RunBeyond(double chance, double failing) {
  if (failing <= 0) return 0;
  return failing >= 1 ? kMaxRun + 1 : std::log(chance) / std::log(failing);
}

Ejection EjectionFor(Health::Reply reply) {
  return reply == Health::Reply::kReset     ? Ejection::kReset
         : reply == Health::Reply::kTimeout ? Ejection::kTimeout
                                            : Ejection::kServerError;
}

}  // namespace

std::string_view EjectionName(Ejection reason) {
  switch (reason) {
    case Ejection::kProbe:
      return "probe";
    case Ejection::kHung:
      return "hung";
    case Ejection::kConnect:
      return "connect";
    case Ejection::kReset:
      return "reset";
    case Ejection::kTimeout:
      return "timeout";
    case Ejection::kServerError:
      return "server_error";
    case Ejection::kAgent:
      return "agent";
  }
  return "unknown";
}

void Health::OnProbe(const Status& status, TimePoint now) {
  if (!status.ok()) {
    const bool slow = status.code() == StatusCode::kDeadline;
    if (slow && ++slow_ < kSlowProbes) return;
    probed_ = true;
    why_ = "probe: " + status.ToString();
    if (state_ == State::kJoining) return;
    return Eject(slow ? Ejection::kHung : Ejection::kProbe, why_, Duration::zero(), now);
  }
  slow_ = 0;
  if (state_ == State::kJoining) return MoveUp(now);
  // That one which gave no answers has not failed yet says nothing before it gives one.
  const bool proven = ejection_ != Ejection::kTimeout || alive_at_ > since_;
  if (state_ == State::kTrial && proven && now - since_ >= options_.trial_time) return MoveUp(now);
  if (state_ != State::kEjected || now < held_until_) return;
  state_ = State::kTrial;
  since_ = now;
  good_replies_ = 0;
  EndRun();
  left_ = 0;
  why_.clear();
}

void Health::OnConnectFailure(const Status& why, TimePoint now) {
  Eject(Ejection::kConnect, "request: " + why.ToString(), Duration::zero(), now);
}

void Health::OnReply(Reply reply, const std::string& what, const Peers& peers, TimePoint now) {
  if (state_ == State::kEjected || state_ == State::kJoining) return;
  Note(reply != Reply::kGood, now);
  if (reply == Reply::kGood) {
    EndRun();
    if (state_ == State::kTrial && ++good_replies_ >= static_cast<int>(kTrialRequests)) MoveUp(now);
    return;
  }
  if (run_ == 0) before_run_ = peers.replies;
  run_ = std::min(run_ + 1, kMaxRun);
  strikes_ = std::min(strikes_ + StrikesOf(reply), kMinStrikes);
  const bool on_trial = state_ == State::kTrial;
  if (!peers.can_spare || (strikes_ < kMinStrikes && !on_trial)) return;
  // How bad a failure is says nothing of whose fault it is.
  if (run_ < RunBeyond(on_trial ? kChanceOnTrial : kChance, FailingElsewhere(peers))) return;
  PutOutForReplies(EjectionFor(reply), "replies: " + what, now);
}

double Health::FailingElsewhere(const Peers& peers) const {
  // However short or long the run: what a client sends all at once, or once an hour, fails
  // elsewhere meanwhile. Fewer than before: one of them left.
  const auto all = static_cast<double>(peers.replies.all - before_run_.all);
  const auto failed = static_cast<double>(peers.replies.failed - before_run_.failed);
  return std::max(peers.failing, all <= 0 ? 0 : failed / (all + kGoodFaith));
}

void Health::OnLeft(TimePoint sent, const Peers& peers, TimePoint now) {
  if (state_ == State::kEjected || state_ == State::kJoining) return;
  const bool on_trial = state_ == State::kTrial;
  if (sent <= alive_at_ || (on_trial && sent < since_)) return;
  if (left_++ == 0) left_from_ = sent;
  if (left_ < kMinLeft && !on_trial) return;
  // Where nobody answers it may be the clients, or what all replicas hang on.
  if (!peers.can_spare || peers.alive_at <= left_from_) return;
  PutOutForReplies(Ejection::kTimeout, "replies: none before their clients left", now);
}

void Health::OnExcusedReply(TimePoint now) { Note(true, now); }

void Health::Note(bool failed, TimePoint now) {
  ++replies_.all;
  replies_.failed += failed ? 1 : 0;
  for (Record* record : {&seconds_, &minutes_}) {
    record->replies.Add(1, now);
    if (failed) record->failures.Add(1, now);
  }
}

void Health::PutOutForReplies(Ejection reason, std::string why, TimePoint now) {
  const bool clean = state_ == State::kUp && now - since_ >= kCleanRecord;
  const Duration hold = clean || next_hold_ == Duration::zero() ? options_.first_hold : next_hold_;
  next_hold_ = std::min(2 * hold, options_.longest_hold);
  Eject(reason, std::move(why), hold, now);
}

void Health::Eject(Ejection reason, std::string why, Duration hold, TimePoint now) {
  why_ = std::move(why);
  if (state_ == State::kEjected) {
    ejection_ = reason;  // one that cut replies and is dead is not out for its replies
    return;
  }
  state_ = State::kEjected;
  since_ = now;
  ejection_ = reason;
  held_until_ = now + hold;
  EndRun();
}

void Health::MoveUp(TimePoint now) {
  state_ = State::kUp;
  since_ = now;
  why_.clear();
}

std::optional<Ejection> Health::ejection() const {
  if (state_ == State::kJoining || usable()) return {};
  return state_ == State::kEjected ? ejection_ : Ejection::kAgent;
}

bool Health::out_for_replies() const {
  return state_ == State::kEjected &&
         (ejection_ == Ejection::kReset || ejection_ == Ejection::kTimeout ||
          ejection_ == Ejection::kServerError);
}

double Health::failing(TimePoint now) const {
  const auto share = [&](const Record& record) {
    return record.failures.At(now) / (record.replies.At(now) + kGoodFaith);
  };
  return std::max(share(seconds_), share(minutes_));
}

std::string Health::why() const {
  if (state_ == State::kJoining || state_ == State::kEjected) return why_;
  return usable() ? "" : "its agent reports it unhealthy";
}

Duration Health::probe_delay() const {
  const bool down = state_ == State::kJoining || state_ == State::kEjected;
  return down ? std::min<Duration>(options_.probe_interval, milliseconds(250))
              : options_.probe_interval;
}

}  // namespace ember::router
