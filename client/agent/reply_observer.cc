#include "client/agent/reply_observer.h"

namespace ember::agent {
namespace {
constexpr size_t kMaxBodyBytes = 8u << 20;
}

ReplyObserver::ReplyObserver(bool event_stream)
    : event_stream_(event_stream), events_([this](std::string_view data) {
        if (auto timings = ReadTimings(data)) timings_ = timings;
      }) {}

void ReplyObserver::Feed(std::string_view piece) {
  if (event_stream_) {
    events_.Feed(piece);
    return;
  }
  too_long_ = too_long_ || body_.size() + piece.size() > kMaxBodyBytes;
  if (!too_long_) body_ += piece;
}

std::optional<EngineTimings> ReplyObserver::Timings() {
  if (!event_stream_ && !too_long_ && !timings_) timings_ = ReadTimings(body_);
  return timings_;
}

}  // namespace ember::agent
