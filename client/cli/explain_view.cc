#include "client/cli/explain_view.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "client/cli/text.h"

namespace ember::cli {
namespace {

using simdjson::dom::element;

std::string Text(element object, std::string_view name) {
  std::string_view text;
  return object[name].get(text) == simdjson::SUCCESS ? std::string(text) : "";
}

uint64_t Number(element object, std::string_view name) {
  uint64_t number = 0;
  return object[name].get(number) == simdjson::SUCCESS ? number : 0;
}

// Milliseconds; "-" where the router says nothing.
std::string Ms(element object, std::string_view name) {
  double number = 0;
  if (object[name].get(number) != simdjson::SUCCESS) return "-";
  return fmt::format("{:.{}f}", number, number < 10 ? 2 : 0);
}

std::string Tokens(element object, std::string_view name) {
  uint64_t number = 0;
  return object[name].get(number) == simdjson::SUCCESS ? CountText(number) : "-";
}

// "r1", or "r1/3" of a data-parallel rank.
std::string Name(element object) {
  uint64_t rank = 0;
  const std::string id = Text(object, "replica");
  return object["rank"].get(rank) == simdjson::SUCCESS ? fmt::format("{}/{}", id, rank) : id;
}

std::string AttemptText(element attempt) {
  std::string out = fmt::format("  {} by {}: {}\n", Name(attempt), Text(attempt, "policy"),
                                Text(attempt, "reason"));
  if (const std::string failure = Text(attempt, "failure"); !failure.empty()) {
    out += fmt::format("  failed: {}\n", failure);
  }
  simdjson::dom::array candidates;
  if (attempt["candidates"].get(candidates) != simdjson::SUCCESS || candidates.size() == 0) {
    return out + (Text(attempt, "reason").starts_with("no_tokens")
                      ? "  no costs: they go by tokens\n"
                      : "  no costs: this policy does not look at them\n");
  }
  TextTable table({"", "REPLICA", "COST MS", "TTFT", "QUEUE", "LOAD", "PREFILL", "TAIL",
                   "DISPLACES", "EXPLORES", "CROWDS", "ON DEVICE", "ANY TIER", "USED",
                   "FROM STORE"});
  for (element c : candidates) {
    table.Add({Name(c) == Name(attempt) ? "*" : "", Name(c), Ms(c, "total_ms"), Ms(c, "ttft_ms"),
               Ms(c, "queue_ms"), Ms(c, "load_ms"), Ms(c, "prefill_ms"), Ms(c, "tail_ms"),
               Ms(c, "displacement_ms"), Ms(c, "exploration_ms"), Ms(c, "crowding_ms"),
               Tokens(c, "device_tokens"), Tokens(c, "any_tier_tokens"), Tokens(c, "local_tokens"),
               Tokens(c, "remote_tokens")});
  }
  return out + table.ToString();
}

std::string RequestText(element r) {
  std::string out = fmt::format("{}  {} {}  {}", Text(r, "request_id"), Text(r, "method"),
                                Text(r, "path"), Text(r, "outcome"));
  if (const uint64_t status = Number(r, "status"); status > 0) out += fmt::format(" ({})", status);
  if (const std::string route = Text(r, "route"); !route.empty()) out += ", " + route;
  out += fmt::format("\n  {} prompt tokens", Tokens(r, "prompt_tokens"));
  if (Number(r, "store_tokens") > 0) out += ", " + Tokens(r, "store_tokens") + " in the store";
  if (Number(r, "status") > 0) {
    // Only of a stream the first byte is the first token.
    bool stream = false;
    (void)r["stream"].get(stream);
    out += fmt::format("; cached {}, computed {}; {} after {} ms, first token predicted after {}",
                       Tokens(r, "cached_tokens"), Tokens(r, "computed_tokens"),
                       stream ? "first token" : "whole reply",
                       Ms(r, stream ? "measured_ttft_ms" : "total_ms"), Ms(r, "predicted_ttft_ms"));
  }
  out += fmt::format("\n  tokenized in {} ms\n", Ms(r, "tokenize_ms"));
  simdjson::dom::array attempts;
  if (r["attempts"].get(attempts) != simdjson::SUCCESS) return out;
  for (element attempt : attempts) out += AttemptText(attempt);
  return out;
}

std::string VerifiedText(simdjson::dom::array verified) {
  if (verified.size() == 0)
    return "  nothing to verify: nobody could take it, or nobody knows its tokens\n";
  TextTable table({"REPLICA", "TOLD", "HOLDS", "STORE TOLD", "STORE HOLDS", ""});
  for (element v : verified) {
    table.Add({Name(v), Tokens(v, "told_tokens"), Tokens(v, "held_tokens"),
               Tokens(v, "told_store_tokens"), Tokens(v, "store_tokens"), Text(v, "why")});
  }
  return "\n  told to the router, and held as the replicas say now, in tokens\n" + table.ToString();
}

Status NotOurs() { return CorruptError("the router's answer is not what was expected"); }

}  // namespace

Result<std::string> ExplainedText(std::string_view json) {
  simdjson::dom::parser parser;
  element root;
  simdjson::dom::array requests;
  if (parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS ||
      root["requests"].get(requests) != simdjson::SUCCESS) {
    return NotOurs();
  }
  if (requests.size() == 0) return NotFoundError("no such request among the newest");
  std::string out;
  for (element r : requests) {
    if (!out.empty()) out += "\n";
    out += RequestText(r);
  }
  return out;
}

Result<std::string> ExplainedRequestText(std::string_view json) {
  simdjson::dom::parser parser;
  element root, request;
  if (parser.parse(json.data(), json.size()).get(root) != simdjson::SUCCESS ||
      root["request"].get(request) != simdjson::SUCCESS) {
    return NotOurs();
  }
  std::string out;
  if (const std::string tokens = Text(root, "tokens"); tokens != "known") {
    out += fmt::format("tokens unknown: {}\n", tokens);
  }
  out += RequestText(request);
  simdjson::dom::array verified, excluded;
  if (root["verified"].get(verified) == simdjson::SUCCESS) out += VerifiedText(verified);
  if (root["excluded"].get(excluded) != simdjson::SUCCESS) return out;
  for (element e : excluded) {
    out += fmt::format("  not a candidate: {}, {}, {} in flight{}\n", Name(e), Text(e, "state"),
                       Number(e, "in_flight"), Text(e, "why").empty() ? "" : ": " + Text(e, "why"));
  }
  return out;
}

}  // namespace ember::cli
