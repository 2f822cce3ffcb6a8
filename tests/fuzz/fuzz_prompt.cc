// A request's body as a prompt: what is read must lie inside it, texts must be divided so that
// their parts mean what the whole means, and equal beginnings must have equal names. What a JSON
// parser finds over the caps of fan-out must be refused.
#include <simdjson.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "router/front/fan_out.h"
#include "router/tokenize/cut_points.h"
#include "router/tokenize/json_text.h"
#include "router/tokenize/prompt_outline.h"
#include "router/tokenize/request_model.h"
#include "router/tokenize/slot_marks.h"
#include "router/tokenize/text_chunks.h"
#include "router/tokenize/text_walk.h"

namespace ember::router {
namespace {

void Require(bool holds) {
  if (!holds) std::abort();
}

void TryText(std::string_view raw) {
  std::string whole;
  const bool good = Unescape(raw, &whole);
  const std::vector<PromptPiece> pieces = {{raw, true}, {whole, false}};
  const TextWalk walk(Checksum{}, pieces);
  std::string in_parts;
  size_t bytes = 0;
  bool parts_good = true;
  for (const TextSpan& span : walk.SpansAfter(0)) {
    bytes += span.text.size();
    if (span.raw) parts_good &= Unescape(span.text, &in_parts);
  }
  Require(bytes == walk.bytes());
  if (good) Require(parts_good && in_parts == whole);
  Require(RawBlankPrefix(raw) <= raw.size() && RawBlankSuffix(raw) <= raw.size());
  const size_t cut = LastCut(whole, 0, kAllCuts);
  Require(cut == 0 || cut < whole.size());
}

void TryBody(PromptApi api, uint32_t roles, std::string_view body) {
  PromptOutline outline;
  if (PromptOutline::Of(api, body, roles, &outline) == PromptReason::kNone) {
    for (const std::string_view slot : outline.slots) {
      Require(slot.empty() || (slot.data() >= body.data() &&
                               slot.data() + slot.size() <= body.data() + body.size()));
      TryText(slot);
    }
    size_t slots = 0;
    const std::vector<TextPiece> pieces = SplitAtMarks(outline.request, outline.slots.size());
    for (const TextPiece& piece : pieces) {
      slots += piece.slot >= 0 ? 1 : 0;
    }
    // None: the body holds the marks' secret, which the fuzzer sees being compared.
    if (api != PromptApi::kCompletion && !pieces.empty()) Require(slots == outline.slots.size());
  }
  TextChunksOf(api, body);
  Require(ModelOfJson(body).size() <= 1024);
  Require(ModelOfForm("multipart/form-data; boundary=b", body).size() <= 1024);
}

void TryFanOut(std::string_view body) {
  const bool fits = FanOutCaps{.choices = 4, .stops = 2}.Check(body).ok();
  simdjson::dom::parser parser;
  simdjson::dom::object root;
  if (parser.parse(body.data(), body.size()).get(root) != simdjson::SUCCESS) return;
  for (const auto& [key, value] : root) {
    double count = 0;
    simdjson::dom::array list;
    if ((key == "n" || key == "best_of") && value.get(count) == simdjson::SUCCESS) {
      Require(count <= 4 || !fits);
    }
    if ((key == "stop" || key == "stop_sequences") && value.get(list) == simdjson::SUCCESS) {
      Require(list.size() <= 2 || !fits);
    }
  }
}

}  // namespace
}  // namespace ember::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using ember::router::PromptApi;
  if (size < 1) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 0x40) != 0) {
    ember::router::TryText(body);
  } else {
    ember::router::TryBody(static_cast<PromptApi>(data[0] & 3), data[0] >> 2 & 15u, body);
    ember::router::TryFanOut(body);
  }
  return 0;
}
