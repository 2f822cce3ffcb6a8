// ReplicaSet: the replicas this router knows, what is known about each, and the requests that it
// has under way at each.
//
// A member is what a policy can choose: a replica, or one data-parallel rank of one. Members have
// numbers, stable as long as they live and given to another only after the last request at them
// has ended. Members of one replica share its Endpoint (health, agent, drain).
//
// Load is counted once: a request of ours counts as in flight until a report that can contain it
// has arrived, and from then on as part of the report; when the reports end all of ours count
// again. Concurrency: one thread (the router's loop). Must outlive its Flights.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/time.h"
#include "proto/model/key_space.h"
#include "proto/model/routing.h"
#include "router/estimate/replica_estimate.h"
#include "router/fleet/agent_event.h"
#include "router/fleet/endpoint.h"
#include "router/fleet/engine_metrics.h"
#include "router/fleet/model_directory.h"
#include "router/fleet/replica_listener.h"
#include "router/index/holder.h"

namespace ember::router {

// Counted over the member's life.
struct ReplicaTotals {
  uint64_t requests = 0;
  uint64_t routed_local = 0;  // by the route that the agent reported
  uint64_t routed_remote = 0;
  uint64_t routed_recompute = 0;
  uint64_t cached_tokens = 0;  // as the engine counted
  uint64_t computed_tokens = 0;
};

class ReplicaSet {
 public:
  struct Member {
    Member(std::shared_ptr<Endpoint> endpoint_in, ReplicaNumber number_in, uint32_t rank_in);

    const std::shared_ptr<Endpoint> endpoint;
    const ReplicaConfig& config;  // the endpoint's
    const ReplicaNumber number;
    const uint32_t rank;  // as the engine numbers it; 0 when it has none
    Replica view;         // what policies see; kept up to date
    ReplicaTotals totals;
    ReplicaEstimate estimate;
    std::optional<EngineLoad> engine_load;  // as it said last, without an agent
    bool agent_has_fit = false;             // the view's prefill model is the agent's
    uint8_t counts_cached = 0;    // a bit for each API whose replies told how much was cached
    HolderId holder = kNoHolder;  // as the index knows it
    std::optional<KeySpace> agent_space;  // how its agent names blocks; nothing: not known
    double service_ms = 0;  // moving average of a request's time there after its prefill
    // Its load as it reports it; policies see it in `view`, without what is ours.
    ReplicaLoad reported() const;
    uint32_t under_way() const { return static_cast<uint32_t>(flights.size()); }
    // Usable, and neither over its limit nor still to prove itself with what it has.
    bool has_room() const;

   private:
    friend class ReplicaSet;
    struct Flight {
      uint64_t prefill_tokens = 0;
      TimePoint started;
      ReplicaEstimate::FlightNumber estimated = 0;
      size_t bytes = 0;   // of its body, until its reply begins
      size_t behind = 0;  // of the largest that waited beside it and left
    };
    std::map<uint64_t, Flight> flights;  // all of ours, in order of their start
    uint64_t first_unreported = 0;       // flights before this number are part of the report
  };

  // What a reply that begins tells of its prefill: that it ended just now, some time ago, or
  // nothing.
  enum class Answer : uint8_t { kStream, kWhole, kNone };

  // One request under way at one member; ends when destroyed. Move-only.
  class [[nodiscard]] Flight {
   public:
    Flight() = default;
    Flight(Flight&& other) noexcept { *this = std::move(other); }
    Flight& operator=(Flight&& other) noexcept;
    ~Flight() { End(); }
    // The request has a body of so many bytes.
    void Carry(size_t bytes) { set_->FlightOf(replica_, number_)->bytes = bytes; }
    // The reply begins: its prefill is no longer ahead of anybody.
    void PrefillDone(Answer answer, TimePoint now);
    // The reply has ended, and its engine counted this.
    void Learn(const ReplyTokens& tokens, TimePoint now);

   private:
    friend class ReplicaSet;
    Flight(ReplicaSet* set, ReplicaNumber replica, uint64_t number)
        : set_(set), replica_(replica), number_(number) {}
    void End();
    ReplicaSet* set_ = nullptr;
    ReplicaNumber replica_ = 0;
    uint64_t number_ = 0;
  };

  explicit ReplicaSet(const HealthOptions& health) : health_(health) {}
  ReplicaSet(const ReplicaSet&) = delete;
  ReplicaSet& operator=(const ReplicaSet&) = delete;

  // Listeners are told of what happens from now on, in the order of their addition.
  void AddListener(ReplicaListener* listener) { listeners_.push_back(listener); }
  // Nobody is told of anything any more.
  void DropListeners() { listeners_.clear(); }
  // Called when a request has ended, a member is usable or is no more, or was probed in vain: who
  // waits for room may look again.
  void SetOnRoom(std::function<void()> on_room) { on_room_ = std::move(on_room); }

  // kInvalid: there is one of that id. kNoSpace: no number is free.
  Status Add(ReplicaConfig config);
  // No new requests from now on; those under way end as they do. kNotFound: none of that id.
  Status Drain(std::string_view id);
  // Ends a Drain.
  Status Resume(std::string_view id);
  // The replica of that id is configured so from now on, and stays what it is; it MayBecome that.
  void Tune(const ReplicaConfig& config);
  // As Drain, and it is no member any more.
  Status Remove(std::string_view id);

  // The members' numbers, ascending.
  const std::vector<ReplicaNumber>& numbers() const { return numbers_; }
  size_t size() const { return numbers_.size(); }
  // Also of a member that was removed, as long as a Flight is there.
  const Member& at(ReplicaNumber replica) const { return *slots_.at(replica); }
  Member& at(ReplicaNumber replica) { return *slots_.at(replica); }
  // Null when there is none of that id.
  const Endpoint* Find(std::string_view id) const { return Shared(id).get(); }
  // One for each replica, in the order of their addition.
  const std::vector<std::shared_ptr<Endpoint>>& endpoints() const { return endpoints_; }
  size_t usable_count() const { return usable_.count(); }

  // Who serves which model.
  const ModelDirectory& models() const { return models_; }
  // Whom a request for `model` ("": it names none) may be sent to, of those that are usable and
  // those that are not.
  MemberSet TakersOf(std::string_view model) const { return models_.TakersOf(model, usable_); }
  const MemberSet& usable() const { return usable_; }

  // `prefill_tokens`, `prefill_ms`: what the request is expected to load and compute there.
  Flight Start(ReplicaNumber replica, uint64_t prefill_tokens, double prefill_ms, TimePoint now);
  // Brings what its estimate knows of a member into its view.
  void Describe(ReplicaNumber replica, TimePoint now);
  void ObserveService(ReplicaNumber replica, double ms);

  void ApplySnapshot(ReplicaNumber replica, const AgentSnapshot& snapshot, TimePoint now);
  void ApplyReport(ReplicaNumber replica, const AgentReport& report, TimePoint now);
  void ApplyLost(ReplicaNumber replica);
  // What an engine without an agent said of itself. Requests of ours go on counting as in flight:
  // such figures may be older than they look, so only what exceeds ours is taken for others'.
  void ApplyEngineLoad(ReplicaNumber replica, const EngineLoad& load, TimePoint now);
  void ForgetEngineLoad(ReplicaNumber replica);
  // It will be asked for its models.
  void AwaitModels(const Endpoint& endpoint);
  // What it answered; nothing: it lists none. One that could not be asked is taken to serve what it
  // served. Models that were declared are only added to, by their adapters.
  void ApplyModels(const Endpoint& endpoint, Result<std::optional<ModelList>> told);
  // It answered that it knows no such model.
  void DoubtModel(ReplicaNumber replica, std::string_view model) const {
    const auto listed = models_.entries().find(model);
    if (listed == models_.entries().end() || !listed->second.members.test(replica)) return;
    for (ReplicaListener* l : listeners_) l->OnModelsDoubted(*at(replica).endpoint);
  }
  // Health's witnesses; `endpoint` may have been removed meanwhile.
  void ApplyProbe(Endpoint& endpoint, const Status& status, TimePoint now);
  void ApplyConnectFailure(ReplicaNumber replica, const Status& why, TimePoint now);
  void ApplyReply(ReplicaNumber replica, Health::Reply reply, const std::string& what,
                  TimePoint now);
  // A reply ended as the last one of an engine that dies may: whether it does is looked for so
  // long.
  void Doubt(ReplicaNumber replica, Duration time, TimePoint now);
  // How long the largest request that waits at `replica`, or did while others of these have waited,
  // usually does, in ms, at the slowest of those that take the same requests. 0: not known.
  double UsualWaitMs(ReplicaNumber replica, bool stream) const;
  // See Health::OnLeft.
  void ApplyLeft(ReplicaNumber replica, TimePoint sent, TimePoint now);
  void ApplyExcusedReply(ReplicaNumber replica, TimePoint now) {
    at(replica).endpoint->health.OnExcusedReply(now);
  }

 private:
  // What its last report, of `now`, says that others' requests have still to be computed there.
  static double OthersMs(const Member& member, TimePoint now);
  void EndFlight(ReplicaNumber replica, uint64_t number);
  Member::Flight* FlightOf(ReplicaNumber replica, uint64_t number);
  Status SetDraining(std::string_view id, bool draining);
  ReplicaNumber FreeSlot();
  std::shared_ptr<Endpoint> Shared(std::string_view id) const;
  // Applies `change` to the endpoint and tells what came of it.
  template <typename F>
  void Change(Endpoint& endpoint, const F& change);
  // `why` it did not answer a probe or take a connection; OK: it did.
  void TellIfDead(Endpoint& endpoint, const Status& why, TimePoint now);
  void FreeIfOver(const Endpoint& endpoint);
  // Another one is usable, and takes requests that this one takes.
  bool OthersUsable(const Endpoint& endpoint) const;
  // Of those that take requests that this one takes. At most half of them are out for their replies
  // at once.
  Health::Peers PeersOf(const Endpoint& endpoint, TimePoint now) const;

  const HealthOptions health_;
  std::vector<std::unique_ptr<Member>> slots_;
  std::vector<ReplicaNumber> numbers_;
  std::vector<std::shared_ptr<Endpoint>> endpoints_;
  ModelDirectory models_;
  MemberSet usable_;
  std::vector<ReplicaListener*> listeners_;
  std::function<void()> on_room_;
  uint64_t next_flight_ = 1;
};

}  // namespace ember::router
