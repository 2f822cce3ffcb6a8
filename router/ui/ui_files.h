// The page's files, compiled into the program. Constants; any thread.
#pragma once

#include <string_view>

namespace ember::router {

struct UiFile {
  std::string_view path;  // "/ui", "/ui/app.js"
  std::string_view content_type;
  std::string_view content;
};

// Null when there is no such file.
const UiFile* FindUiFile(std::string_view path);

}  // namespace ember::router
