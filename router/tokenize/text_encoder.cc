#include "router/tokenize/text_encoder.h"

#include <algorithm>
#include <utility>

#include "router/tokenize/cut_points.h"
#include "router/tokenize/json_text.h"

namespace ember::router {
namespace {

// A text without a cut for so long is remembered no more until there is one.
constexpr size_t kMaxPending = 4096;
// A text without a cut for so long costs the thread too much at once.
constexpr size_t kMaxUncut = 256u << 10;
// The clock is read this often.
constexpr size_t kSpansBetweenLooks = 16;

TimePoint SteadyNow() { return std::chrono::steady_clock::now(); }

}  // namespace

TextEncoder::TextEncoder(const ModelTokenizer& tokenizer, const KnownText& known,
                         std::vector<TokenId> head, bool find_literals)
    : tokenizer_(tokenizer),
      pending_(known.pending),
      last_of_slot_(known.last_of_slot),
      tokens_(std::move(head)) {
  if (!find_literals) return;
  for (const std::string& literal : tokenizer.literals()) {
    longest_literal_ = std::max(longest_literal_, literal.size());
  }
}

EncodedText TextEncoder::Encode(std::span<const TextSpan> spans, TimePoint deadline) && {
  EncodedText out;
  const bool cuts = tokenizer_.cuts() != 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    // The time may be up before the first: it waited for the thread.
    if (i % kSpansBetweenLooks == 0 && SteadyNow() >= deadline) {
      out.reason = PromptReason::kTimeout;
      return out;
    }
    out.reason = Add(spans[i]);
    out.literal_found = literal_found_;
    if (out.reason != PromptReason::kNone || literal_found_) return out;
    if (!cuts || spans[i].end == TextSpan::End::kNone) continue;
    out.reason = Settle();
    if (out.reason != PromptReason::kNone) return out;
    if (pending_.size() <= kMaxPending) {
      out.places.push_back({i, std::exchange(tokens_, {}), pending_, last_of_slot_});
    }
  }
  out.reason = tokenizer_.Encode(pending_, &tokens_);
  out.tail = std::move(tokens_);
  return out;
}

PromptReason TextEncoder::Add(const TextSpan& span) {
  const size_t before = pending_.size();
  if (!span.raw) {
    pending_ += span.text;
    last_of_slot_.clear();
  } else if (!Unescape(span.text, &pending_)) {
    return PromptReason::kInvalid;
  } else if (longest_literal_ > 0) {
    if (span.starts_piece) last_of_slot_.clear();
    literal_found_ = HasLiteral(std::string_view(pending_).substr(before));
  }
  return pending_.size() > kMaxUncut ? PromptReason::kTooLarge : PromptReason::kNone;
}

bool TextEncoder::HasLiteral(std::string_view text) {
  last_of_slot_ += text;
  const auto in_text = [&](const std::string& literal) {
    return last_of_slot_.find(literal) != std::string::npos;
  };
  if (std::any_of(tokenizer_.literals().begin(), tokenizer_.literals().end(), in_text)) return true;
  const size_t kept = std::min(last_of_slot_.size(), longest_literal_ - 1);
  last_of_slot_.erase(0, last_of_slot_.size() - kept);
  return false;
}

PromptReason TextEncoder::Settle() {
  // A cut is seen from the two or three characters around it.
  constexpr size_t kAround = 8;
  const size_t from = searched_ > kAround ? searched_ - kAround : 0;
  const size_t cut = LastCut(pending_, from, tokenizer_.cuts());
  searched_ = pending_.size();
  if (cut == 0) return PromptReason::kNone;
  const PromptReason reason =
      tokenizer_.Encode(std::string_view(pending_).substr(0, cut), &tokens_);
  pending_.erase(0, cut);
  searched_ -= cut;
  return reason;
}

}  // namespace ember::router
