// Finished requests as spans in OTLP's JSON encoding (opentelemetry-proto 1.x, ExportTraceService-
// Request as protobuf JSON: ids in hexadecimal, 64-bit numbers as strings). A pure function, any
// thread.
//
// Spans: the request (kind server), and below it tokenize, route and, for each replica that was
// tried, upstream (kind client) with the event "ttft".
#pragma once

#include <string>
#include <vector>

#include "router/telemetry/request_record.h"

namespace ember::router {

// What names this process in every span.
struct OtlpResource {
  std::string version;
  std::string instance;  // "host:process id"
};

struct OtlpBatch {
  std::string json;
  size_t spans = 0;
};

OtlpBatch OtlpJson(const std::vector<FinishedRequest>& requests, const OtlpResource& resource);

}  // namespace ember::router
