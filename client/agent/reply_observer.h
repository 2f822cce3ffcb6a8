// ReplyObserver: looks on while a reply streams by, and keeps what the engine counted. It never
// changes or delays a byte; a reply it can't read costs observations only.
// One thread; one object per reply.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/agent/engine_reply.h"
#include "client/http/sse_scanner.h"

namespace ember::agent {

class ReplyObserver {
 public:
  // `event_stream`: the reply's content type is text/event-stream.
  explicit ReplyObserver(bool event_stream);

  void Feed(std::string_view piece);
  // True when a reply that is no stream may be complete: it ends like a JSON object.
  bool whole() const { return !event_stream_ && !too_long_ && body_.ends_with('}'); }
  // The last timings so far; after the last piece, of the whole reply.
  std::optional<EngineTimings> Timings();

 private:
  bool event_stream_;
  http::SseScanner events_;
  std::string body_;  // of a reply that is no stream, up to a bound
  bool too_long_ = false;
  std::optional<EngineTimings> timings_;
};

}  // namespace ember::agent
