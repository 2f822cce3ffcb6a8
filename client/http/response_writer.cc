#include "client/http/response_writer.h"

#include <utility>

namespace ember::http {

boost::asio::awaitable<Status> ResponseWriter::SendJson(int status, std::string_view body,
                                                        Headers extra) {
  ResponseHead head{status, std::move(extra)};
  head.headers.Set("Content-Type", "application/json");
  co_return co_await Send(std::move(head), body);
}

boost::asio::awaitable<Status> ResponseWriter::SendError(OpenAiError error, Headers extra) {
  const std::string body = error.Body(error_shape_);
  co_return co_await SendJson(error.status, body, std::move(extra));
}

}  // namespace ember::http
