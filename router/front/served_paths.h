// ServedPaths: which requests go on to replicas. What an engine offers besides (resetting caches,
// changing weights, profiling) is often unguarded, so everything that is not listed ends here.
// Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ember::router {

// Whether `methods`, as of MethodsOf, have that one.
bool ListsMethod(std::string_view methods, std::string_view method);

class ServedPaths {
 public:
  // `more`: further prefixes, of whole segments: "/v1/files" is also "/v1/files/x".
  explicit ServedPaths(std::vector<std::string> more = {}) : more_(std::move(more)) {}

  // `path` without its query, as sent. One that two readers could take for different ones (escapes,
  // dot segments, empty segments, backslashes) is never served.
  bool Serves(std::string_view path) const;
  // What may be asked of a path that is served, as Allow says it: "GET, HEAD". "": anything, for
  // what a path of `more` takes is its engine's affair.
  std::string_view MethodsOf(std::string_view path) const;
  // A path of Anthropic's API: errors have its shape.
  static bool IsAnthropic(std::string_view path);
  // Whether `prefix` can be given as one of `more`.
  static bool IsPrefix(std::string_view prefix);
  // Whether the router answers there itself: its health, metrics, page and admin API.
  static bool IsOwn(std::string_view path);

 private:
  bool IsOfMore(std::string_view path) const;

  std::vector<std::string> more_;
};

}  // namespace ember::router
