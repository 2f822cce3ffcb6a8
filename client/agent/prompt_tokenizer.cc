#include "client/agent/prompt_tokenizer.h"

#include "client/http/loop.h"

namespace ember::agent {

namespace {
constexpr Duration kMaxWaitForOther = seconds(30);  // more than the engine is given
}  // namespace

boost::asio::awaitable<Result<PromptTokenizer::Tokens>> PromptTokenizer::Tokenize(
    const RequestBody& request, std::string_view body) {
  if (!request.ids.empty()) co_return std::make_shared<const std::vector<TokenId>>(request.ids);
  const bool chat = request.kind == CompletionKind::kChat;
  Sha256Digest key = Sha256(AsBytes(chat ? body : std::string_view(request.prompt)));
  key[0] ^= static_cast<std::byte>(request.kind);  // a text prompt may look like a chat's body
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    entries_.splice(entries_.begin(), entries_, found->second);
    co_return found->second->tokens;
  }
  if (const auto asked = asked_.find(key); asked != asked_.end()) {
    const std::shared_ptr<Question> other = asked->second;
    (void)co_await http::SleepFor(kMaxWaitForOther, &other->answered);
    if (other->tokens) co_return *other->tokens;
    co_return DeadlineError("another request waits for these tokens");
  }
  const uint64_t epoch = epoch_;
  const auto question = std::make_shared<Question>();
  asked_[key] = question;
  question->tokens = co_await Ask(request, body);
  if (const auto mine = asked_.find(key); mine != asked_.end() && mine->second == question) {
    asked_.erase(mine);
  }
  if (question->tokens->ok() && epoch == epoch_) Remember(key, **question->tokens);
  question->answered.Cancel();
  co_return *question->tokens;
}

boost::asio::awaitable<Result<PromptTokenizer::Tokens>> PromptTokenizer::Ask(
    const RequestBody& request, std::string_view body) {
  std::string prompt = request.prompt;
  if (request.kind == CompletionKind::kChat) {
    Result<std::string> templated = co_await engine_.ApplyTemplate(body);
    if (!templated.ok()) co_return templated.status();
    prompt = *std::move(templated);
  }
  Result<std::vector<TokenId>> tokens = co_await engine_.Tokenize(prompt);
  if (!tokens.ok()) co_return tokens.status();
  co_return std::make_shared<const std::vector<TokenId>>(*std::move(tokens));
}

void PromptTokenizer::Remember(const Sha256Digest& key, Tokens tokens) {
  if (by_key_.contains(key)) return;
  kept_tokens_ += tokens->size();
  entries_.push_front({key, std::move(tokens)});
  by_key_[key] = entries_.begin();
  while (entries_.size() > kMaxEntries || kept_tokens_ > kMaxTokens) {
    kept_tokens_ -= entries_.back().tokens->size();
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

void PromptTokenizer::Forget() {
  ++epoch_;
  asked_.clear();
  entries_.clear();
  by_key_.clear();
  kept_tokens_ = 0;
}

}  // namespace ember::agent
