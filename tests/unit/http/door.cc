#include "tests/unit/http/door.h"

namespace ember::http {

Door::Door(Handler handler, HttpServerOptions options, int threads) : loop(threads), pool(loop) {
  auto listening = HttpServer::Listen(loop, std::move(options), std::move(handler));
  EMBER_CHECK(listening.ok(), "listen");
  server = std::move(*listening);
}

Door::~Door() { server.reset(); }

std::unique_ptr<Door> Door::To(Origin origin, HttpServerOptions options,
                               std::function<void(RelayOptions&)> adjust) {
  auto self = std::make_shared<std::atomic<Door*>>(nullptr);
  auto door = std::make_unique<Door>(
      [self, origin, adjust](Request& request,
                             ResponseWriter& writer) -> boost::asio::awaitable<void> {
        RelayOptions relay;
        if (adjust) adjust(relay);
        const RelayOutcome outcome =
            co_await Relay(self->load()->pool, origin, request, writer, relay);
        self->load()->Record(outcome);
        if (!outcome.reply_started && outcome.end != RelayEnd::kClientGone) {
          Status sent = co_await writer.SendError(OpenAiError::FromStatus(outcome.error));
        }
      },
      std::move(options));
  self->store(door.get());
  return door;
}

void Door::Record(RelayOutcome outcome) {
  std::lock_guard lock(mutex_);
  outcomes_.push_back(std::move(outcome));
}

RelayOutcome Door::Outcome(size_t n) {
  const bool there = Eventually([&] {
    std::lock_guard lock(mutex_);
    return outcomes_.size() > n;
  });
  std::lock_guard lock(mutex_);
  return there ? outcomes_[n] : RelayOutcome{};
}

std::string Post(std::string_view body, std::string_view target) {
  std::string out = "POST " + std::string(target) +
                    " HTTP/1.1\r\nHost: door\r\nContent-Type: application/json\r\n";
  out += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  return out.append(body);
}

}  // namespace ember::http
