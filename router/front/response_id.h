// ResponseIdFinder: the id of a response in its reply as it passes, whole or an event stream: the
// first "id" that looks like one (`resp_...`). It never delays a byte, and looks at the first 16
// KiB alone. One request's strand.
#pragma once

#include <string>
#include <string_view>

namespace ember::router {

// The value of the first `"key":"value"` in JSON text, as written, `quoted_key` with its quotes; ""
// when there is none or it is not whole yet. A key within a string can't match: its quotes are
// escaped.
std::string_view StringField(std::string_view json, std::string_view quoted_key);

class ResponseIdFinder {
 public:
  // The id, once: with the piece that completes it.
  std::string Feed(std::string_view piece);

 private:
  static constexpr size_t kMaxBytes = 16u << 10;
  std::string seen_;
  bool over_ = false;
};

}  // namespace ember::router
