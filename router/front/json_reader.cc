#include "router/front/json_reader.h"

#include <simdjson.h>

#include <cstring>

namespace ember::router {
namespace {

using simdjson::dom::element;

// One a thread: it keeps its buffers.
simdjson::dom::parser& Parser() {
  thread_local simdjson::dom::parser parser;
  return parser;
}

constexpr uint64_t kMostTokens = uint64_t{1} << 40;  // sums of them do not overflow

std::optional<uint64_t> Count(const simdjson::simdjson_result<element>& value) {
  uint64_t n = 0;
  if (value.get(n) != simdjson::SUCCESS || n > kMostTokens) return std::nullopt;
  return n;
}

// `usage` as chats and completions have it, or as responses do, or messages, where `input_tokens`
// are those that were not read from a cache.
std::optional<ReplyUsage> UsageOf(const simdjson::simdjson_result<element>& usage) {
  const auto chat = Count(usage["completion_tokens"]);
  const uint64_t output = chat ? *chat : Count(usage["output_tokens"]).value_or(0);
  if (const auto read = Count(usage["cache_read_input_tokens"])) {
    const uint64_t rest = Count(usage["input_tokens"]).value_or(0);
    // Some engines say 0 as well when they do not count.
    return ReplyUsage{*read, rest + Count(usage["cache_creation_input_tokens"]).value_or(0),
                      *read > 0, output};
  }
  for (const auto& [total, details] : {std::pair("prompt_tokens", "prompt_tokens_details"),
                                       std::pair("input_tokens", "input_tokens_details")}) {
    const auto prompt = Count(usage[total]);
    if (!prompt) continue;
    const auto told = Count(usage[details]["cached_tokens"]);
    if (!told || *told > *prompt) return ReplyUsage{0, *prompt, false, output};
    return ReplyUsage{*told, *prompt - *told, true, output};
  }
  return {};
}

// The length of the number that text begins with; 0: none.
size_t NumberAt(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at > begin;
  };
  if (text.substr(at).starts_with('0')) {
    ++at;
  } else if (!digits()) {
    return 0;
  }
  size_t end = at;
  if (text.substr(at).starts_with('.') && (++at, digits())) end = at;
  at = end;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits()) end = at;
  }
  return end;
}

// The same text with 0 or -0 for each number: as much JSON as it was, and none is out of range.
std::string WithoutNumbers(std::string_view json) {
  std::string out(json);
  bool in_string = false;
  for (size_t i = 0; i < out.size(); ++i) {
    if (in_string && out[i] == '\\') {
      ++i;
    } else if (out[i] == '"') {
      in_string = !in_string;
    } else if (const size_t length = in_string ? 0 : NumberAt(json.substr(i))) {
      const size_t digit = i + (out[i] == '-' ? 1 : 0);
      out.replace(digit, i + length - digit, i + length - digit, ' ');
      out[digit] = '0';
      i += length - 1;
    }
  }
  return out;
}

constexpr size_t kMaxDepth = 512;

// Whether brackets are nested deeper than any parser would go, in the part of a body that is looked
// at.
bool IsTooDeep(std::string_view json) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string && c == '\\') {
      ++i;
    } else if (c == '"') {
      in_string = !in_string;
    } else if (!in_string && (c == '{' || c == '[')) {
      if (++depth > kMaxDepth) return true;
    } else if (!in_string && (c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

Status CheckEnds(std::string_view body) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = body.find_first_not_of(kSpace), last = body.find_last_not_of(kSpace);
  if (first == body.npos || body[first] != '{' || body[last] != '}') {
    return InvalidError("the body must be a JSON object");
  }
  if (IsTooDeep(body.substr(0, kMaxCheckedBody))) {
    return InvalidError("the body is not valid JSON: it is nested too deeply");
  }
  return OkStatus();
}

// A value that is there and not null.
std::optional<element> Given(const simdjson::simdjson_result<element>& value) {
  element e;
  if (value.get(e) != simdjson::SUCCESS || e.is_null()) return {};
  return e;
}

bool IsText(const simdjson::simdjson_result<element>& value, std::string_view text) {
  std::string_view v;
  return value.get(v) == simdjson::SUCCESS && v == text;
}

bool IsClients(const element& error) {
  const uint64_t code = Count(error["code"]).value_or(0);
  return (code >= 400 && code < 500) || IsText(error["type"], "invalid_request_error");
}

// As find(), which looks behind each quote by itself.
bool Contains(std::string_view text, std::string_view what) {
  return memmem(text.data(), text.size(), what.data(), what.size()) != nullptr;
}

}  // namespace

Status CheckIsObject(std::string_view body) {
  // The likeliest, and the one that can't be seen in an editor.
  if (body.starts_with("\xEF\xBB\xBF")) {
    return InvalidError("the body begins with a byte order mark, which JSON has not");
  }
  if (body.size() > kMaxCheckedBody) return CheckEnds(body);
  element root;
  simdjson::error_code error = Parser().parse(body.data(), body.size()).get(root);
  // Numbers of any size are JSON, and clients write such into schemas.
  if (error == simdjson::NUMBER_ERROR) error = Parser().parse(WithoutNumbers(body)).get(root);
  if (error) {
    return InvalidError(std::string("the body is not valid JSON: ") +
                        simdjson::error_message(error));
  }
  if (!root.is_object()) return InvalidError("the body must be a JSON object");
  return OkStatus();
}

std::optional<ReplyUsage> ReadUsage(std::string_view json) {
  // Nearly every event of a stream has neither: a search is cheaper than a parse.
  if (!Contains(json, "\"usage\"") && !Contains(json, "\"timings\"")) return {};
  element root;
  if (Parser().parse(json.data(), json.size()).get(root) != simdjson::SUCCESS) return {};
  const auto cached = Count(root["timings"]["cache_n"]);
  const auto computed = Count(root["timings"]["prompt_n"]);
  if (cached && computed) {
    return ReplyUsage{*cached, *computed, true, Count(root["timings"]["predicted_n"]).value_or(0)};
  }
  if (const auto usage = UsageOf(root["usage"])) return usage;
  if (const auto usage = UsageOf(root["response"]["usage"])) return usage;
  return UsageOf(root["message"]["usage"]);
}

ErrorEvent ReadErrorEvent(std::string_view json) {
  if (!Contains(json, "\"error\"")) return ErrorEvent::kNone;
  element root;
  if (Parser().parse(json.data(), json.size()).get(root) != simdjson::SUCCESS) {
    return ErrorEvent::kNone;
  }
  std::optional<element> error = Given(root["error"]);
  if (!error) error = Given(root["response"]["error"]);
  if (!error && (IsText(root["type"], "error") || IsText(root["object"], "error"))) error = root;
  if (!error) return ErrorEvent::kNone;
  return IsClients(*error) ? ErrorEvent::kClient : ErrorEvent::kServer;
}

}  // namespace ember::router
