// Marks that stand for long texts while a prompt's template is run, so that the text itself is
// neither copied nor looked at. A mark can't be guessed: it holds a secret of the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ember::router {

// Appends the mark of slot `slot`, at most 999,999. No JSON escape is needed for it.
void PutMark(size_t slot, std::string* out);

// A piece of a rendered prompt: plain text, or the text of a slot.
struct TextPiece {
  uint32_t begin = 0, end = 0;  // of the rendered text
  int32_t slot = -1;            // -1: plain
};

// The pieces of a rendered text in which marks of slots below `slots` stand. Empty when something
// was done to a mark, so that it can't be replaced.
std::vector<TextPiece> SplitAtMarks(std::string_view rendered, size_t slots);

}  // namespace ember::router
