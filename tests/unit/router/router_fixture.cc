#include "tests/unit/router/router_fixture.h"

#include <algorithm>

namespace ember::router {

using http::TestSocket;
using http::WireMessage;

FakeReplica::FakeReplica(Script script, uint16_t port)
    : script_(std::move(script)),
      upstream_(
          [this](TestSocket& peer) {
            for (;;) {
              WireMessage request = peer.ReadMessage();
              if (!request.complete) return;
              if (request.head.starts_with("GET /metrics ")) {
                std::lock_guard lock(mutex_);
                if (!peer.Send(JsonReply(metrics_.empty() ? 404 : 200, metrics_))) return;
                continue;
              }
              if (request.head.starts_with("GET /v1/models ")) {
                std::unique_lock lock(mutex_);
                if (!models_.empty()) {
                  if (!peer.Send(JsonReply(200, models_))) return;
                  continue;
                }
              }
              if (request.head.starts_with("GET /health ")) {
                {
                  std::lock_guard lock(mutex_);
                  probe_ = request;
                }
                probes_.fetch_add(1);
                if (health_.load() == 0) continue;
                if (!peer.Send(JsonReply(health_.load(), "{}"))) return;
                continue;
              }
              {
                std::lock_guard lock(mutex_);
                seen_.push_back(request);
              }
              requests_.fetch_add(1);
              script_(peer, request);
              if (peer.fd() < 0) return;
            }
          },
          port) {}

void FakeReplica::SetMetrics(std::string text) {
  std::lock_guard lock(mutex_);
  metrics_ = std::move(text);
}

void FakeReplica::SetModels(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ",") + ("{\"id\":\"" + name + "\",\"object\":\"model\"}");
  }
  SetModelsText("{\"object\":\"list\",\"data\":[" + text + "]}");
}

void FakeReplica::SetModelsText(std::string text) {
  std::lock_guard lock(mutex_);
  models_ = std::move(text);
}

WireMessage FakeReplica::Probe() {
  http::Eventually([&] { return probes() > 0; });
  std::lock_guard lock(mutex_);
  return probe_;
}

WireMessage FakeReplica::Request(size_t n) {
  http::Eventually([&] { return requests() > static_cast<int>(n); });
  std::lock_guard lock(mutex_);
  return n < seen_.size() ? seen_[n] : WireMessage{};
}

std::string JsonReply(int status, std::string_view body, std::string_view extra_headers) {
  return "HTTP/1.1 " + std::to_string(status) + " Because\r\nContent-Type: application/json\r\n" +
         std::string(extra_headers) + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

FakeReplica::Script Answering(std::string reply) {
  return [reply = std::move(reply)](TestSocket& peer, const WireMessage&) { peer.Send(reply); };
}

FakeReplica::Script AnsweringStatus(const std::atomic<int>& status) {
  return [&status](TestSocket& peer, const WireMessage&) { peer.Send(JsonReply(status, "{}")); };
}

FakeReplica::Script Resetting() {
  return [](TestSocket& peer, const WireMessage&) { peer.Reset(); };
}

FakeReplica::Script ResettingAt(std::string word, std::atomic<int>* count) {
  return [word = std::move(word), count](TestSocket& peer, const WireMessage& request) {
    if (request.body.find(word) == request.body.npos) return (void)peer.Send(JsonReply(200, "{}"));
    count->fetch_add(1);
    peer.Reset();
  };
}

FakeFleet::FakeFleet(int replicas, const FakeReplica::Script& script) {
  for (int i = 0; i < replicas; ++i) replicas_.push_back(std::make_unique<FakeReplica>(script));
}

std::vector<http::Origin> FakeFleet::origins() const {
  std::vector<http::Origin> origins;
  for (const auto& r : replicas_) origins.push_back(r->origin());
  return origins;
}

int FakeFleet::asked() const {
  return static_cast<int>(
      std::ranges::count_if(replicas_, [](const auto& r) { return r->requests() > 0; }));
}

int FakeFleet::requests() const {
  int n = 0;
  for (const auto& r : replicas_) n += r->requests();
  return n;
}

std::string StreamReply(std::string_view events, std::string_view extra_headers) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx", events.size());
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + std::string(extra_headers) +
         "Transfer-Encoding: chunked\r\n\r\n" + size + "\r\n" + std::string(events) +
         "\r\n0\r\n\r\n";
}

std::string Post(std::string_view body, std::string_view extra_headers, std::string_view target) {
  return "POST " + std::string(target) +
         " HTTP/1.1\r\nHost: door.example\r\nContent-Type: application/json\r\n" +
         std::string(extra_headers) + "Content-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

std::string Get(std::string_view target) {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: door.example\r\n\r\n";
}

RouterFixture::RouterFixture(std::vector<http::Origin> origins, Adjust adjust, int expect_usable) {
  ServiceOptions options;
  options.router.default_policy = FindPolicy("round_robin");
  options.load_interval = seconds(3600);
  options.models_interval = Duration::zero();
  for (size_t i = 0; i < origins.size(); ++i) {
    options.replicas.push_back({.id = "r" + std::to_string(i + 1), .http = origins[i], .grpc = ""});
  }
  if (adjust) adjust(options);
  service = std::make_unique<Service>(options, agents);
  EMBER_CHECK(service->Start().ok(), "the router listens");
  const size_t expected = expect_usable < 0 ? origins.size() : static_cast<size_t>(expect_usable);
  // None: one that a file names may be usable before anybody looks.
  EMBER_CHECK(expected == 0 || AwaitUsable(expected), "the replicas are usable");
}

WireMessage RouterFixture::Ask(std::string_view request) const {
  TestSocket client = Client();
  client.Send(request);
  return client.ReadMessage();
}

bool RouterFixture::AwaitUsable(size_t n) const {
  return http::Eventually([&] {
    const StatusReport report = Status();
    return static_cast<size_t>(std::count_if(report.replicas.begin(), report.replicas.end(),
                                             [](const auto& r) { return r.healthy; })) == n;
  });
}

void RouterFixture::OnLoop(const std::function<void()>& work) const {
  const auto done = std::make_shared<std::promise<void>>();
  boost::asio::post(service->loop().executor(), [&work, done] {
    work();
    done->set_value();
  });
  done->get_future().get();
}

}  // namespace ember::router
