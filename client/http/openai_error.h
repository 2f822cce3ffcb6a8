// OpenAiError: the error object OpenAI clients understand, and which HTTP status it goes with.
// A plain value; any thread.
#pragma once

#include <string>
#include <string_view>

#include "proto/base/status.h"

namespace ember::http {

// Whose clients are to understand it.
enum class ErrorShape { kOpenAi, kAnthropic };

struct OpenAiError {
  int status = 500;     // HTTP status
  std::string message;  // for people
  std::string type;     // "invalid_request_error", "server_error", "overloaded_error", ...
  std::string code;     // machine readable, e.g. "context_length_exceeded"; empty is sent as null

  // {"error":{"message":...,"type":...,"param":null,"code":...}}, or
  // {"type":"error","error":{"type":...,"message":...}}
  std::string Body(ErrorShape shape = ErrorShape::kOpenAi) const;
  // "data: {"error":{...}}\n\ndata: [DONE]\n\n", or "event: error\ndata: {...}\n\n": how a stream
  // that has begun says that it failed.
  std::string Events(ErrorShape shape = ErrorShape::kOpenAi) const;

  // With the type that OpenAI's own API uses for this HTTP status.
  static OpenAiError ForHttpStatus(int status, std::string message, std::string code = "");
  // kInvalid 400, kNotFound 404, kBusy and kNoSpace 503, kUnavailable 502, kDeadline 504,
  // kCancelled 499, rest 500.
  static OpenAiError FromStatus(const Status& status);
  // 503, of code "shutdown": this server stops and gives its requests up.
  static OpenAiError OfShutdown();
};

// "Not Found" etc.; "Unknown" for a number without a standard phrase.
std::string_view ReasonPhrase(int status);

}  // namespace ember::http
