// TextWalk: a prompt's text as spans with a rolling name: equal beginnings give equal names at the
// same places, so that what is known of a beginning can be looked up without comparing texts.
//
// Places are fixed by the text before them: a *stretch* ends every 8 KiB, a *step* every 256 bytes
// within it. Pure but for the process's secret; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "proto/base/checksum.h"

namespace ember::router {

// A piece of a prompt's text: plain, or still escaped as in the JSON it came from.
struct PromptPiece {
  std::string_view text;
  bool raw = false;
};

struct TextSpan {
  std::string_view text;
  bool raw = false;
  bool starts_piece = false;
  enum class End : uint8_t { kNone, kStep, kStretch } end = End::kNone;
  Checksum name{};  // of all text up to the end of this span, if something ends there
};

class TextWalk {
 public:
  static constexpr size_t kStretch = 8192;
  static constexpr size_t kStep = 256;

  // `root` names what the text is for: equal texts under different roots share nothing.
  TextWalk(const Checksum& root, std::span<const PromptPiece> pieces);

  // After stretch n = 1, 2, ...; 0 is the root.
  size_t stretches() const { return marks_.size() - 1; }
  const Checksum& NameAfter(size_t stretch) const { return marks_[stretch].name; }
  const Checksum& whole() const { return whole_; }  // of the whole text
  size_t bytes() const { return bytes_; }
  size_t BytesAfter(size_t stretch) const { return marks_[stretch].bytes; }

  // The spans after that stretch, to the end of the text.
  std::vector<TextSpan> SpansAfter(size_t stretch) const;

 private:
  struct Place {
    size_t piece = 0, offset = 0;
  };
  struct Mark {
    Place place;
    Checksum name;
    size_t bytes;
  };
  // Takes the text from `place` on, at most about `most` bytes of one piece.
  TextSpan Next(Place* place, size_t most) const;

  const std::span<const PromptPiece> pieces_;
  std::vector<Mark> marks_;
  Checksum whole_;
  size_t bytes_ = 0;
};

}  // namespace ember::router
