// Which model a request's body names. Pure, linear in what precedes the name, safe on any bytes;
// any thread.
#pragma once

#include <string>
#include <string_view>

namespace ember::router {

// Of a JSON object; "" when it names none.
std::string ModelOfJson(std::string_view body);

// Of a form (multipart/form-data, as audio is sent); "" when the content type is another one, or
// none of its first parts is the model's.
std::string ModelOfForm(std::string_view content_type, std::string_view body);

}  // namespace ember::router
