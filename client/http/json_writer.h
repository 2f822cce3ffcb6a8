// The one place where JSON text is made by hand: strings with correct escapes. Pure functions, any
// thread.
#pragma once

#include <string>
#include <string_view>

namespace ember::http {

// Appends `text` as a quoted JSON string. Bytes that are not UTF-8 become U+FFFD, so that the
// result is always valid JSON.
void AppendJsonString(std::string* out, std::string_view text);

// The quoted string by itself.
std::string JsonString(std::string_view text);

}  // namespace ember::http
