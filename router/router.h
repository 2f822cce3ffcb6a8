// Router: the life of one request, step by step: tokenize, match, decide, forward; again on another
// replica while nothing was sent to the client.
//
// Concurrency: everything here runs on the router's one loop thread.
// Life: what RouterParts points to must outlive the Router, and the Router its requests.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "router/admission/admission.h"
#include "router/admission/known_credentials.h"
#include "router/admission/suspect_list.h"
#include "router/front/fan_out.h"
#include "router/front/forwarder.h"
#include "router/front/routing_options.h"
#include "router/index/prefix_index.h"
#include "router/matching/prefix_matcher.h"
#include "router/prefetch_sender.h"
#include "router/prefix_verifier.h"
#include "router/response_homes.h"
#include "router/telemetry/telemetry.h"
#include "router/tokenize/tokenizer.h"

namespace ember::router {

struct RouterParts {
  ReplicaSet* replicas = nullptr;
  PrefixIndex* index = nullptr;
  PrefixMatcher* matcher = nullptr;
  Tokenizer* tokenizer = nullptr;
  Forwarder* forwarder = nullptr;
  Telemetry* telemetry = nullptr;
  RouterMetrics* metrics = nullptr;
  Admission* admission = nullptr;
  PrefetchSender* prefetches = nullptr;
  PrefixVerifier* verifier = nullptr;
  RandomSource* random = nullptr;
};

struct RouterOptions {
  const Policy* default_policy = nullptr;
  std::map<std::string, const Policy*, std::less<>> model_policies;  // instead, by model
  bool allow_policy_override = true;  // a request may name its policy
  int max_retries = 2;                // attempts beyond the first
  FanOutCaps fan_out;
  // x-ember-tenant says whose turn a request takes; else its credential does.
  bool trust_tenant_header = false;
  // So long a request that waits goes on waiting when the last replica for it went out.
  Duration return_time = seconds(5);
};

class Router final : public ReplicaListener {
 public:
  Router(RouterParts parts, RouterOptions options) : parts_(parts), options_(options) {}

  boost::asio::awaitable<void> Handle(http::Request& request, http::ResponseWriter& writer);
  // The decision about a request that is not sent, with every candidate's costs whatever its
  // policy, as JSON. The path of the prompt is its parameter `path`, else it is told by the body.
  // With its parameter `verify=1` the candidates' agents are asked what they hold. kInvalid: it
  // can't be routed. kBusy: too many are asked already.
  boost::asio::awaitable<Result<std::string>> Explain(http::Request& request);

  void OnFoundDead(const Endpoint& endpoint) override;

 private:
  // What is known of one request while it is routed.
  struct Routing {
    RoutingOptions options;
    SharedPrompt prompt;               // null: tokens unknown
    std::optional<std::string> model;  // "": it names none; nothing: not looked for yet
    std::optional<Status> fan_out;     // whether it asks for too much; nothing: not looked at yet
    std::shared_ptr<Endpoint> home;  // of the response that it is about; null: any replica will do
    MemberSet tried;                 // of the replicas that were asked
    MemberSet avoided;               // of those: it was not, and is when there is room nowhere else
    ReplicaNumber chosen = 0;        // by the last decision
    ReplicaNumber asked = 0;         // its replica's first member
    std::optional<Checksum> digest;  // of its prompt, once that matters
    int breaks = 0;                  // replicas that broke off after they had the request
    int may_break = 2;               // before it is given up
    int retry_after_s = 0;           // when a refusal of ours may be over; 0: see the queue
    Refusals::Kind kind;             // known once its model is
    std::vector<Refused> refused;    // attempts, in order
    std::string failure;             // of the replica that failed last, for logs
    RequestRecord record;
  };

  // Finds out beside the loop what is in a body that would hold it.
  boost::asio::awaitable<void> ReadLargeBody(const http::Request& request, Routing* routing) const;
  // Some replica is known to serve some models and not others, or may yet be.
  bool ModelsMatter() const;
  // kInvalid: the request cannot be routed at all.
  Status Admit(const http::Request& request, Routing* routing) const;
  // Of a request that names none.
  const Policy* DefaultPolicy(const http::Request& request, Routing* routing) const;
  // Finds out which model the request is for, where that matters. An error: nobody serves it.
  std::optional<http::OpenAiError> FindModel(const http::Request& request, Routing* routing) const;
  // The same of what is known now, the model's name included.
  std::optional<http::OpenAiError> NobodyServes(const Routing& routing) const;
  boost::asio::awaitable<void> Tokenize(const http::Request& request, Routing* routing);
  // Whom the request may go to, usable or not: who serves its model and was not asked yet.
  MemberSet Takers(const Routing& routing) const;
  // Some replica that it may go to is usable; and has room.
  bool AnyUsable(const Routing& routing) const;
  bool AnyRoom(const Routing& routing) const;
  // Some replica that it may go to has just joined, or was usable until lately.
  bool AnyMayCome(const Routing& routing) const;
  // Where nobody is usable: gives replicas that have just joined the time of a probe.
  boost::asio::awaitable<void> AwaitNewcomers(const Routing& routing,
                                              http::Cancellation& gone) const;
  std::vector<Candidate> Candidates(const Routing& routing) const;
  // Waits until there is a candidate. The error is the client's, unless that has left.
  boost::asio::awaitable<std::optional<http::OpenAiError>> FindRoom(const http::Request& request,
                                                                    http::ResponseWriter& writer,
                                                                    Routing* routing);
  // As its header says, where that is trusted; "": nobody says.
  std::string TrustedTenant(const http::Request& request) const;
  // Whose turn it takes when it has to wait.
  FairQueue::Whose WhoseTurn(const http::Request& request);
  // Why it can't be sent anywhere.
  http::OpenAiError NoneUsable(const Routing& routing) const;
  // A request that broke replicas lately is not tried as often as others.
  std::optional<http::OpenAiError> CheckSuspicion(const http::Request& request, Routing* routing);
  // One that a single replica answered with an error lately is tried elsewhere, where it can be.
  void AvoidWhereItFailed(Routing* routing);
  // What the attempt says about its replica, and about the request.
  void Judge(const http::Request& request, Routing* routing, const AttemptResult& result);
  // Whether its client left after a wait that says that the replica hangs.
  bool LeftHanging(const http::Request& request, const Routing& routing,
                   const AttemptResult& result) const;
  // The request failed at the replica that it was sent to last, whose flight still holds it.
  // Whether that may be the replica's fault.
  bool CountFailure(SuspectList::Failure failure, const http::Request& request, Routing* routing,
                    const AttemptResult& result);
  // How many decisions the policy has made about requests with the same replicas to choose from.
  uint64_t& TurnOf(const Routing& routing);
  // The decision among `candidates`, also added to the record.
  const RoutingDecision& Decide(std::vector<Candidate> candidates, Routing* routing);
  boost::asio::awaitable<AttemptResult> Forward(const http::Request& request,
                                                http::ResponseWriter& writer, Routing* routing,
                                                const RoutingDecision& decision);
  // What the reply says about the memory that the decision counted on.
  void Settle(const Routing& routing, const PrefixMatcher::Presumed& presumed,
              const CandidateCost* cost, const AttemptResult& result);
  // Another attempt is allowed, and there is a replica for it.
  bool MayRetry(const Routing& routing) const;
  // Answers with an error of our own.
  boost::asio::awaitable<void> Refuse(http::ResponseWriter& writer, Routing* routing,
                                      http::OpenAiError error);
  // Books a request that a replica answered, or whose client left.
  void Finish(Routing* routing, const AttemptResult& result);

  const RouterParts parts_;
  const RouterOptions options_;
  SuspectList suspects_;
  KnownCredentials credentials_;
  ResponseHomes homes_;
  std::map<std::pair<const Policy*, size_t>, uint64_t> turns_;  // by a hash of the replicas
};

}  // namespace ember::router
