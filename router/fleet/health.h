// Health: whether a replica may be sent requests, from four witnesses: probes, connections that
// could not be made, what its replies say, and its agent's own report. A pure state machine; one
// thread.
//
//   joining --good probe--> up <--good replies, or time-- trial <--good probe-- ejected
//   any of them --failed connection, bad probe, three slow probes, or a run of failures--> ejected
//
// A busy engine answers probes late, so slow ones count only three in a row. A run of failures is
// weighed: a reply that never began says more than a 500. It puts the replica out for a hold,
// longer each time it happens again, for its probes may well be good; the other witnesses hold
// nothing, so that a replica that is back is tried with the next probe. What a client did wrong
// (4xx) is never a witness, and what its peers fail at too is a weak one: the more of their replies
// fail, the longer a run has to be before it says something about this replica.
// A client that leaves is none either, but clients that left one after the other, each after a wait
// far beyond what is usual, say that it hangs, if it has computed nothing for anybody all the while
// and others have.
#pragma once

#include <optional>
#include <string>

#include "proto/base/status.h"
#include "proto/base/time.h"
#include "router/estimate/decaying_sum.h"

namespace ember::router {

struct HealthOptions {
  Duration probe_interval = seconds(1);
  Duration probe_timeout = seconds(2);
  Duration first_hold = seconds(1);  // of a replica put out for its replies; doubles
  Duration longest_hold = seconds(30);
  Duration trial_time = seconds(2);  // without a failure, and a trial is over
};

// Why a replica was put out; a metric's label.
enum class Ejection : uint8_t { kProbe, kHung, kConnect, kReset, kTimeout, kServerError, kAgent };
inline constexpr size_t kEjectionReasons = 7;
std::string_view EjectionName(Ejection reason);

class Health {
 public:
  enum class State : uint8_t { kJoining, kUp, kTrial, kEjected };
  // How one attempt at the replica ended, of those that say something about it.
  enum class Reply : uint8_t { kGood, kReset, kTimeout, kServerError };

  // Over a replica's life.
  struct Replies {
    int64_t all = 0, failed = 0;
  };

  // The other replicas that take the same requests.
  struct Peers {
    // Enough of them are usable. Else it is not put out by what its replies say: its errors are
    // better answers than ours.
    bool can_spare = true;
    double failing = 0;  // the mean of their `failing`
    Replies replies;     // of all of them
    TimePoint alive_at;  // when the newest sign of life of any came
  };

  // Requests at once while on trial.
  static constexpr uint32_t kTrialRequests = 4;

  explicit Health(const HealthOptions& options = {}) : options_(options) {}

  // `status` of a probe: OK, kDeadline when it was too slow, anything else when it failed.
  void OnProbe(const Status& status, TimePoint now);
  void OnConnectFailure(const Status& why, TimePoint now);
  void OnReply(Reply reply, const std::string& what, const Peers& peers, TimePoint now);
  // It has computed something, whoever for. Probes show no such thing.
  void OnSignOfLife(TimePoint now) {
    alive_at_ = now;
    left_ = 0;
  }
  TimePoint alive_at() const { return alive_at_; }
  // The client of a request that was sent at `sent` left, without any reply, after far more than
  // the usual time.
  void OnLeft(TimePoint sent, const Peers& peers, TimePoint now);
  // A failure that was the request's fault; it only shows how many there are.
  void OnExcusedReply(TimePoint now);
  void OnAgentReport(bool healthy) { reported_ = healthy; }
  void OnAgentLost() { reported_.reset(); }

  State state() const { return state_; }
  bool usable() const {
    return (state_ == State::kUp || state_ == State::kTrial) && reported_.value_or(true);
  }
  // Nothing is known of it yet: the first probe is still out.
  bool untried() const { return state_ == State::kJoining && !probed_; }
  // Why not, for people; "" when usable.
  std::string why() const;
  // Why it is out, unless it is usable or joining.
  std::optional<Ejection> ejection() const;
  // It is out because of what its replies said.
  bool out_for_replies() const;
  // The share of its replies that failed, in the last seconds or the last minutes, whichever is
  // more; few ones count as less.
  double failing(TimePoint now) const;
  const Replies& replies() const { return replies_; }
  // Until the next probe: soon while down, so that a replica that is back is used at once.
  Duration probe_delay() const;

 private:
  void Eject(Ejection reason, std::string why, Duration hold, TimePoint now);
  void PutOutForReplies(Ejection reason, std::string why, TimePoint now);
  void MoveUp(TimePoint now);
  void EndRun() { run_ = strikes_ = 0; }
  // What share of its peers' replies fails, as far as that can explain a run here.
  double FailingElsewhere(const Peers& peers) const;
  void Note(bool failed, TimePoint now);

  // Replies of late.
  struct Record {
    explicit Record(Duration memory) : failures(memory), replies(memory) {}
    DecayingSum failures, replies;
  };

  HealthOptions options_;
  State state_ = State::kJoining;
  std::optional<bool> reported_;
  Ejection ejection_ = Ejection::kProbe;  // the newest one
  std::string why_ = "not probed yet";
  bool probed_ = false;  // with an answer, of whatever kind
  int slow_ = 0;         // probes in a row
  int run_ = 0;          // failures since the last good reply
  int strikes_ = 0;      // the same, weighed
  Replies before_run_;   // its peers'
  Replies replies_;
  // A burst shows in seconds, what comes now and then in minutes.
  Record seconds_{seconds(10)}, minutes_{seconds(300)};
  int good_replies_ = 0;  // while on trial
  TimePoint alive_at_;    // the newest sign of life
  int left_ = 0;          // clients, since then
  TimePoint left_from_;   // when the request of the first of them was sent
  TimePoint since_;       // of the state
  TimePoint held_until_;
  Duration next_hold_ = Duration::zero();  // zero: the first one
};

}  // namespace ember::router
