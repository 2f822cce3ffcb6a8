// The text inside JSON strings, as it stands between the quotes ("raw", with its escapes): where it
// ends, where it may be divided, and what it means. Pure functions, linear, safe on any bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ember::router {

// The position of the quote that ends the string whose first character is at `from`; npos when it
// has no end.
size_t EndOfString(std::string_view json, size_t from);

// The position of the next quote, bracket or brace at or after `from`; the end if there is none.
size_t NextBrace(std::string_view json, size_t from);

// The first place at or after `target` where raw text may be divided: not inside an escape, a pair
// of surrogates or a UTF-8 character. `start` is such a place before it, so that no more than what
// lies between has to be looked at.
size_t DivideRaw(std::string_view raw, size_t start, size_t target);
// The same for text without escapes.
size_t DividePlain(std::string_view text, size_t target);

// Appends what raw text means. False for a broken escape or half a pair of surrogates; then what
// was appended is of no use.
bool Unescape(std::string_view raw, std::string* out);

// What the raw text of a member's name means: `raw` itself, or a view of *buffer. A name that is
// longer than any known one stays as it is.
std::string_view MeaningOfName(std::string_view raw, std::string* buffer);

// How much white space (as Python's str.strip sees it) raw text has at its start and at its end.
size_t RawBlankPrefix(std::string_view raw);
size_t RawBlankSuffix(std::string_view raw);

}  // namespace ember::router
