#include "router/tokenize/local_tokenizer.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "router/tokenize/prompt_api.h"
#include "router/tokenize/text_encoder.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

TimePoint LoopNow() { return std::chrono::steady_clock::now(); }

}  // namespace

struct LocalTokenizer::Work {
  TimePoint deadline;
  PromptApi api = PromptApi::kChat;
  bool any = false;  // whether or not the model is trusted
  PromptOutline outline;
  std::optional<std::string> adapter;  // that the outline asks for; as AdapterOf has it
  const LoadedModel* model = nullptr;
  std::shared_ptr<const ModelTokenizer> tokenizer;
  std::shared_ptr<const RenderedPrompt> rendered;  // null for a completion
  std::vector<PromptPiece> pieces;
  bool literal_found = false;  // the slots must go
  KnownText known;             // the last place that is remembered
  std::vector<TokenId> tail;   // after it

  // What the texts are named under.
  Checksum root() const {
    Checksum root = model->root;
    // A completion's text begins with tokens that a chat's does not.
    root[0] ^= static_cast<std::byte>(outline.add_special_tokens ? 1 : 0);
    return root;
  }
  SharedPrompt Finish();
};

SharedPrompt LocalTokenizer::Work::Finish() {
  auto prompt = std::make_shared<TokenizedPrompt>();
  prompt->source = TokenSource::kLocal;
  prompt->model = std::move(outline.model);
  prompt->SetAdapter(adapter);
  prompt->lora_path = std::move(outline.lora_path);
  prompt->salt = std::move(outline.salt);
  prompt->prompt_logprobs = outline.prompt_logprobs;
  prompt->several = outline.several;
  prompt->doubtful = outline.doubtful;
  prompt->prefix = std::move(known.run);
  prompt->tokens = outline.ids.empty() ? std::move(tail) : std::move(outline.ids);
  if (api == PromptApi::kCompletion && outline.add_special_tokens && !pieces.empty()) {
    const std::vector<TokenId>& after = tokenizer->after();
    prompt->tokens.insert(prompt->tokens.end(), after.begin(), after.end());
  }
  const size_t shared = prompt->prefix == nullptr ? 0 : prompt->prefix->end();
  prompt->token_count = static_cast<uint32_t>(shared + prompt->tokens.size());
  return prompt;
}

LocalTokenizer::LocalTokenizer(MetricsRegistry& metrics, LocalTokenizerOptions options,
                               const ModelDirectory* directory)
    : options_(std::move(options)),
      directory_(directory),
      renderer_(options_.render_cache_bytes),
      cache_(options_.cache_bytes),
      known_bytes_(metrics.AddCounter("ember_router_token_cache_bytes_total",
                                      "Bytes of prompts whose tokens were known, or not",
                                      {{"known", "yes"}})),
      new_bytes_(metrics.AddCounter("ember_router_token_cache_bytes_total",
                                    "Bytes of prompts whose tokens were known, or not",
                                    {{"known", "no"}})),
      cache_size_(metrics.AddGauge("ember_router_token_cache_size_bytes",
                                   "Memory of the tokens and hashes that are remembered")) {}

LocalTokenizer::~LocalTokenizer() {
  thread_.join();
  aside_.join();
}

Status LocalTokenizer::Load() { return models_.Load(options_.models); }

TokenizerReport LocalTokenizer::Report() const {
  using Parity = TokenizerReport::Parity;
  TokenizerReport report;
  for (const auto& [name, model] : models_.all()) {
    const Parity parity = !model.trusted   ? Parity::kDiffers
                          : model.compared ? Parity::kEqual
                                           : Parity::kUnknown;
    report.models.push_back({.model = name,
                             .fast = model.tokenizer->fast(),
                             .cuts = model.tokenizer->cuts() != 0,
                             .has_template = model.tokenizer->has_template(),
                             .ids = model.tokenizer->ids(),
                             .parity = parity});
  }
  report.cache_bytes = cache_.bytes();
  report.cache_max_bytes = cache_.max_bytes();
  report.known_bytes = known_bytes_.value();
  report.new_bytes = new_bytes_.value();
  return report;
}

asio::awaitable<bool> LocalTokenizer::OnThread(std::function<void()> job) {
  if (waiting_ >= options_.max_waiting) co_return false;
  ++waiting_;
  co_await RunOn(thread_, std::move(job));
  --waiting_;
  co_return true;
}

asio::awaitable<void> LocalTokenizer::Aside(std::function<void()> job) {
  return RunOn(aside_, std::move(job));
}

asio::awaitable<void> LocalTokenizer::RunOn(asio::thread_pool& thread, std::function<void()> job) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto start = [&](auto handler) {
    asio::post(thread, [job, executor, handler = std::move(handler)]() mutable {
      job();
      asio::post(executor, std::move(handler));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(std::move(start),
                                                                       asio::use_awaitable);
}

asio::awaitable<PromptReason> LocalTokenizer::Understand(std::string_view body, Work* work) {
  uint32_t roles = work->model != nullptr && !work->literal_found ? work->model->slot_roles : 0;
  if (work->model == nullptr) roles = kAllRoles;
  for (;;) {
    work->outline = {};
    PromptReason reason = PromptReason::kBusy;
    const auto read = [&reason, &body, roles, work] {
      reason = PromptOutline::Of(work->api, body, roles, &work->outline);
    };
    if (body.size() <= kLargeBody) {
      read();
    } else {
      co_await OnThread(read);
    }
    if (reason != PromptReason::kNone) co_return reason;
    std::string_view base;
    if (directory_ != nullptr) {
      work->adapter = directory_->AdapterOf(work->outline.model, work->outline.lora_path);
      base = directory_->BaseOf(work->outline.model);
      if (base.empty()) base = directory_->BaseOf(work->adapter.value_or(""));
    }
    const LoadedModel* model = models_.Find(work->outline.model, base);
    if (model == nullptr) co_return PromptReason::kNoTokenizer;
    if (!model->trusted && !work->any) co_return PromptReason::kDistrusted;
    work->model = model;
    work->tokenizer = model->tokenizer;
    const uint32_t wanted = work->literal_found ? 0 : model->slot_roles;
    if (work->api == PromptApi::kCompletion || roles == wanted) break;
    roles = wanted;
  }
  if (work->api == PromptApi::kCompletion) {
    for (const std::string_view text : work->outline.slots) work->pieces = {{text, true}};
    co_return PromptReason::kNone;
  }
  const Checksum name =
      renderer_.NameOf(work->model->root, *work->tokenizer, work->api, work->outline);
  work->rendered = renderer_.Find(name);
  if (work->rendered == nullptr) {
    RenderedPrompt made;
    const auto render = [&made, work] {
      made = RenderedPrompt::Of(*work->tokenizer, work->api, work->outline);
    };
    if (work->outline.request.size() <= options_.inline_bytes) {
      render();
    } else if (!co_await OnThread(render)) {
      co_return PromptReason::kBusy;
    }
    work->rendered = std::make_shared<const RenderedPrompt>(std::move(made));
    renderer_.Put(name, work->rendered);
  }
  work->pieces = work->rendered->PiecesWith(work->outline.slots);
  co_return work->rendered->reason;
}

asio::awaitable<PromptReason> LocalTokenizer::Encode(Work* work) {
  const ModelTokenizer& tokenizer = *work->tokenizer;
  const TextWalk walk(work->root(), work->pieces);
  KnownText& known = work->known;
  const bool cuts = tokenizer.cuts() != 0;
  if (!cuts && cache_.Find(walk.whole(), &known)) {
    known_bytes_.Add(walk.bytes());
    co_return PromptReason::kNone;
  }
  // What is remembered whole may bear the name of a stretch, but is no beginning of any text.
  const size_t stretch = cuts ? cache_.FindStretch(walk, &known) : 0;
  const std::vector<TextSpan> spans = walk.SpansAfter(stretch);
  const std::span<const TextSpan> rest = std::span(spans).subspan(cache_.FindStep(spans, &known));
  size_t bytes = 0;
  for (const TextSpan& span : rest) bytes += span.text.size();
  known_bytes_.Add(walk.bytes() - bytes);
  new_bytes_.Add(bytes);

  EncodedText found;
  const auto encode = [&found, &known, &tokenizer, rest, work] {
    std::vector<TokenId> head;
    if (known.run == nullptr && work->outline.add_special_tokens) head = tokenizer.before();
    found = TextEncoder(tokenizer, known, std::move(head), work->rendered != nullptr)
                .Encode(rest, work->deadline);
  };
  if (bytes <= options_.inline_bytes) {
    encode();
  } else if (!co_await OnThread(encode)) {
    co_return PromptReason::kBusy;
  }
  for (EncodedText::Place& place : found.places) {
    cache_.Extend(rest[place.span], std::move(place.tokens), std::move(place.pending),
                  std::move(place.last_of_slot), &known);
  }
  work->literal_found = found.literal_found;
  if (found.reason != PromptReason::kNone || found.literal_found) co_return found.reason;
  if (cuts) {
    work->tail = std::move(found.tail);
  } else {
    cache_.PutWhole(walk.whole(), std::move(found.tail), &known);
  }
  co_return PromptReason::kNone;
}

asio::awaitable<LocalTokenizer::Answer> LocalTokenizer::Tokenize(std::string_view path,
                                                                 std::string_view body) {
  if (body.size() < options_.min_body_bytes) co_return Answer{nullptr, PromptReason::kTooShort};
  if (body.size() > options_.max_body_bytes) co_return Answer{nullptr, PromptReason::kTooLarge};
  co_return co_await Answered(path, body, false);
}

asio::awaitable<LocalTokenizer::Answer> LocalTokenizer::TokenizeAny(std::string_view path,
                                                                    std::string_view body) {
  return Answered(path, body, true);
}

asio::awaitable<LocalTokenizer::Answer> LocalTokenizer::Answered(std::string_view path,
                                                                 std::string_view body, bool any) {
  const std::optional<PromptApi> api = PromptApiOf(path);
  if (!api) co_return Answer{nullptr, PromptReason::kNoPrompt};
  Work work;
  work.deadline = LoopNow() + options_.deadline;
  work.api = *api;
  work.any = any;
  // A second time when a text in a slot turns out to be one that the template looks into.
  for (int round = 0; round < 2; ++round) {
    PromptReason reason = co_await Understand(body, &work);
    work.known = {};
    if (reason == PromptReason::kNone && work.outline.ids.empty()) reason = co_await Encode(&work);
    if (reason != PromptReason::kNone) co_return Answer{nullptr, reason};
    if (!work.literal_found) break;
  }
  cache_size_.Set(static_cast<double>(cache_.bytes()));
  SharedPrompt prompt = work.Finish();
  if (prompt->token_count > work.outline.most_tokens) {
    co_return Answer{nullptr, PromptReason::kTruncated};
  }
  co_return Answer{std::move(prompt), PromptReason::kNone};
}

}  // namespace ember::router
