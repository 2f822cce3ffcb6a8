#include "tests/unit/agent/fake_engine.h"

#include <gtest/gtest.h>
#include <simdjson.h>

#include <fstream>

#include "client/agent/slot_table.h"
#include "client/http/json_writer.h"
#include "proto/base/checksum.h"

namespace ember::agent {

namespace asio = boost::asio;
namespace dom = simdjson::dom;

namespace {
constexpr uint32_t kLayers = 2;
constexpr uint32_t kPlanes = 2 * kLayers;

uint64_t KvOf(uint64_t before, TokenId token) {
  const uint64_t both[] = {before, static_cast<uint64_t>(token)};
  return Xxh3Of64(std::as_bytes(std::span(both)));
}

std::vector<TokenId> TokensOf(std::string_view text) {
  std::vector<TokenId> out;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

std::string Field(std::string_view json, const char* name) {
  dom::parser parser;
  dom::element root;
  std::string_view text;
  if (parser.parse(json.data(), json.size()).get(root)) return "";
  return root[name].get(text) == simdjson::SUCCESS ? std::string(text) : "";
}

// A prompt in any form, alone or in a list.
std::vector<TokenId> PromptOf(std::string_view json) {
  dom::parser parser;
  dom::element prompt;
  std::string_view text;
  std::vector<TokenId> ids;
  if (parser.parse(json.data(), json.size())["prompt"].get(prompt)) return ids;
  dom::array list;
  dom::element first;
  if (!prompt.get(list) && !list.at(0).get(first) && !first.is_int64()) prompt = first;
  if (!prompt.get(text)) return TokensOf(text);
  if (prompt.get(list)) return ids;
  for (dom::element id : list) ids.push_back(static_cast<TokenId>(int64_t(id)));
  return ids;
}

std::string TemplateOf(std::string_view json) {
  dom::parser parser;
  dom::element root;
  dom::array messages;
  std::string out;
  if (parser.parse(json.data(), json.size()).get(root) || root["messages"].get(messages))
    return out;
  for (dom::element message : messages) {
    std::string_view content;
    if (message["content"].get(content) == simdjson::SUCCESS)
      out += "<" + std::string(content) + ">";
  }
  return out;
}

// Of fields of one name the last counts, as in llama-server.
int64_t LastNumber(std::string_view json, std::string_view name, int64_t otherwise) {
  dom::parser parser;
  dom::object root;
  if (parser.parse(json.data(), json.size()).get(root)) return otherwise;
  for (dom::key_value_pair field : root) {
    if (field.key != name) continue;
    bool flag = false;
    if (field.value.get(otherwise) != simdjson::SUCCESS &&
        field.value.get(flag) == simdjson::SUCCESS) {
      otherwise = flag ? 1 : 0;
    }
  }
  return otherwise;
}
}  // namespace

FakeEngine::FakeEngine(std::string folder, std::string model_path)
    : folder_(std::move(folder)), model_path_(std::move(model_path)) {
  Start();
}

FakeEngine::~FakeEngine() { Kill(); }

void FakeEngine::Start() {
  http::HttpServerOptions options;
  options.port = port_;
  auto server = http::HttpServer::Listen(
      loop_, options, [this](http::Request& request, http::ResponseWriter& writer) {
        return Handle(request, writer);
      });
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  server_ = *std::move(server);
  port_ = server_->port();
}

void FakeEngine::Kill() {
  if (server_) server_->Stop(Duration(0));
  server_.reset();
  slots_.assign(kSlots, {});
}

void FakeEngine::Set(Faults faults) {
  std::lock_guard lock(mutex_);
  faults_ = faults;
}
FakeEngine::Faults FakeEngine::faults() const {
  std::lock_guard lock(mutex_);
  return faults_;
}
std::vector<FakeEngine::Completion> FakeEngine::completions() const {
  std::lock_guard lock(mutex_);
  return completions_;
}
int FakeEngine::calls(const std::string& what) const {
  std::lock_guard lock(mutex_);
  const auto found = calls_.find(what);
  return found == calls_.end() ? 0 : found->second;
}
void FakeEngine::Count(const std::string& what) {
  std::lock_guard lock(mutex_);
  ++calls_[what];
}

std::string FakeEngine::AnswerTo(const std::string& prompt) {
  uint64_t kv = 0;
  for (const TokenId token : TokensOf(prompt)) kv = KvOf(kv, token);
  return ToHex(std::as_bytes(std::span(&kv, 1)));
}

asio::awaitable<void> FakeEngine::Handle(http::Request& request, http::ResponseWriter& writer) {
  std::string reply;
  int status = 200;
  if (request.path == "/health") {
    reply = R"({"status":"ok"})";
  } else if (request.path == "/props") {
    reply = R"({"default_generation_settings":{"n_ctx":4096},"total_slots":2,"model_alias":"fake",)"
            R"("model_path":)" +
            http::JsonString(model_path_) + R"(,"build_info":"b1-fake"})";
  } else if (request.path == "/v1/models") {
    reply = R"({"data":[{"id":"fake","meta":{"size":4}}]})";
  } else if (request.path == "/lora-adapters") {
    reply = faults().adapters ? "[{}]" : "[]";
  } else if (request.path == "/apply-template") {
    reply = "{\"prompt\":" + http::JsonString(TemplateOf(request.body)) + "}";
  } else if (request.path == "/tokenize") {
    Count("tokenize");
    if (faults().refuse_tokenize) status = 400;
    while (faults().hold_tokenize) (void)co_await http::SleepFor(milliseconds(1), nullptr);
    for (const TokenId token : TokensOf(Field(request.body, "content"))) {
      reply += (reply.empty() ? "" : ",") + std::to_string(token);
    }
    reply = "{\"tokens\":[" + reply + "]}";
  } else if (request.path.starts_with("/slots/")) {
    co_return co_await SlotAction(request, writer);
  } else if (request.path == "/echo") {
    reply = "{\"echo\":" + http::JsonString(request.body) + "}";
  } else {
    co_return co_await Complete(request, writer);
  }
  (void)co_await writer.SendJson(status, reply);
}

asio::awaitable<void> FakeEngine::Complete(http::Request& request, http::ResponseWriter& writer) {
  const bool chat = request.path == "/v1/chat/completions";
  const std::vector<TokenId> tokens =
      chat ? TokensOf(TemplateOf(request.body)) : PromptOf(request.body);
  const auto id = static_cast<uint32_t>(LastNumber(request.body, "id_slot", 0)) % kSlots;
  Slot& slot = slots_[id];
  EXPECT_FALSE(slot.busy) << "two requests in one slot";
  slot.busy = true;
  size_t cached = 0;
  if (LastNumber(request.body, "cache_prompt", 1) != 0 && !tokens.empty()) {
    cached = std::min(CommonPrefix(slot.tokens, tokens), tokens.size() - 1);
  }
  slot.tokens.assign(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(cached));
  slot.kv.resize(cached);
  uint64_t expected = 0;
  for (size_t i = 0; i < cached; ++i) {
    expected = KvOf(expected, tokens[i]);
    if (slot.kv[i] != expected) corrupted_ = true;
  }
  Duration think = faults().think;
  while (think > Duration(0) || faults().hold) {
    const Status slept =
        co_await http::SleepFor(std::max<Duration>(think, milliseconds(1)), &writer.gone());
    if (!slept.ok()) {
      ++aborted_;
      slot.busy = false;
      co_return;
    }
    think = {};
  }
  for (size_t i = cached; i < tokens.size(); ++i) {
    slot.tokens.push_back(tokens[i]);
    slot.kv.push_back(KvOf(i == 0 ? 0 : slot.kv[i - 1], tokens[i]));
  }
  const uint64_t last = slot.kv.empty() ? 0 : slot.kv.back();
  const std::string answer = ToHex(std::as_bytes(std::span(&last, 1)));
  slot.busy = false;
  {
    std::lock_guard lock(mutex_);
    completions_.push_back({request.path, request.body, id, cached, tokens.size() - cached});
  }
  const std::string timings =
      "\"timings\":{\"cache_n\":" + std::to_string(cached) +
      ",\"prompt_n\":" + std::to_string(tokens.size() - cached) +
      ",\"prompt_ms\":" + std::to_string(5.0 * static_cast<double>(tokens.size() - cached)) + "}";
  if (LastNumber(request.body, "stream", 0) == 0 && !faults().cut_reply) {
    (void)co_await writer.SendJson(200, "{\"content\":\"" + answer + "\"," + timings + "}");
    co_return;
  }
  http::ResponseHead head;
  head.headers.Set("Content-Type", "text/event-stream");
  (void)co_await writer.Begin(std::move(head), std::nullopt,
                              "data: {\"content\":\"" + answer + "\"}\n\n");
  if (faults().cut_reply) {
    writer.Abort();
    co_return;
  }
  (void)co_await writer.Write("data: {\"content\":\"\"," + timings + "}\n\ndata: [DONE]\n\n");
  (void)co_await writer.End();
}

asio::awaitable<void> FakeEngine::SlotAction(http::Request& request, http::ResponseWriter& writer) {
  const std::string action(request.QueryParam("action").value_or(""));
  const std::string file = Field(request.body, "filename");
  Slot& slot = slots_[static_cast<size_t>(request.path.back() - '0') % kSlots];
  Count(action);
  if (action == "save" && faults().save_time > Duration(0)) {
    (void)co_await http::SleepFor(faults().save_time, nullptr);
  }
  std::string reply = "{\"n_erased\":0}";
  int status = 200;
  if (action == "save") {
    if (faults().refuse_save) status = 500;
    if (status == 200)
      reply = Save(slot, (faults().save_elsewhere ? "/nowhere/" : folder_ + "/") + file);
  } else if (action == "restore") {
    const bool restored = Restore(slot, folder_ + "/" + file);
    if (!restored || faults().refuse_restore) {
      status = 400;
      slot.kv.assign(slot.tokens.size(), 1);  // the right tokens over half-loaded KV
    }
    const size_t n = slot.tokens.size();
    reply = "{\"n_restored\":" + std::to_string(n) + ",\"n_read\":1}";
    if (faults().restore_nothing) slot = {};
  } else {
    slot = {};
  }
  if (status != 200) reply = R"({"error":{"code":400,"message":"scripted failure"}})";
  (void)co_await writer.SendJson(status, reply);
}

std::string FakeEngine::Save(const Slot& slot, const std::string& file) {
  Bytes out;
  ByteWriter w(&out);
  const auto n = static_cast<uint32_t>(slot.tokens.size());
  for (const uint32_t v : {kSlotFileMagic, kSlotFileVersion, n + 4, uint32_t(-1), 1u, n}) w.Put(v);
  w.PutRaw(std::as_bytes(std::span(slot.tokens)));
  for (const uint32_t v : {0u, 1u, n}) w.Put(v);
  for (uint32_t i = 0; i < n; ++i) {
    for (const uint32_t v : {i, 1u, 0u}) w.Put(v);
  }
  if (n > 0) {
    for (const uint32_t v : {0u, kLayers, 0u, 0u}) w.Put(v);
    for (uint32_t plane = 0; plane < kPlanes; ++plane) {
      w.Put(int32_t{1});
      w.Put(uint64_t{sizeof(uint64_t)});
      for (const uint64_t kv : slot.kv) w.Put(kv + plane);
    }
  }
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(out.data()), static_cast<std::streamsize>(out.size()));
  return "{\"n_saved\":" + std::to_string(n) + ",\"n_written\":" + std::to_string(out.size()) + "}";
}

bool FakeEngine::Restore(Slot& slot, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto parsed = SlotFile::Parse(AsBytes(text));
  EXPECT_TRUE(parsed.ok()) << "the engine was given a bad file: " << parsed.status().ToString();
  if (!parsed.ok() || parsed->tokens().empty()) return false;
  slot.tokens.assign(parsed->tokens().begin(), parsed->tokens().end());
  const Bytes rows = parsed->CutPayload(0, slot.tokens.size());
  const size_t header = parsed->shape().PayloadHeaderBytes();
  for (uint32_t plane = 0; plane < kPlanes; ++plane) {
    std::vector<uint64_t> kv(slot.tokens.size());
    std::memcpy(kv.data(), rows.data() + header + plane * 8 * kv.size(), 8 * kv.size());
    for (uint64_t& value : kv) value -= plane;
    if (plane == 0) slot.kv = kv;
    if (kv != slot.kv) corrupted_ = true;
  }
  return true;
}

}  // namespace ember::agent
