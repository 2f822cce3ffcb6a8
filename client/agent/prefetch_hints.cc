#include "client/agent/prefetch_hints.h"

#include <algorithm>

namespace ember::agent {

namespace asio = boost::asio;

namespace {
constexpr size_t kMaxTokenizing = 16;
constexpr size_t kMaxHintBody = 8u << 20;
}  // namespace

PrefetchAnswer PrefetchHints::Nothing(std::string reason) {
  metrics_.Prefetched(PrefetchOutcome::kNothing).Add();
  return {PrefetchAnswer::kNothing, std::move(reason)};
}

PrefetchAnswer PrefetchHints::Take(PrefetchHint hint) {
  Identity identity = monitor_.identity();
  if (identity == nullptr) return Nothing("the cache is off: " + monitor_.cache_problem());
  if (!filler_.loads()) return Nothing("there is no store, or loading is off");
  if (hint.tokens.empty()) return TakeBody(std::move(hint), std::move(identity));
  const size_t most = std::min<size_t>(hint.wanted, identity->props.context_tokens);
  hint.tokens.resize(std::min(hint.tokens.size(), most));
  auto prompt = SegmentsOf(*identity, std::move(hint.tokens));
  const size_t segments = prompt->refs.size();
  return prefetcher_.Hint({std::move(identity), std::move(prompt), segments});
}

PrefetchAnswer PrefetchHints::TakeBody(PrefetchHint hint, Identity identity) {
  const auto kind = CompletionKindOf(hint.path);
  if (!kind || hint.body.size() > kMaxHintBody) return Nothing("not for the cache");
  Result<RequestBody> request = ReadRequestBody(*kind, hint.body);
  if (!request.ok()) return Nothing(request.status().ToString());
  if (!request->bypass.empty()) return Nothing("the cache stays out: " + request->bypass);
  if (!request->cache_prompt) return Nothing("the client wants no cache");
  if (tokenizing_ >= kMaxTokenizing) {
    metrics_.Prefetched(PrefetchOutcome::kNoRoom).Add();
    return {PrefetchAnswer::kNoRoom, "too many prompts are being tokenized"};
  }
  ++tokenizing_;
  loop_.Spawn(FindTokens(std::move(hint), *std::move(request), std::move(identity)));
  return {PrefetchAnswer::kAccepted, ""};
}

asio::awaitable<void> PrefetchHints::FindTokens(PrefetchHint hint, RequestBody request,
                                                Identity identity) {
  const Result<PromptTokenizer::Tokens> tokens = co_await tokenizer_.Tokenize(request, hint.body);
  --tokenizing_;
  if (!tokens.ok()) {
    (void)Nothing("");
    co_return;
  }
  auto prompt = SegmentsOf(*identity, **tokens);
  const size_t loadable = filler_.LoadableSegments({identity, prompt});
  const size_t segments = std::min<size_t>(hint.wanted / kTokensPerBlock, loadable);
  (void)prefetcher_.Hint({std::move(identity), std::move(prompt), segments});
}

}  // namespace ember::agent
