// SseScanner: finds the events in a server-sent event stream that arrives in arbitrary pieces.
//
// It only looks on: it never changes or delays the bytes. Memory is bounded: an event longer than
// the limit is not observed.
// Grammar: WHATWG HTML, "Server-sent events" (CR, LF or CRLF; optional space after the colon;
// comments; several data lines joined by LF; an optional byte order mark).
// Concurrency: one thread. The view passed to the observer is valid during the call only.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace ember::http {

class SseScanner {
 public:
  using Observer = std::function<void(std::string_view data)>;

  // `max_event_bytes` bounds one line and the data of one event.
  explicit SseScanner(Observer observer, size_t max_event_bytes = 1u << 20)
      : observer_(std::move(observer)), max_event_bytes_(max_event_bytes) {}

  void Feed(std::string_view piece);
  // What the last whole event's `event` field said; "" without one. Cut after kMaxType bytes.
  std::string_view last_type() const { return last_type_; }

 private:
  static constexpr size_t kMaxType = 64;
  void FeedLine(std::string_view line);
  void EndEvent();
  void SkipEvent();

  Observer observer_;
  size_t max_event_bytes_;
  std::string line_;  // the beginning of a line whose end has not arrived
  std::string data_;
  std::string type_, last_type_;
  bool has_data_ = false;
  bool after_cr_ = false;  // the last line ended with CR: an LF now belongs to it
  bool first_line_ = true;
  bool skip_line_ = false;   // up to its end
  bool skip_event_ = false;  // up to its end
};

}  // namespace ember::http
