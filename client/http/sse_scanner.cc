#include "client/http/sse_scanner.h"

#include <algorithm>

namespace ember::http {

void SseScanner::Feed(std::string_view piece) {
  // Each is looked for once: a search for either of two bytes looks at every byte by itself.
  size_t lf = piece.find('\n'), cr = piece.find('\r');
  size_t at = 0;
  while (at < piece.size()) {
    if (std::exchange(after_cr_, false) && piece[at] == '\n') {
      ++at;
      continue;
    }
    if (lf != piece.npos && lf < at) lf = piece.find('\n', at);
    if (cr != piece.npos && cr < at) cr = piece.find('\r', at);
    const size_t end = std::min(lf, cr);
    const std::string_view part = piece.substr(at, end - at);
    if (line_.size() + part.size() > max_event_bytes_) {
      skip_line_ = true;
      SkipEvent();
    }
    if (end == piece.npos) {
      if (!skip_line_) line_.append(part);
      return;
    }
    after_cr_ = piece[end] == '\r';
    at = end + 1;
    if (std::exchange(skip_line_, false)) {
      first_line_ = false;
    } else if (line_.empty()) {
      FeedLine(part);
    } else {
      line_.append(part);
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
  const std::string_view field = line.substr(0, line.find(':'));
  if (field != "data" && field != "event") return;
  line.remove_prefix(std::min(field.size() + 1, line.size()));
  if (line.starts_with(' ')) line.remove_prefix(1);
  if (field == "event") {
    type_ = line.substr(0, kMaxType);
    return;
  }
  if (skip_event_) return;
  if (data_.size() + line.size() + 1 > max_event_bytes_) return SkipEvent();
  if (has_data_) data_ += '\n';
  data_.append(line);
  has_data_ = true;
}

void SseScanner::EndEvent() {
  if (has_data_) observer_(data_);
  if (has_data_ || skip_event_) last_type_ = type_;
  has_data_ = skip_event_ = false;
  data_.clear();
  type_.clear();
}

void SseScanner::SkipEvent() {
  skip_event_ = true;
  has_data_ = false;
  line_ = {};
  data_ = {};
}

}  // namespace ember::http
