// Which model a request's body names, and whether it asks for a stream. Pure, linear in the body,
// safe on any bytes; any thread.
#pragma once

#include <string>
#include <string_view>

#include "router/tokenize/json_cursor.h"

namespace ember::router {

// The value that comes next, if that is text, else "". Of a name over 1 KiB, which nobody has, the
// beginning; of one that means nothing what is written.
bool TakeModel(JsonCursor* json, std::string* model);

// Of a JSON object; "" when it names none. Of several names the last, as engines have it.
std::string ModelOfJson(std::string_view body);
// Likewise SGLang's name of an adapter.
std::string LoraPathOfJson(std::string_view body);

// Of a JSON object: `stream` is true.
bool AsksForStream(std::string_view body);

// Of a form (multipart/form-data, as audio is sent); "" when the content type is another one, or
// none of its first parts is the model's.
std::string ModelOfForm(std::string_view content_type, std::string_view body);

}  // namespace ember::router
