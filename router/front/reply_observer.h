// ReplyObserver: looks at a reply as it passes and remembers what the engine counted, and whether
// it said that it failed. It never
// changes or delays a byte, and its memory is bounded: an event or a whole reply beyond the bound
// is not looked at. One request's strand.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/http/sse_scanner.h"
#include "router/front/json_reader.h"

namespace ember::router {

class ReplyObserver {
 public:
  ReplyObserver();
  ReplyObserver(const ReplyObserver&) = delete;
  ReplyObserver& operator=(const ReplyObserver&) = delete;

  void Feed(std::string_view piece, bool event_stream);
  // The last counts seen; complete once the whole reply was fed.
  std::optional<ReplyUsage> Usage();
  // The last event is one that ends its stream, so that what follows means nothing. Not of [DONE].
  bool said_all() const;
  // The last event of a stream that was an error.
  ErrorEvent error() const { return error_; }

 private:
  static constexpr size_t kMaxBytes = 1u << 20;
  http::SseScanner scanner_;
  std::string whole_;
  bool too_long_ = false;
  std::optional<ReplyUsage> usage_;
  ErrorEvent error_ = ErrorEvent::kNone;
};

}  // namespace ember::router
