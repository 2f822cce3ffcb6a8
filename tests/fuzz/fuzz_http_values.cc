// The pure parts of the HTTP layer: event streams, targets, header lists, addresses, paths. The
// first byte chooses one.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/http/headers.h"
#include "client/http/json_writer.h"
#include "client/http/origin.h"
#include "client/http/request.h"
#include "client/http/sse_scanner.h"
#include "proto/base/check.h"
#include "router/front/reply_observer.h"
#include "router/front/routing_options.h"
#include "router/front/served_paths.h"

namespace ember {
namespace {

std::vector<std::string> EventsOf(std::string_view stream, size_t piece, size_t max_event) {
  std::vector<std::string> events;
  http::SseScanner scanner([&](std::string_view data) { events.emplace_back(data); }, max_event);
  while (!stream.empty()) {
    scanner.Feed(stream.substr(0, piece));
    stream.remove_prefix(std::min(piece, stream.size()));
  }
  return events;
}

void FuzzEvents(std::string_view text, size_t piece) {
  const auto whole = EventsOf(text, text.size(), 1 << 20);
  EMBER_CHECK(EventsOf(text, piece, 1 << 20) == whole, "events do not depend on the pieces");
  for (const std::string& event : EventsOf(text, piece, 64)) {
    EMBER_CHECK(event.size() <= 64, "an event's bound");
  }
  router::ReplyObserver stream, body;
  for (std::string_view rest = text; !rest.empty();
       rest.remove_prefix(std::min(piece, rest.size()))) {
    stream.Feed(rest.substr(0, piece), true);
    body.Feed(rest.substr(0, piece), false);
  }
  (void)stream.Usage();
  (void)body.Usage();
}

void FuzzTarget(std::string_view text) {
  http::Request request;
  request.SetTarget(text);
  EMBER_CHECK(request.target.starts_with(request.path), "the path starts the target");
  (void)request.QueryParam("sticky");
  const std::string once = router::WithoutParameter(request.target, "sticky");
  EMBER_CHECK(router::WithoutParameter(once, "sticky") == once, "removed is removed");
  const router::ServedPaths served({"/more"});
  if (served.Serves(request.path)) {
    EMBER_CHECK(request.path.find("..") == std::string::npos ||
                    request.path.find("/../") == std::string::npos,
                "no dot segments");
    EMBER_CHECK(request.path.find('%') == std::string::npos, "no escapes");
  }
}

void FuzzHeaders(std::string_view text) {
  http::Headers headers;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const size_t colon = std::min(line.find(':'), line.size());
    headers.Add(std::string(line.substr(0, colon)),
                std::string(line.substr(std::min(colon + 1, line.size()))));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const size_t before = headers.size();
  headers.RemoveHopByHop();
  EMBER_CHECK(headers.size() <= before && !headers.Has("Connection"), "hop by hop");
  std::string out;
  headers.AppendTo(&out);
  EMBER_CHECK(out.empty() || out.ends_with("\r\n"), "whole lines");
  EMBER_CHECK(out.find("\r\n\r\n") == out.npos, "no end of the head within it");
}

void FuzzOrigin(std::string_view text) {
  const auto origin = http::Origin::Parse(text);
  if (!origin.ok()) return;
  const auto again = http::Origin::Parse(origin->ToString());
  EMBER_CHECK(again.ok() && *again == *origin, "what it prints it parses");
}

void Fuzz(uint8_t which, std::string_view text) {
  switch (which % 5) {
    case 0:
      return FuzzEvents(text, which / 5 + 1u);
    case 1:
      return FuzzTarget(text);
    case 2:
      return FuzzHeaders(text);
    case 3:
      return FuzzOrigin(text);
    case 4:
      (void)http::JsonString(text);
      return;
  }
}

}  // namespace
}  // namespace ember

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  ember::Fuzz(data[0], {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
