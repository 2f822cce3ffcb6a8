#include "client/agent/admin_pages.h"

#include <charconv>

#include "client/http/json_writer.h"
#include "proto/base/process_metrics.h"

namespace ember::agent {

namespace asio = boost::asio;

AdminPages::AdminPages(MetricsRegistry& registry, const RequestLog& log, const AgentFeed& feed,
                       const EngineMonitor& monitor, const SlotTable& slots)
    : registry_(registry),
      log_(log),
      feed_(feed),
      monitor_(monitor),
      slots_(slots),
      healthy_(registry.AddGauge("ember_agent_engine_healthy", "1 when the engine answers")),
      slots_total_(
          registry.AddGauge("ember_agent_slots", "Slots of the engine in use by the agent")),
      running_(registry.AddGauge("ember_agent_slots_busy", "Slots that a request has now")),
      waiting_(registry.AddGauge("ember_agent_requests_waiting", "Requests waiting for a slot")) {}

bool AdminPages::Has(const http::Request& request) const {
  return request.method == "GET" && (request.path == "/health" || request.path == "/metrics" ||
                                     request.path.starts_with("/ember/"));
}

asio::awaitable<void> AdminPages::Handle(http::Request& request, http::ResponseWriter& writer) {
  if (request.path == "/health") {
    (void)co_await writer.SendJson(monitor_.ready() ? 200 : 503, Health());
  } else if (request.path == "/metrics") {
    http::ResponseHead head;
    head.headers.Set("Content-Type", "text/plain; version=0.0.4");
    (void)co_await writer.Send(std::move(head), Metrics());
  } else if (request.path == "/ember/requests") {
    size_t limit = RequestLog::kMaxRecords;
    if (const auto text = request.QueryParam("limit")) {
      std::from_chars(text->data(), text->data() + text->size(), limit);
    }
    (void)co_await writer.SendJson(200, log_.ToJson(limit, request.QueryParam("id").value_or("")));
  } else if (request.path == "/ember/held") {
    (void)co_await writer.SendJson(200, Held());
  } else {
    (void)co_await writer.SendError(http::OpenAiError::ForHttpStatus(404, "no such page"));
  }
}

std::string AdminPages::Health() const {
  std::string out = "{\"status\":";
  out += monitor_.ready() ? "\"ok\"" : "\"waiting for the engine\"";
  const bool on = monitor_.identity() != nullptr;
  out += ",\"cache\":" + http::JsonString(on ? "on" : "off: " + monitor_.cache_problem());
  return out + "}\n";
}

std::string AdminPages::Held() const {
  const FeedSnapshot now = feed_.Now();
  std::string out = "{\"namespace\":";
  out += now.space ? http::JsonString(ToHex(now.space->id.bytes)) : "null";
  out += ",\"slots\":[";
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const SlotContent& content = slots_.content(slot);
    if (slot > 0) out += ',';
    out += "{\"slot\":" + std::to_string(slot) +
           ",\"known\":" + (content.known ? "true" : "false") +
           ",\"tokens\":" + std::to_string(content.tokens.size()) + ",\"blocks\":[";
    bool first = true;
    for (const FeedHeld& held : now.held) {
      if (held.slot != slot) continue;
      for (const BlockHash& block : held.blocks) {
        if (!std::exchange(first, false)) out += ',';
        out += '"' + ToHex(block.bytes) + '"';
      }
    }
    out += "]}";
  }
  return out + "]}\n";
}

std::string AdminPages::Metrics() {
  healthy_.Set(monitor_.ready() ? 1 : 0);
  slots_total_.Set(slots_.size());
  running_.Set(slots_.running());
  waiting_.Set(static_cast<double>(slots_.waiting()));
  return registry_.RenderPrometheusText() + ProcessMetricsText();
}

}  // namespace ember::agent
