// Where a text may be cut so that its two parts, tokenized apart, give the tokens of the whole.
// A pure function of a few characters on both sides of the cut; which rules hold for a tokenizer is
// tried out when it is loaded (cut_proof.h). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ember::router {

// Rules, as bits.
inline constexpr uint32_t kCutBeforeSpace = 1;  // "x| y": a visible character, space, letter
inline constexpr uint32_t kCutAfterLine = 2;    // "x\n|y": one line's end before a letter
inline constexpr uint32_t kCutBeforePunctuation =
    4;  // "好|，世": a CJK comma or stop between letters
inline constexpr uint32_t kAllCuts = 7;

// The last position in (from, text.size()) where one of the rules in `mask` allows a cut, or 0.
// `text` is UTF-8.
size_t LastCut(std::string_view text, size_t from, uint32_t mask);

}  // namespace ember::router
