#include "router/tokenize/prompt_renderer.h"

#include <ctime>
#include <utility>

namespace ember::router {

RenderedPrompt RenderedPrompt::Of(const ModelTokenizer& tokenizer, PromptApi api,
                                  const PromptOutline& outline) {
  RenderedPrompt out;
  ModelTokenizer::Rendered rendered;
  out.reason = tokenizer.Render(api, outline.request, &rendered);
  if (out.reason != PromptReason::kNone) return out;
  out.text = std::move(rendered.text);
  out.cut = rendered.cut;
  out.pieces = SplitAtMarks(out.text, outline.slots.size());
  if (out.pieces.empty() && !out.text.empty()) out.reason = PromptReason::kTemplate;
  return out;
}

std::vector<PromptPiece> RenderedPrompt::PiecesWith(
    const std::vector<std::string_view>& slots) const {
  std::vector<PromptPiece> out;
  out.reserve(pieces.size());
  for (const TextPiece& piece : pieces) {
    if (piece.slot >= 0) {
      out.push_back({slots[static_cast<size_t>(piece.slot)], true});
    } else {
      out.push_back({std::string_view(text).substr(piece.begin, piece.end - piece.begin), false});
    }
  }
  return out;
}

Checksum PromptRenderer::NameOf(const Checksum& root, const ModelTokenizer& tokenizer,
                                PromptApi api, const PromptOutline& outline) const {
  struct {
    Checksum root, request;
    int64_t minute;
    uint64_t slots;
    uint64_t api;
  } message{root, secret_.Of(AsBytes(outline.request)), 0, outline.slots.size(),
            static_cast<uint64_t>(api)};
  if (tokenizer.template_uses_time()) message.minute = std::time(nullptr) / 60;
  return secret_.Of(std::as_bytes(std::span(&message, 1)));
}

std::shared_ptr<const RenderedPrompt> PromptRenderer::Find(const Checksum& name) {
  const auto* known = known_.Find(name);
  return known == nullptr ? nullptr : *known;
}

size_t PromptRenderer::CostOf(const RenderedPrompt& rendered) {
  constexpr size_t kEntry = 256;
  return kEntry + rendered.text.capacity() + rendered.pieces.capacity() * sizeof(TextPiece);
}

void PromptRenderer::Put(const Checksum& name, std::shared_ptr<const RenderedPrompt> rendered) {
  const size_t cost = CostOf(*rendered);
  if (cost > max_bytes_ / 8 || !known_.Put(name, std::move(rendered))) return;
  bytes_ += cost;
  while (bytes_ > max_bytes_) bytes_ -= CostOf(*known_.DropOldest());
}

}  // namespace ember::router
