#include "router/tokenize/model_tokenizer.h"

#include <cstdlib>
#include <utility>

#include "router/tokenize/cut_points.h"
#include "router/tokenize/cut_proof.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// Of reads as well.
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#define EMBER_WATCHED 1
#endif
#endif

namespace ember::router {
namespace {

// Lives while Rust code runs on this thread. ThreadSanitizer sees what that code allocates and
// copies, but not its locks and counters: without this it reports whatever they guard.
class RustCode {
 public:
#if defined(EMBER_WATCHED)
  RustCode() { AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
  ~RustCode() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__); }
#else
  RustCode() {}
#endif
  RustCode(const RustCode&) = delete;
  RustCode& operator=(const RustCode&) = delete;
};

// fastokens would spread every text over threads of its own, one a processor, which spin between
// texts: the processor that this router was given belongs to its loop. Set before there is a
// thread, for setenv and getenv may not meet.
[[maybe_unused]] const int kNoThreadsOfItsOwn = setenv("FASTOKENS_BPE_THREADS", "1", 0);

std::vector<TokenId> TokensOf(const uint32_t* ids, size_t count) {
  return std::vector<TokenId>(ids, ids + count);
}

}  // namespace

ModelTokenizer::ModelTokenizer(EmberTokens* model) : model_(model) {
  {
    RustCode rust;
    ember_tokens_properties(model_, &properties_);
  }
  before_ = TokensOf(properties_.before, properties_.before_count);
  after_ = TokensOf(properties_.after, properties_.after_count);
  std::string_view all(reinterpret_cast<const char*>(properties_.literals),
                       properties_.literals_length);
  for (size_t end = 0; (end = all.find('\0')) != all.npos; all.remove_prefix(end + 1)) {
    literals_.emplace_back(all.substr(0, end));
  }
}

ModelTokenizer::~ModelTokenizer() {
  RustCode rust;
  ember_tokens_free(model_);
}

Result<std::shared_ptr<const ModelTokenizer>> ModelTokenizer::Load(const std::string& path,
                                                                   bool keep_reference) {
  const char* error = nullptr;
  size_t error_length = 0;
  EmberTokens* model = nullptr;
  {
    RustCode rust;
    model =
        ember_tokens_load(path.data(), path.size(), keep_reference ? 1 : 0, &error, &error_length);
  }
  if (model == nullptr) return InvalidError(std::string(error, error_length));
  std::shared_ptr<ModelTokenizer> made(new ModelTokenizer(model));
  made->cuts_ = ProvenCuts(*made, made->properties_.cuts);
  return std::shared_ptr<const ModelTokenizer>(std::move(made));
}

PromptReason ModelTokenizer::Encode(std::string_view text, std::vector<TokenId>* out,
                                    bool by_reference) const {
  if (text.empty()) return PromptReason::kNone;
  const uint32_t* ids = nullptr;
  size_t count = 0;
  RustCode rust;
  const uint32_t failed =
      ember_tokens_encode(model_, text.data(), text.size(), by_reference ? 1 : 0, &ids, &count);
  if (failed != 0) return static_cast<PromptReason>(failed);
  out->insert(out->end(), ids, ids + count);
  return PromptReason::kNone;
}

PromptReason ModelTokenizer::Render(PromptApi api, std::string_view request, Rendered* out) const {
  const char* text = nullptr;
  size_t length = 0;
  uint32_t cut = 0;
  RustCode rust;
  const uint32_t failed = ember_tokens_render(model_, static_cast<uint32_t>(api), request.data(),
                                              request.size(), &text, &length, &cut);
  if (failed != 0) return static_cast<PromptReason>(failed);
  out->text.assign(text, length);
  out->cut = cut != 0;
  return PromptReason::kNone;
}

}  // namespace ember::router
