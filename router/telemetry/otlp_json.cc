#include "router/telemetry/otlp_json.h"

#include "client/http/json_object.h"

namespace ember::router {
namespace {

using http::JsonArray;
using http::JsonObject;

enum class SpanKind : uint8_t { kInternal = 1, kServer = 2, kClient = 3 };

// A list of OTLP's KeyValue objects.
class Attributes {
 public:
  Attributes& Add(std::string_view key, std::string_view text) {
    return AddValue(key, JsonObject().Add("stringValue", text));
  }
  Attributes& Add(std::string_view key, uint64_t number) {
    return AddValue(key, JsonObject().Add("intValue", std::to_string(number)));
  }
  Attributes& Add(std::string_view key, double number) {
    return AddValue(key, JsonObject().Add("doubleValue", number));
  }
  std::string ToString() const { return JsonArray(values_); }

 private:
  Attributes& AddValue(std::string_view key, const JsonObject& value) {
    values_.push_back(JsonObject().Add("key", key).AddRaw("value", value.ToString()).ToString());
    return *this;
  }
  std::vector<std::string> values_;
};

// The spans of one request.
class RequestSpans {
 public:
  RequestSpans(const RequestRecord& record, std::vector<std::string>* out)
      : r_(record), out_(out), children_(record.trace.span) {}

  void Append() {
    AppendRequest();
    if (r_.tokenized_at != TimePoint()) {
      JsonObject tokenize = Span("tokenize", children_.Next(), r_.trace.span, SpanKind::kInternal,
                                 r_.tokenize_from, r_.tokenized_at);
      Attributes attributes;
      if (r_.prompt_tokens > 0) attributes.Add("ember.prompt_tokens", r_.prompt_tokens);
      Close(&tokenize, attributes);
    }
    for (const AttemptRecord& attempt : r_.attempts) AppendAttempt(attempt);
  }

 private:
  std::string UnixNano(TimePoint at) const {
    return std::to_string(r_.received_unix_ns + (at - r_.received_at).count());
  }

  JsonObject Span(std::string_view name, uint64_t id, uint64_t parent, SpanKind kind,
                  TimePoint from, TimePoint to) const {
    JsonObject span;
    span.Add("traceId", r_.trace.trace.ToString()).Add("spanId", SpanIdText(id));
    if (parent != 0) span.Add("parentSpanId", SpanIdText(parent));
    span.Add("flags", 1u)
        .Add("name", name)
        .Add("kind", static_cast<uint64_t>(kind))
        .Add("startTimeUnixNano", UnixNano(from))
        .Add("endTimeUnixNano", UnixNano(to));
    return span;
  }

  void Close(JsonObject* span, const Attributes& attributes, const std::string& error = "") {
    span->AddRaw("attributes", attributes.ToString());
    JsonObject status;
    if (!error.empty()) status.Add("code", 2u).Add("message", error);
    span->AddRaw("status", status.ToString());
    out_->push_back(span->ToString());
  }

  static std::string SaidStatus(int status) { return "the replica said " + std::to_string(status); }

  void AppendRequest() {
    JsonObject span = Span(r_.method + " " + r_.path, r_.trace.span, r_.trace.parent,
                           SpanKind::kServer, r_.received_at, r_.ended_at);
    Attributes attributes;
    attributes.Add("http.request.method", r_.method)
        .Add("url.path", r_.path)
        .Add("http.response.status_code", static_cast<uint64_t>(r_.status))
        .Add("http.request.body.size", r_.request_bytes)
        .Add("http.response.body.size", r_.reply_bytes)
        .Add("ember.request_id", r_.request_id)
        .Add("ember.policy", r_.policy)
        .Add("ember.outcome", r_.outcome);
    if (r_.queued > Duration(0)) attributes.Add("ember.queued_ms", ToMilliseconds(r_.queued));
    if (r_.counted) {
      attributes.Add("gen_ai.usage.input_tokens", r_.cached_tokens + r_.computed_tokens)
          .Add("ember.cached_tokens", r_.cached_tokens);
    }
    // Of a server's span only what the server did wrong is an error; a cut reply is one too.
    const bool failed =
        r_.status >= 500 || r_.outcome.starts_with("failed") || r_.outcome == "shutdown";
    const std::string& why = r_.outcome;
    Close(&span, attributes, !failed ? "" : why != "done" ? why : SaidStatus(r_.status));
  }

  void AppendAttempt(const AttemptRecord& a) {
    JsonObject route = Span("route", children_.Next(), r_.trace.span, SpanKind::kInternal,
                            a.decide_from, a.decided_at);
    Close(&route, RouteAttributes(a.decision));
    if (a.sent_at == TimePoint()) return;
    JsonObject upstream = Span("upstream", a.span, r_.trace.span, SpanKind::kClient, a.sent_at,
                               a.ended_at == TimePoint() ? r_.ended_at : a.ended_at);
    if (r_.stream && a.first_byte_at != TimePoint()) {
      const std::string event = JsonObject()
                                    .Add("timeUnixNano", UnixNano(a.first_byte_at))
                                    .Add("name", "ttft")
                                    .ToString();
      upstream.AddRaw("events", JsonArray({event}));
    }
    Attributes attributes;
    attributes.Add("ember.replica", a.decision.replica);
    if (a.status != 0) attributes.Add("http.response.status_code", static_cast<uint64_t>(a.status));
    const bool refused = a.failure.empty() && a.status >= 400;
    Close(&upstream, attributes, refused ? SaidStatus(a.status) : a.failure);
  }

  Attributes RouteAttributes(const RoutingDecision& d) const {
    Attributes out;
    out.Add("ember.replica", d.replica)
        .Add("ember.route", RouteName(d.predicted_route))
        .Add("ember.reason", d.reason);
    if (d.rank) out.Add("ember.rank", uint64_t{*d.rank});
    if (!d.candidates.empty()) {
      const CandidateCost& cost = d.candidates.at(d.candidate);
      out.Add("ember.matched_tokens", uint64_t{cost.local_tokens} + cost.remote_tokens)
          .Add("ember.cost_ms", cost.total_ms)
          .Add("ember.predicted_ttft_ms", cost.ttft_ms);
    }
    return out;
  }

  const RequestRecord& r_;
  std::vector<std::string>* out_;
  SeededRandom children_;  // ids of spans that nobody else has to know
};

}  // namespace

OtlpBatch OtlpJson(const std::vector<FinishedRequest>& requests, const OtlpResource& resource) {
  std::vector<std::string> spans;
  for (const FinishedRequest& request : requests) RequestSpans(*request, &spans).Append();
  const std::string about = Attributes()
                                .Add("service.name", "ember-router")
                                .Add("service.version", resource.version)
                                .Add("service.instance.id", resource.instance)
                                .ToString();
  const std::string scope =
      JsonObject().Add("name", "ember-router").Add("version", resource.version).ToString();
  const std::string scope_spans =
      JsonObject().AddRaw("scope", scope).AddRaw("spans", JsonArray(spans)).ToString();
  const std::string resource_spans =
      JsonObject()
          .AddRaw("resource", JsonObject().AddRaw("attributes", about).ToString())
          .AddRaw("scopeSpans", JsonArray({scope_spans}))
          .ToString();
  return {JsonObject().AddRaw("resourceSpans", JsonArray({resource_spans})).ToString(),
          spans.size()};
}

}  // namespace ember::router
