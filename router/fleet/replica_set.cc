#include "router/fleet/replica_set.h"

#include <algorithm>
#include <utility>

namespace ember::router {
namespace {

// A report can contain a request that was sent this long before it arrived.
constexpr Duration kReportDelay = milliseconds(20);
constexpr double kServiceWeight = 0.2;  // of the newest request in the moving average

// As its configuration says it.
ModelList DeclaredModels(const ReplicaConfig& config) {
  ModelList list;
  for (const std::string& name : config.models) list.models.push_back({.name = name});
  if (!config.models.empty()) list.more = TakesMore::kNothing;
  return list;
}

// What it declares, as the engine lists it, and the adapters that the engine lists.
ModelList WithAdapters(const ReplicaConfig& config, ModelList told) {
  ModelList list = DeclaredModels(config);
  list.adapters_by_colon = told.adapters_by_colon;
  for (ServedModel& model : told.models) {
    const auto declared = std::find_if(list.models.begin(), list.models.end(),
                                       [&](const ServedModel& d) { return d.name == model.name; });
    if (declared != list.models.end()) {
      *declared = std::move(model);
    } else if (!model.base.empty()) {
      list.models.push_back(std::move(model));
    }
  }
  return list;
}

bool SameModels(const ModelList& one, const ModelList& other) {
  return one.more == other.more && one.adapters_by_colon == other.adapters_by_colon &&
         std::equal(one.models.begin(), one.models.end(), other.models.begin(), other.models.end(),
                    [](const ServedModel& a, const ServedModel& b) {
                      return a.name == b.name && a.base == b.base;
                    });
}

}  // namespace

std::string_view Endpoint::state() const {
  if (removed) return "gone";
  if (draining) return "draining";
  switch (health.state()) {
    case Health::State::kJoining:
      return "joining";
    case Health::State::kUp:
      return health.usable() ? "up" : "ejected";
    case Health::State::kTrial:
      return health.usable() ? "trial" : "ejected";
    case Health::State::kEjected:
      break;
  }
  return "ejected";
}

ReplicaSet::Member::Member(std::shared_ptr<Endpoint> endpoint_in, ReplicaNumber number_in,
                           uint32_t rank_in)
    : endpoint(std::move(endpoint_in)), config(endpoint->config), number(number_in), rank(rank_in) {
  view.id = config.id;
  if (config.ranks > 0) view.rank = rank;
  view.weight = config.weight;
}

ReplicaLoad ReplicaSet::Member::reported() const {
  ReplicaLoad load = view.load;
  if (engine_load) {
    load.running = engine_load->running;
    load.waiting = engine_load->waiting;
  }
  return load;
}

bool ReplicaSet::Member::has_room() const {
  if (!endpoint->usable()) return false;
  if (endpoint->health.state() == Health::State::kTrial &&
      endpoint->under_way >= Health::kTrialRequests) {
    return false;
  }
  return config.max_concurrency == 0 || endpoint->under_way < config.max_concurrency;
}

ReplicaSet::Flight& ReplicaSet::Flight::operator=(Flight&& other) noexcept {
  if (this == &other) return *this;
  End();
  set_ = std::exchange(other.set_, nullptr);
  replica_ = other.replica_;
  number_ = other.number_;
  return *this;
}

void ReplicaSet::Flight::PrefillDone(Answer answer, TimePoint now) {
  if (set_ == nullptr) return;
  ReplicaEstimate& estimate = set_->at(replica_).estimate;
  Member::Flight& flight = *set_->FlightOf(replica_, number_);
  flight.prefill_tokens = 0;
  flight.bytes = 0;
  switch (answer) {
    case Answer::kStream:
      return estimate.OnFirstToken(flight.estimated, now);
    case Answer::kWhole:
      return estimate.OnWholeReply(flight.estimated, now);
    case Answer::kNone:
      return estimate.OnEnd(flight.estimated);
  }
}

void ReplicaSet::Flight::Learn(const ReplyTokens& tokens, TimePoint now) {
  if (set_ == nullptr) return;
  set_->at(replica_).estimate.OnReply(set_->FlightOf(replica_, number_)->estimated, tokens, now);
}

void ReplicaSet::Flight::End() {
  if (set_ != nullptr) std::exchange(set_, nullptr)->EndFlight(replica_, number_);
}

Status ReplicaSet::Add(ReplicaConfig config) {
  if (Find(config.id) != nullptr) {
    return InvalidError("there is a replica \"" + config.id + "\" already");
  }
  const uint32_t ranks = std::max(config.ranks, 1u);
  auto endpoint = std::make_shared<Endpoint>(std::move(config), health_);
  for (uint32_t i = 0; i < ranks; ++i) {
    const ReplicaNumber number = FreeSlot();
    if (number == kMaxReplicas) {
      for (const ReplicaNumber taken : endpoint->members) slots_[taken].reset();
      return NoSpaceError("at most " + std::to_string(kMaxReplicas) + " replicas and ranks");
    }
    slots_[number] = std::make_unique<Member>(endpoint, number, endpoint->config.first_rank + i);
    endpoint->members.push_back(number);
  }
  numbers_.insert(numbers_.end(), endpoint->members.begin(), endpoint->members.end());
  std::sort(numbers_.begin(), numbers_.end());
  endpoints_.push_back(endpoint);
  models_.Set(endpoint->members, DeclaredModels(endpoint->config));
  for (ReplicaListener* l : listeners_) l->OnAdded(*endpoint);
  return OkStatus();
}

ReplicaNumber ReplicaSet::FreeSlot() {
  const auto free = std::find(slots_.begin(), slots_.end(), nullptr);
  const auto number = static_cast<ReplicaNumber>(free - slots_.begin());
  if (free == slots_.end() && number < kMaxReplicas) slots_.emplace_back();
  return number;
}

template <typename F>
void ReplicaSet::Change(Endpoint& endpoint, const F& change) {
  const std::string_view before = endpoint.state();
  const Health::State health_before = endpoint.health.state();
  const bool was_out = endpoint.health.ejection().has_value();
  const bool was_usable = endpoint.usable();
  change();
  if (endpoint.usable()) {
    endpoint.out_since = TimePoint();
  } else if (was_usable) {
    endpoint.out_since = SteadyClock().Now();
  }
  const std::string_view after = endpoint.state();
  if (endpoint.removed && before == after) return;  // its numbers may be another's
  for (const ReplicaNumber n : endpoint.members) {
    slots_[n]->view.healthy = endpoint.usable();
    usable_.set(n, endpoint.usable());
  }
  // Health goes on while a replica drains, though its state does not show it.
  if (const auto reason = endpoint.health.ejection(); reason && !was_out) {
    ++endpoint.ejections[static_cast<size_t>(*reason)];
    if (*reason == Ejection::kHung && OthersUsable(endpoint)) {
      std::exchange(endpoint.given_up, std::make_shared<http::Cancellation>())->Cancel();
    }
  }
  if (health_before == Health::State::kEjected &&
      endpoint.health.state() == Health::State::kTrial) {
    for (ReplicaListener* l : listeners_) l->OnReadmitted(endpoint);
  }
  if (before == after) return;
  for (ReplicaListener* l : listeners_) l->OnStateChanged(endpoint);
  if (on_room_) on_room_();
}

Status ReplicaSet::Drain(std::string_view id) { return SetDraining(id, true); }

Status ReplicaSet::Resume(std::string_view id) { return SetDraining(id, false); }

Status ReplicaSet::SetDraining(std::string_view id, bool draining) {
  const std::shared_ptr<Endpoint> endpoint = Shared(id);
  if (endpoint == nullptr) return NotFoundError("there is no replica \"" + std::string(id) + "\"");
  Change(*endpoint, [&] { endpoint->draining = draining; });
  return OkStatus();
}

void ReplicaSet::Tune(const ReplicaConfig& config) {
  const std::shared_ptr<Endpoint> endpoint = Shared(config.id);
  EMBER_CHECK(endpoint != nullptr && endpoint->config.MayBecome(config), "it may become that");
  endpoint->config.Tune(config);
  for (const ReplicaNumber n : endpoint->members) {
    slots_[n]->view.weight = endpoint->config.weight;
  }
  if (on_room_) on_room_();
}

Status ReplicaSet::Remove(std::string_view id) {
  const std::shared_ptr<Endpoint> endpoint = Shared(id);
  if (endpoint == nullptr) return NotFoundError("there is no replica \"" + std::string(id) + "\"");
  Change(*endpoint, [&] { endpoint->removed = true; });
  std::erase(endpoints_, endpoint);
  std::erase_if(numbers_, [&](ReplicaNumber n) { return slots_[n]->endpoint == endpoint; });
  models_.Remove(endpoint->members, SteadyClock().Now());
  for (ReplicaListener* l : listeners_) l->OnRemoved(*endpoint);
  FreeIfOver(*endpoint);
  return OkStatus();
}

void ReplicaSet::FreeIfOver(const Endpoint& endpoint) {
  if (!endpoint.removed || endpoint.under_way > 0) return;
  const std::shared_ptr<Endpoint> kept = slots_[endpoint.members.front()]->endpoint;
  for (ReplicaListener* l : listeners_) l->OnGone(*kept);
  for (const ReplicaNumber n : kept->members) slots_[n].reset();
}

std::shared_ptr<Endpoint> ReplicaSet::Shared(std::string_view id) const {
  const auto it = std::find_if(endpoints_.begin(), endpoints_.end(),
                               [&](const auto& e) { return e->config.id == id; });
  return it == endpoints_.end() ? nullptr : *it;
}

ReplicaSet::Flight ReplicaSet::Start(ReplicaNumber replica, uint64_t prefill_tokens,
                                     double prefill_ms, TimePoint now) {
  Member& m = at(replica);
  ++m.totals.requests;
  ++m.endpoint->under_way;
  ++m.view.in_flight;
  m.flights.emplace(next_flight_,
                    Member::Flight{prefill_tokens, now, m.estimate.OnSent(prefill_ms, now)});
  return Flight(this, replica, next_flight_++);
}

void ReplicaSet::Describe(ReplicaNumber replica, TimePoint now) {
  Member& m = at(replica);
  m.estimate.Describe(now, {.prefill = m.agent_has_fit, .load_rate = m.endpoint->agent_connected},
                      &m.view);
}

ReplicaSet::Member::Flight* ReplicaSet::FlightOf(ReplicaNumber replica, uint64_t number) {
  return &at(replica).flights.at(number);
}

void ReplicaSet::EndFlight(ReplicaNumber replica, uint64_t number) {
  Member& m = at(replica);
  const Member::Flight ended = *FlightOf(replica, number);
  m.estimate.OnEnd(ended.estimated);
  m.flights.erase(number);
  if (ended.bytes > 0) {  // its client left, most likely
    for (auto& [n, flight] : m.flights) flight.behind = std::max(flight.behind, ended.bytes);
  }
  --m.endpoint->under_way;
  if (number >= m.first_unreported) {
    --m.view.in_flight;
  } else if (m.view.load.running > 0) {
    --m.view.load.running;  // the report still counts it; the next one will not
  }
  FreeIfOver(*m.endpoint);
  if (on_room_) on_room_();
}

void ReplicaSet::ObserveService(ReplicaNumber replica, double ms) {
  double& mean = at(replica).service_ms;
  mean = mean == 0 ? ms : mean + kServiceWeight * (ms - mean);
}

void ReplicaSet::ApplySnapshot(ReplicaNumber replica, const AgentSnapshot& snapshot,
                               TimePoint now) {
  Member& m = at(replica);
  m.endpoint->agent_connected = true;
  m.endpoint->model = snapshot.model;
  m.agent_space.reset();
  if (snapshot.ns && snapshot.tokens_per_block > 0) {
    m.agent_space = KeySpace{*snapshot.ns, snapshot.namespace_seed, snapshot.tokens_per_block};
  }
  m.view.tokens_per_block = snapshot.tokens_per_block;
  ApplyReport(replica, snapshot.report, now);
}

void ReplicaSet::ApplyReport(ReplicaNumber replica, const AgentReport& report, TimePoint now) {
  Member& m = at(replica);
  m.view.load = report.load;
  // The default is what an agent says that has not measured anything yet.
  m.agent_has_fit = report.prefill.linear_ms != PrefillModel().linear_ms;
  if (m.agent_has_fit) {
    m.view.prefill = report.prefill;
    m.view.prefill_basis = PrefillBasis::kEnough;
  }
  m.view.load_tokens_per_ms = report.load_tokens_per_ms;
  auto it = m.flights.lower_bound(m.first_unreported);
  for (; it != m.flights.end() && it->second.started + kReportDelay <= now; ++it) {
    --m.view.in_flight;
    m.first_unreported = it->first + 1;
  }
  m.estimate.OnOthers(OthersMs(m, now), now);
  Change(*m.endpoint, [&] { m.endpoint->health.OnAgentReport(report.healthy); });
}

double ReplicaSet::OthersMs(const Member& m, TimePoint now) {
  const ReplicaLoad& load = m.view.load;
  uint64_t ours = 0, our_tokens = 0;
  for (const auto& [number, flight] : m.flights) {
    if (flight.started + kReportDelay > now) break;
    ++ours;
    our_tokens += flight.prefill_tokens;
  }
  const uint64_t all = uint64_t{load.running} + load.waiting;
  if (all <= ours) return 0;
  // An agent takes a waiting prompt for new from its start on until it has a place, and we know
  // better of ours; so it is also shared by their number.
  const uint64_t others = all - ours;
  const uint64_t pending = load.pending_prefill_tokens;
  const uint64_t tokens = std::min(pending - std::min(pending, our_tokens), pending * others / all);
  // The model is not linear in a request's length: costed as those of equal requests.
  return static_cast<double>(others) *
         (m.view.prefill.PredictMs(tokens / others, 0) - m.view.prefill.base_ms);
}

void ReplicaSet::ApplyLost(ReplicaNumber replica) {
  Member& m = at(replica);
  m.endpoint->agent_connected = false;
  m.agent_space.reset();
  m.agent_has_fit = false;
  m.view.load_tokens_per_ms = 0;
  m.view.load = {.slots_total = m.view.load.slots_total};
  m.first_unreported = 0;
  m.view.in_flight = m.under_way();
  m.estimate.OnOthers(0, TimePoint());
  Change(*m.endpoint, [&] { m.endpoint->health.OnAgentLost(); });
}

void ReplicaSet::AwaitModels(const Endpoint& endpoint) {
  ModelList list = DeclaredModels(endpoint.config);
  list.more = TakesMore::kNotAsked;
  models_.Set(endpoint.members, std::move(list));
}

void ReplicaSet::ApplyModels(const Endpoint& endpoint, Result<std::optional<ModelList>> told) {
  if (endpoint.removed) return;
  const ModelList& known = models_.ListOf(endpoint.members.front());
  if (!told.ok() && known.more != TakesMore::kNotAsked) return;
  const bool lists = told.ok() && told->has_value();
  ModelList now = !lists ? DeclaredModels(endpoint.config)
                  : endpoint.config.models.empty()
                      ? **std::move(told)
                      : WithAdapters(endpoint.config, **std::move(told));
  const bool same = SameModels(known, now);
  models_.Set(endpoint.members, std::move(now));
  if (same) return;
  for (ReplicaListener* l : listeners_) l->OnModelsChanged(endpoint);
  if (on_room_) on_room_();
}

void ReplicaSet::ApplyProbe(Endpoint& endpoint, const Status& status, TimePoint now) {
  Change(endpoint, [&] { endpoint.health.OnProbe(status, now); });
  TellIfDead(endpoint, status, now);
  // Who waits for it may have waited long enough.
  if (!endpoint.usable() && on_room_) on_room_();
}

void ReplicaSet::ApplyConnectFailure(ReplicaNumber replica, const Status& why, TimePoint now) {
  Endpoint& endpoint = *at(replica).endpoint;
  Change(endpoint, [&] { endpoint.health.OnConnectFailure(why, now); });
  TellIfDead(endpoint, why, now);
}

void ReplicaSet::ApplyReply(ReplicaNumber replica, Health::Reply reply, const std::string& what,
                            TimePoint now) {
  Endpoint& endpoint = *at(replica).endpoint;
  const Health::Peers peers =
      reply == Health::Reply::kGood ? Health::Peers() : PeersOf(endpoint, now);
  Change(endpoint, [&] { endpoint.health.OnReply(reply, what, peers, now); });
}

void ReplicaSet::ApplyLeft(ReplicaNumber replica, TimePoint sent, TimePoint now) {
  Endpoint& endpoint = *at(replica).endpoint;
  const Health::Peers peers = PeersOf(endpoint, now);
  Change(endpoint, [&] { endpoint.health.OnLeft(sent, peers, now); });
}

}  // namespace ember::router
