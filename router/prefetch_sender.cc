#include "router/prefetch_sender.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

namespace ember::router {

namespace asio = boost::asio;

namespace {
constexpr Duration kHintDeadline = milliseconds(250);
constexpr size_t kMaxHints = 64;
// An agent that answers late gets no more, and keeps no others from theirs.
constexpr size_t kMaxHintsAtOne = 8;
constexpr size_t kMaxHintBytes = 1u << 20;
}  // namespace

PrefetchSender::PrefetchSender(asio::any_io_executor executor, AgentClient& agents,
                               MetricsRegistry& registry)
    : executor_(std::move(executor)),
      agents_(agents),
      outcomes_(registry, "ember_router_prefetches_total",
                "Hints to agents about requests that will load from the store", "outcome",
                {"accepted", "already_there", "no_room", "nothing", "deadline", "unavailable",
                 "dropped", "too_large"}) {}

void PrefetchSender::Send(ReplicaNumber replica, const http::Request& request,
                          const TokenizedPrompt& prompt, uint32_t wanted) {
  if (wanted == 0 || !agents_.CanAsk(replica)) return;
  if (in_flight_ >= kMaxHints || in_flight_at_[replica] >= kMaxHintsAtOne) {
    return outcomes_.At("dropped").Add();
  }
  PrefetchHint hint{.wanted = wanted};
  if (prompt.has_tokens()) {
    hint.tokens = prompt.AllTokens();
    if (hint.tokens.size() > wanted) hint.tokens.resize(wanted);
  } else if (request.body.size() <= kMaxHintBytes) {
    hint.path = request.path;
    hint.body = request.body;
  } else {
    return outcomes_.At("too_large").Add();
  }
  asio::co_spawn(executor_, Run(replica, std::move(hint)), asio::detached);
}

asio::awaitable<void> PrefetchSender::Run(ReplicaNumber replica, PrefetchHint hint) {
  ++in_flight_;
  ++in_flight_at_[replica];
  const Result<std::string_view> outcome =
      co_await agents_.Prefetch(replica, std::move(hint), kHintDeadline);
  --in_flight_;
  if (--in_flight_at_[replica] == 0) in_flight_at_.erase(replica);
  outcomes_.At(outcome.ok() ? *outcome : StatusCodeName(outcome.status().code())).Add();
}

}  // namespace ember::router
