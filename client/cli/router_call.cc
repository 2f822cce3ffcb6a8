#include "client/cli/router_call.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <boost/asio/awaitable.hpp>
#include <fstream>
#include <future>

#include "client/cli/command.h"
#include "client/http/tls_context.h"

namespace ember::cli {
namespace {

constexpr size_t kMaxReply = 64u << 20;

}  // namespace

std::string RouterErrorText(const std::string& body) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view message;
  if (parser.parse(body.data(), body.size()).get(root) == simdjson::SUCCESS &&
      root["error"]["message"].get(message) == simdjson::SUCCESS) {
    return std::string(message);
  }
  return body.substr(0, 200);
}

void RouterCallFlags::AddTo(CLI::App* app) {
  app->add_option("--token-file", token_file, "The admin API's token is this file's first line");
  app->add_option("--ca", ca,
                  "With https://HOST:PORT: its certificate is of one of these (PEM); by default "
                  "of the system's authorities");
  auto* own = app->add_option("--cert", certificate, "Our certificate, if it asks for one (PEM)");
  own->needs(app->add_option("--key", key, "Its key (PEM)")->needs(own));
  app->add_option("--timeout", timeout_seconds, "Seconds to wait")
      ->check(Within(0.01, 600.0))
      ->capture_default_str();
}

Result<std::string> RouterCallFlags::Call(const http::Origin& router,
                                          http::UpstreamRequest request) const {
  if (!token_file.empty()) {
    std::string token;
    std::ifstream file(token_file);
    if (!std::getline(file, token)) return InvalidError("--token-file: can't be read");
    while (token.ends_with('\r') || token.ends_with(' ')) token.pop_back();
    request.headers.Add("Authorization", "Bearer " + token);
  }
  http::UpstreamPoolOptions tls;
  if (router.https) {
    auto context = http::TlsContext::ForClient({.ca = ca, .certificate = certificate, .key = key});
    if (!context.ok()) return context.status();
    tls.tls = *std::move(context);
  } else if (!ca.empty() || !certificate.empty()) {
    return InvalidError("--ca and --cert go with https://" + router.ToString());
  }
  http::HttpLoop loop(1);
  http::UpstreamPool pool(loop, std::move(tls));
  http::ExchangeOptions options;
  options.deadline =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(timeout_seconds));
  options.connect_timeout = options.deadline;
  const auto done = std::make_shared<std::promise<Result<http::CallReply>>>();
  const auto call = [&, done]() -> boost::asio::awaitable<void> {
    done->set_value(co_await pool.Call(router, request, options, kMaxReply));
  };
  loop.Spawn(call());
  Result<http::CallReply> reply = done->get_future().get();
  if (!reply.ok()) return reply.status();
  if (reply->status / 100 == 2) return std::move(reply->body);
  const std::string said = RouterErrorText(reply->body);
  if (reply->status == 400) return InvalidError("the router says: " + said);
  if (reply->status == 404) return NotFoundError("the router says: " + said);
  return UnavailableError(fmt::format("the router says {}: {}", reply->status, said));
}

}  // namespace ember::cli
