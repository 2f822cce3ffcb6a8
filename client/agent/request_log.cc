#include "client/agent/request_log.h"

#include <fmt/format.h>

#include "client/http/json_writer.h"

namespace ember::agent {

std::string RequestRecord::ToJson() const {
  std::string out = "{\"id\":" + http::JsonString(id) + ",\"path\":" + http::JsonString(path);
  const auto number = [&out](std::string_view name, uint64_t value) {
    out += fmt::format(",\"{}\":{}", name, value);
  };
  const auto ms = [&out](std::string_view name, double value) {
    if (value >= 0) out += fmt::format(",\"{}\":{:.3f}", name, value);
  };
  out += fmt::format(",\"time\":{:.6f},\"status\":{},\"route\":\"{}\",\"stream\":{},\"slot\":{}",
                     unix_time, status, RouteName(route), stream, slot);
  number("prompt_tokens", prompt_tokens);
  number("local_tokens", local_tokens);
  number("matched_tokens", matched_tokens);
  number("remote_tokens", remote_tokens);
  if (counted) {
    number("engine_cached", engine_cached);
    number("engine_computed", engine_computed);
    ms("prompt_ms", prompt_ms);
  }
  ms("tokenize_ms", tokenize_ms);
  ms("queue_ms", queue_ms);
  ms("match_ms", match_ms);
  ms("transfer_ms", transfer_ms);
  ms("rebuild_ms", rebuild_ms);
  ms("restore_ms", restore_ms);
  ms("overhead_ms", overhead_ms);
  ms("ttft_ms", ttft_ms);
  ms("total_ms", total_ms);
  ms("save_ms", save_ms);
  ms("push_ms", push_ms);
  number("prefetched_segments", prefetched_segments);
  ms("prefetch_lead_ms", prefetch_lead_ms);
  number("segments", segments);
  number("bytes_loaded", bytes_loaded);
  number("pushed_segments", pushed_segments);
  number("pushed_bytes", pushed_bytes);
  out += ",\"notes\":[";
  for (size_t i = 0; i < notes.size(); ++i) {
    if (i > 0) out += ',';
    http::AppendJsonString(&out, notes[i]);
  }
  return out + "]}";
}

std::shared_ptr<RequestRecord> RequestLog::Begin() {
  if (records_.size() == kMaxRecords) records_.pop_back();
  records_.push_front(std::make_shared<RequestRecord>());
  return records_.front();
}

std::string RequestLog::ToJson(size_t limit, std::string_view id) const {
  std::string out = "[";
  size_t shown = 0;
  for (const auto& record : records_) {
    if (shown >= limit) break;
    if (!id.empty() && record->id != id) continue;
    if (shown++ > 0) out += ",\n";
    out += record->ToJson();
  }
  return out + "]\n";
}

}  // namespace ember::agent
