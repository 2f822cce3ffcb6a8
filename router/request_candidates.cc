// Router's part on whom a request may go to: by its model, its pin, and who was asked already.
#include <algorithm>
#include <functional>

#include "router/router.h"
#include "router/telemetry/tenant_digest.h"
#include "router/tokenize/local_tokenizer.h"
#include "router/tokenize/request_model.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;
using http::OpenAiError;

static_assert(kMaxPlaces == kMaxReplicas, "places of the queue are members");

// Fleets change, and what was counted for replicas that are gone is of no use.
constexpr size_t kMaxTurns = 1024;
constexpr Duration kNewcomersTime = seconds(1);
constexpr Duration kNewcomersPause = milliseconds(10);
constexpr std::string_view kModelPath = "/v1/models/";
constexpr size_t kMaxNamed = 20;       // of the models that exist, in an error
constexpr size_t kMaxNameShown = 200;  // of what a client wrote

std::string ModelOf(const http::Request& request) {
  if (request.path.starts_with(kModelPath)) return request.path.substr(kModelPath.size());
  if (request.body.empty()) return "";
  std::string model = ModelOfForm(request.headers.Get("content-type"), request.body);
  return model.empty() ? ModelOfJson(request.body) : model;
}

// Who asks, as replicas tell clients apart.
std::string_view ClientOf(const http::Request& request) {
  const std::string_view credential = CredentialOf(request.headers);
  return credential.empty() ? std::string_view(request.peer).substr(0, request.peer.rfind(':'))
                            : credential;
}

std::string NamesOf(const ModelDirectory& models) {
  std::string names;
  size_t named = 0;
  for (const auto& [name, entry] : models.entries()) {
    if (++named > kMaxNamed) return names + ", ...";
    names += (names.empty() ? "" : ", ") + name;
  }
  return names;
}

}  // namespace

bool Router::ModelsMatter() const {
  const ModelDirectory& models = parts_.replicas->models();
  return !models.empty() || models.any_not_asked();
}

boost::asio::awaitable<void> Router::ReadLargeBody(const http::Request& request,
                                                   Routing* routing) const {
  if (request.body.size() <= LocalTokenizer::kLargeBody) co_return;
  const bool has_prompt = RoutingOptions::HasPrompt(request);
  if (!has_prompt && !ModelsMatter() && options_.model_policies.empty()) co_return;
  // Bodies are bounded together (max_buffered_bytes), so that few of these can wait.
  co_await parts_.tokenizer->Aside([this, &request, routing, has_prompt] {
    routing->model = ModelOf(request);
    if (has_prompt) routing->fan_out = options_.fan_out.Check(request.body);
  });
}

const Policy* Router::DefaultPolicy(const http::Request& request, Routing* routing) const {
  const auto& by_model = options_.model_policies;
  if (by_model.empty()) return options_.default_policy;
  if (!routing->model) routing->model = ModelOf(request);
  auto policy = by_model.find(*routing->model);
  if (policy == by_model.end()) {
    policy = by_model.find(parts_.replicas->models().BaseOf(*routing->model));
  }
  return policy == by_model.end() ? options_.default_policy : policy->second;
}

std::optional<OpenAiError> Router::FindModel(const http::Request& request, Routing* routing) const {
  const ReplicaSet& replicas = *parts_.replicas;
  const ModelDirectory& models = replicas.models();
  if (!routing->model) {
    // The tokenizer has walked over the body already. Where no replica lists its models they don't
    // matter.
    routing->model = routing->prompt != nullptr ? routing->prompt->model
                     : ModelsMatter()           ? ModelOf(request)
                                                : "";
  }
  const std::string& model = *routing->model;
  routing->kind = Refusals::Kind::Of(ClientOf(request), request.path, model);
  const std::string& shown = routing->record.model = model.substr(0, kMaxNameShown);
  const std::string& pin = routing->options.pin;
  if (!pin.empty()) {
    const Endpoint* endpoint = replicas.Find(pin);
    if (endpoint == nullptr || models.MayTake(endpoint->members.front(), model)) return {};
    return OpenAiError::ForHttpStatus(
        400, "x-ember-pin: replica \"" + pin + "\" does not serve the model \"" + shown + "\"",
        "model_not_found");
  }
  return NobodyServes(*routing);
}

std::optional<OpenAiError> Router::NobodyServes(const Routing& routing) const {
  const ReplicaSet& replicas = *parts_.replicas;
  const ModelDirectory& models = replicas.models();
  const std::string& model = *routing.model;
  if (replicas.TakersOf(model).any() || replicas.numbers().empty() ||
      models.ListedLately(model, SteadyClock().Now())) {
    return {};
  }
  return OpenAiError::ForHttpStatus(
      404,
      "the model \"" + routing.record.model + "\" does not exist; there are: " + NamesOf(models),
      "model_not_found");
}

MemberSet Router::Takers(const Routing& routing) const {
  const std::string& pin = routing.options.pin;
  const Endpoint* endpoint = pin.empty() ? routing.home.get() : parts_.replicas->Find(pin);
  if (pin.empty() && (endpoint == nullptr || endpoint->removed)) {
    return parts_.replicas->TakersOf(routing.model.value_or("")) & ~routing.tried;
  }
  MemberSet takers;
  if (endpoint != nullptr) {
    for (const ReplicaNumber n : endpoint->members) takers.set(n);
  }
  return takers & ~routing.tried;
}

bool Router::AnyUsable(const Routing& routing) const {
  return (Takers(routing) & parts_.replicas->usable()).any();
}

bool Router::AnyRoom(const Routing& routing) const {
  const MemberSet takers = Takers(routing);
  const auto& numbers = parts_.replicas->numbers();
  return std::any_of(numbers.begin(), numbers.end(), [&](ReplicaNumber n) {
    return takers.test(n) && parts_.replicas->at(n).has_room();
  });
}

bool Router::AnyMayCome(const Routing& routing) const {
  const MemberSet takers = Takers(routing);
  const TimePoint now = SteadyClock().Now();
  const auto& numbers = parts_.replicas->numbers();
  return std::any_of(numbers.begin(), numbers.end(), [&](ReplicaNumber n) {
    return takers.test(n) && parts_.replicas->at(n).endpoint->may_come(options_.return_time, now);
  });
}

asio::awaitable<void> Router::AwaitNewcomers(const Routing& routing,
                                             http::Cancellation& gone) const {
  const auto any_newcomer = [&] {
    const MemberSet takers = Takers(routing);
    const auto& numbers = parts_.replicas->numbers();
    return std::any_of(numbers.begin(), numbers.end(), [&](ReplicaNumber n) {
      return takers.test(n) && parts_.replicas->at(n).endpoint->health.untried();
    });
  };
  const TimePoint until = SteadyClock().Now() + kNewcomersTime;
  while (!AnyUsable(routing) && any_newcomer() && SteadyClock().Now() < until) {
    if (!(co_await http::SleepFor(kNewcomersPause, &gone)).ok()) co_return;
  }
}

std::vector<Candidate> Router::Candidates(const Routing& routing) const {
  std::vector<Candidate> candidates;
  const MemberSet takers = Takers(routing);
  const TimePoint now = SteadyClock().Now();
  for (const ReplicaNumber n : parts_.replicas->numbers()) {
    const ReplicaSet::Member& m = parts_.replicas->at(n);
    if (!takers.test(n) || !m.has_room()) continue;
    parts_.replicas->Describe(n, now);
    candidates.push_back({.replica = &m.view, .service_ms = m.service_ms, .number = n});
  }
  // Who refuses what others take looks idle.
  const auto avoided = [&](const Candidate& c) {
    return parts_.replicas->at(c.number).endpoint->refusals.avoided(routing.kind, now);
  };
  if (!std::ranges::all_of(candidates, avoided)) std::erase_if(candidates, avoided);
  return candidates;
}

OpenAiError Router::NoneUsable(const Routing& routing) const {
  const std::string& pin = routing.options.pin;
  if (!pin.empty()) {
    return OpenAiError::ForHttpStatus(503, "replica \"" + pin + "\" is not usable now");
  }
  if (routing.home != nullptr && routing.tried.none()) {
    return OpenAiError::ForHttpStatus(503, "replica \"" + routing.home->config.id +
                                               "\", which has this response, is not usable now");
  }
  // Replicas may have told meanwhile what they serve.
  if (auto unknown = NobodyServes(routing)) return *std::move(unknown);
  const bool others = parts_.replicas->usable().any() && routing.tried.none();
  return OpenAiError::ForHttpStatus(503, others ? "no replica that may serve the model \"" +
                                                      routing.record.model + "\" is usable now"
                                                : "no replica is usable now");
}

uint64_t& Router::TurnOf(const Routing& routing) {
  if (turns_.size() >= kMaxTurns) turns_.clear();
  return turns_[{routing.options.policy, std::hash<MemberSet>()(Takers(routing))}];
}

}  // namespace ember::router
