#include "client/http/sse_scanner.h"

#include <algorithm>

namespace ember::http {

void SseScanner::Feed(std::string_view piece) {
  while (!piece.empty() && !stopped_) {
    if (after_cr_) {
      after_cr_ = false;
      if (piece.front() == '\n') {
        piece.remove_prefix(1);
        continue;
      }
    }
    const size_t end = piece.find_first_of("\r\n");
    if (line_.size() + std::min(end, piece.size()) > max_event_bytes_) return Stop();
    if (end == std::string_view::npos) {
      line_.append(piece);
      return;
    }
    after_cr_ = piece[end] == '\r';
    const std::string_view rest_of_line = piece.substr(0, end);
    piece.remove_prefix(end + 1);
    if (line_.empty()) {
      FeedLine(rest_of_line);
    } else {
      line_.append(rest_of_line);
      FeedLine(line_);
      line_.clear();
    }
  }
}

void SseScanner::FeedLine(std::string_view line) {
  if (first_line_) {
    first_line_ = false;
    if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  }
  if (line.empty()) return EndEvent();
  if (!line.starts_with("data")) return;
  line.remove_prefix(4);
  if (!line.empty()) {
    if (line.front() != ':') return;
    line.remove_prefix(1);
    if (line.starts_with(' ')) line.remove_prefix(1);
  }
  if (data_.size() + line.size() + 1 > max_event_bytes_) return Stop();
  if (has_data_) data_ += '\n';
  data_.append(line);
  has_data_ = true;
}

void SseScanner::EndEvent() {
  if (has_data_) observer_(data_);
  has_data_ = false;
  data_.clear();
}

void SseScanner::Stop() {
  stopped_ = true;
  line_ = {};
  data_ = {};
}

}  // namespace ember::http
