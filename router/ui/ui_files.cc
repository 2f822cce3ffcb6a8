#include "router/ui/ui_files.h"

#include "router/ui/embedded.inc"

namespace ember::router {

const UiFile* FindUiFile(std::string_view path) {
  constexpr std::string_view kScript = "text/javascript; charset=utf-8";
  static const UiFile files[] = {
      {"/ui", "text/html; charset=utf-8", index_html},
      {"/ui/app.css", "text/css; charset=utf-8", app_css},
      {"/ui/app.js", kScript, app_js},
      {"/ui/charts.js", kScript, charts_js},
      {"/ui/dom.js", kScript, dom_js},
      {"/ui/views.js", kScript, views_js},
  };
  if (path == "/ui/") path = "/ui";
  for (const UiFile& file : files) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace ember::router
