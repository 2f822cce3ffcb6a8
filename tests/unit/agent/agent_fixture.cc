#include "tests/unit/agent/agent_fixture.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_future.hpp>
#include <fstream>

#include "client/http/json_writer.h"

namespace ember::agent {

std::string Prompt(size_t tokens, int seed) {
  std::string out;
  for (size_t i = 0; i < tokens; ++i) out += static_cast<char>('a' + (i * i + i / 26 + seed) % 26);
  return out;
}

AgentFixture::AgentFixture() {
  spdlog::set_level(spdlog::level::err);
  static int count = 0;
  folder_ = std::filesystem::temp_directory_path() /
            ("ember-agent-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
  std::filesystem::create_directories(folder_);
  model_ = folder_ / "model.gguf";
  std::ofstream(model_) << "weights";
  client_ = std::make_unique<http::UpstreamPool>(loop_);
}

AgentFixture::~AgentFixture() {
  if (agent_) agent_->Stop();
  agent_.reset();
  engine_.reset();
  client_.reset();
  std::filesystem::remove_all(folder_);
}

void AgentFixture::StartAll() {
  engine_ = std::make_unique<FakeEngine>(folder_, model_);
  StartAgent();
  WaitReady();
}

void AgentFixture::StartAgent(bool with_store) {
  Config config = config_;
  config.listen = {"127.0.0.1", 0};
  config.engine = {"127.0.0.1", engine_->port()};
  config.model_file = model_;
  config.slot_dir = folder_;
  config.replica_id = "a";
  if (with_store) config.stores.push_back({"127.0.0.1", 1});
  auto agent = Agent::Start(config, [this](const Config&, MetricsRegistry&) {
    auto store = std::make_unique<FakeStore>();
    store_ = store.get();
    return Result<std::unique_ptr<StoreClient>>(std::move(store));
  });
  ASSERT_TRUE(agent.ok()) << agent.status().ToString();
  agent_ = *std::move(agent);
}

void AgentFixture::WaitReady() {
  WaitFor("the agent", [this] { return Call("GET", "/health", "").code == 200; });
}

AgentFixture::Reply AgentFixture::Call(const std::string& method, const std::string& target,
                                       const std::string& body, http::Headers headers) {
  return Begin(method, target, body, std::move(headers)).get();
}

std::future<AgentFixture::Reply> AgentFixture::Begin(const std::string& method,
                                                     const std::string& target,
                                                     const std::string& body, http::Headers headers,
                                                     http::Cancellation* leave) {
  http::UpstreamRequest request;
  request.method = method;
  request.target = target;
  request.headers = std::move(headers);
  http::ExchangeOptions options;
  options.deadline = seconds(30);
  options.cancellation = leave;
  auto call = [](http::UpstreamPool& client, http::Origin agent, http::UpstreamRequest what,
                 std::string bytes, http::ExchangeOptions how) -> boost::asio::awaitable<Reply> {
    what.body = bytes;
    auto reply = co_await client.Call(agent, what, how);
    Reply out;
    out.status = reply.status();
    if (reply.ok()) {
      out.code = reply->status;
      out.headers = reply->headers;
      out.body = reply->body;
    }
    co_return out;
  };
  return boost::asio::co_spawn(
      loop_.executor(),
      call(*client_, {"127.0.0.1", agent_->port()}, std::move(request), body, options),
      boost::asio::use_future);
}

std::string AgentFixture::Body(const std::string& prompt) {
  return "{\"prompt\":" + http::JsonString(prompt) + "}";
}

std::string AgentFixture::Reply::answer() const {
  const size_t at = body.find("\"content\":\"");
  return at == std::string::npos ? body : body.substr(at + 11, 16);
}

AgentFixture::Reply AgentFixture::Ask(const std::string& prompt, http::Headers headers) {
  return Call("POST", "/completion", Body(prompt), std::move(headers));
}

AgentFixture::Reply AgentFixture::AskRight(const std::string& prompt, http::Headers headers) {
  Reply reply = Ask(prompt, std::move(headers));
  EXPECT_EQ(reply.code, 200) << reply.status.ToString() << reply.body;
  EXPECT_EQ(reply.answer(), FakeEngine::AnswerTo(prompt));
  EXPECT_FALSE(engine_->corrupted());
  return reply;
}

double AgentFixture::Metric(const std::string& name_and_labels) {
  const std::string text = "\n" + Metrics();
  const size_t at = text.find("\n" + name_and_labels + " ");
  return at == std::string::npos ? -1 : std::stod(text.substr(at + name_and_labels.size() + 2));
}

void AgentFixture::WaitIdle() {
  WaitFor("idle slots", [this] { return Metric("ember_agent_slots_busy") == 0; });
}

void AgentFixture::WaitStored(size_t segments) {
  WaitFor("pushed segments", [&] { return store_->size() >= segments; });
}

}  // namespace ember::agent
