#include "router/front/reply_observer.h"

#include <algorithm>
#include <array>

namespace ember::router {
namespace {

// Of messages and of responses, which have no [DONE].
constexpr std::array<std::string_view, 4> kLastTypes = {"message_stop", "response.completed",
                                                        "response.incomplete", "response.failed"};

}  // namespace

ReplyObserver::ReplyObserver()
    : scanner_(
          [this](std::string_view data) {
            auto usage = ReadUsage(data);
            // The end of a stream of messages may repeat the prompt's length alone.
            if (usage && (usage->counted || !usage_ || !usage_->counted)) usage_ = usage;
            const ErrorEvent error = ReadErrorEvent(data);
            if (error != ErrorEvent::kNone) error_ = error;
          },
          kMaxBytes) {}

void ReplyObserver::Feed(std::string_view piece, bool event_stream) {
  if (event_stream) return scanner_.Feed(piece);
  too_long_ = too_long_ || whole_.size() + piece.size() > kMaxBytes;
  if (!too_long_) whole_.append(piece);
}

bool ReplyObserver::said_all() const {
  return std::ranges::find(kLastTypes, scanner_.last_type()) != kLastTypes.end();
}

std::optional<ReplyUsage> ReplyObserver::Usage() {
  if (!usage_ && !too_long_ && !whole_.empty()) usage_ = ReadUsage(whole_);
  return usage_;
}

}  // namespace ember::router
