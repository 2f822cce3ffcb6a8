#include "router/tokenize/text_walk.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "router/tokenize/json_text.h"

namespace ember::router {
namespace {

const SecretHash& NameHash() {
  static const SecretHash hash;
  return hash;
}

Checksum NameOf(const Checksum& before, const TextSpan& span) {
  const Checksum text = NameHash().Of(AsBytes(span.text));
  std::array<std::byte, 40> message{};
  std::memcpy(message.data(), before.data(), before.size());
  std::memcpy(message.data() + 16, text.data(), text.size());
  const auto length = static_cast<uint32_t>(span.text.size());
  std::memcpy(message.data() + 32, &length, sizeof length);
  message[36] = static_cast<std::byte>(span.raw);
  // The start of a piece tells a text from the same one with a piece's edge inside.
  message[37] = static_cast<std::byte>(span.starts_piece);
  return NameHash().Of(message);
}

// A name for the steps of a stretch that no stretch has.
Checksum StepRoot(const Checksum& stretch) {
  std::array<std::byte, 17> message{};
  std::memcpy(message.data(), stretch.data(), stretch.size());
  return NameHash().Of(message);
}

}  // namespace

TextWalk::TextWalk(const Checksum& root, std::span<const PromptPiece> pieces)
    : pieces_(pieces), marks_{{{}, root, 0}}, whole_(root) {
  Place place;
  size_t in_stretch = 0;
  while (place.piece < pieces_.size()) {
    const TextSpan span = Next(&place, kStretch - in_stretch);
    if (span.text.empty()) continue;
    whole_ = NameOf(whole_, span);
    bytes_ += span.text.size();
    in_stretch += span.text.size();
    if (in_stretch >= kStretch) {
      marks_.push_back({place, whole_, bytes_});
      in_stretch = 0;
    }
  }
}

TextSpan TextWalk::Next(Place* place, size_t most) const {
  const PromptPiece& piece = pieces_[place->piece];
  const size_t target = place->offset + most;
  const size_t end = target >= piece.text.size() ? piece.text.size()
                     : piece.raw                 ? DivideRaw(piece.text, place->offset, target)
                                                 : DividePlain(piece.text, target);
  const TextSpan span{.text = piece.text.substr(place->offset, end - place->offset),
                      .raw = piece.raw,
                      .starts_piece = place->offset == 0};
  place->offset = end;
  if (end == piece.text.size()) *place = {place->piece + 1, 0};
  return span;
}

std::vector<TextSpan> TextWalk::SpansAfter(size_t stretch) const {
  std::vector<TextSpan> spans;
  spans.reserve((bytes_ - marks_[stretch].bytes) / kStep * 5 / 4 + 2 * pieces_.size() + 4);
  Place place = marks_[stretch].place;
  Checksum name = StepRoot(marks_[stretch].name);
  size_t in_stretch = 0, in_step = 0;
  while (place.piece < pieces_.size()) {
    TextSpan span = Next(&place, std::min(kStretch - in_stretch, kStep - in_step));
    if (span.text.empty()) continue;
    in_stretch += span.text.size();
    in_step += span.text.size();
    name = NameOf(name, span);
    if (in_stretch >= kStretch) {
      span.end = TextSpan::End::kStretch;
      span.name = marks_[++stretch].name;
      name = StepRoot(span.name);
      in_stretch = in_step = 0;
    } else if (in_step >= kStep) {
      span.end = TextSpan::End::kStep;
      span.name = name;
      in_step = 0;
    }
    spans.push_back(span);
  }
  return spans;
}

}  // namespace ember::router
