#include "client/http/openai_error.h"

#include "client/http/json_writer.h"

namespace ember::http {

namespace {

// Anthropic's names, where they are others.
const char* AnthropicType(int status, const std::string& type) {
  if (status == 413) return "request_too_large";
  if (status == 504) return "timeout_error";
  return type == "server_error" ? "api_error" : type.c_str();
}

}  // namespace

std::string OpenAiError::Body(ErrorShape shape) const {
  if (shape == ErrorShape::kAnthropic) {
    std::string out = "{\"type\":\"error\",\"error\":{\"type\":";
    AppendJsonString(&out, AnthropicType(status, type));
    out += ",\"message\":";
    AppendJsonString(&out, message);
    return out + "}}";
  }
  std::string out = "{\"error\":{\"message\":";
  AppendJsonString(&out, message);
  out += ",\"type\":";
  AppendJsonString(&out, type);
  out += ",\"param\":null,\"code\":";
  if (code.empty()) {
    out += "null";
  } else {
    AppendJsonString(&out, code);
  }
  out += "}}";
  return out;
}

std::string OpenAiError::Events(ErrorShape shape) const {
  if (shape == ErrorShape::kAnthropic) return "event: error\ndata: " + Body(shape) + "\n\n";
  return "data: " + Body() + "\n\ndata: [DONE]\n\n";
}

OpenAiError OpenAiError::ForHttpStatus(int status, std::string message, std::string code) {
  const char* type = "invalid_request_error";
  switch (status) {
    case 401:
      type = "authentication_error";
      break;
    case 403:
      type = "permission_error";
      break;
    case 404:
      type = "not_found_error";
      break;
    case 429:
      type = "rate_limit_error";
      break;
    case 503:
      type = "overloaded_error";
      break;
    default:
      if (status >= 500) type = "server_error";
  }
  return {status, std::move(message), type, std::move(code)};
}

OpenAiError OpenAiError::FromStatus(const Status& status) {
  int http = 500;
  switch (status.code()) {
    case StatusCode::kInvalid:
      http = 400;
      break;
    case StatusCode::kNotFound:
      http = 404;
      break;
    case StatusCode::kBusy:
    case StatusCode::kNoSpace:
      http = 503;
      break;
    case StatusCode::kUnavailable:
      http = 502;
      break;
    case StatusCode::kDeadline:
      http = 504;
      break;
    case StatusCode::kCancelled:
      http = 499;
      break;
    default:
      break;
  }
  return ForHttpStatus(http, std::string(status.message()),
                       std::string(StatusCodeName(status.code())));
}

OpenAiError OpenAiError::OfShutdown() {
  return ForHttpStatus(503, "this server is shutting down; try again", "shutdown");
}

std::string_view ReasonPhrase(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 411:
      return "Length Required";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

}  // namespace ember::http
