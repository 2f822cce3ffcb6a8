#include "client/cli/router_call.h"

#include <fmt/format.h>

#include <boost/asio/awaitable.hpp>
#include <future>

namespace ember::cli {
namespace {

constexpr size_t kMaxReply = 64u << 20;

// The message of an error in OpenAI's shape, or the whole text.
std::string MessageOf(const std::string& body) {
  constexpr std::string_view kMark = "\"message\":\"";
  const size_t at = body.find(kMark);
  if (at == body.npos) return body.substr(0, 200);
  const size_t from = at + kMark.size();
  return body.substr(from, body.find("\",\"type\"", from) - from);
}

}  // namespace

Result<std::string> CallRouter(const http::Origin& router, http::UpstreamRequest request,
                               Duration timeout) {
  http::HttpLoop loop(1);
  http::UpstreamPool pool(loop);
  http::ExchangeOptions options;
  options.connect_timeout = timeout;
  options.deadline = timeout;
  const auto done = std::make_shared<std::promise<Result<http::CallReply>>>();
  const auto call = [&, done]() -> boost::asio::awaitable<void> {
    done->set_value(co_await pool.Call(router, request, options, kMaxReply));
  };
  loop.Spawn(call());
  Result<http::CallReply> reply = done->get_future().get();
  if (!reply.ok()) return reply.status();
  if (reply->status / 100 == 2) return std::move(reply->body);
  const std::string said = MessageOf(reply->body);
  if (reply->status == 400) return InvalidError("the router says: " + said);
  if (reply->status == 404) return NotFoundError("the router says: " + said);
  return UnavailableError(fmt::format("the router says {}: {}", reply->status, said));
}

}  // namespace ember::cli
