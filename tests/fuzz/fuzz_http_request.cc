// What a client sends to the HTTP listener, in pieces of any size: heads, declared and chunked
// bodies, one request after another. A request that reaches the handler must be one that no other
// reader can take for something else, and be answered once.
#include <cstddef>
#include <cstdint>

#include "client/http/server_connection.h"
#include "tests/fuzz/socket_pair.h"

namespace ember::http {
namespace {

constexpr size_t kMaxBody = 10000;

void CheckRequest(const Request& request) {
  const auto plain = [](std::string_view text) {
    return text.find_first_of(std::string_view("\r\n\0", 3)) == text.npos;
  };
  EMBER_CHECK(!request.method.empty() && plain(request.method), "a method");
  EMBER_CHECK(plain(request.target) && request.target.find(' ') == std::string::npos, "a target");
  EMBER_CHECK(request.body.size() <= kMaxBody, "the body's limit");
  std::string fields;
  request.headers.AppendTo(&fields);
  size_t lines = 0;
  for (size_t at = 0; (at = fields.find('\n', at)) != fields.npos; ++at) ++lines;
  EMBER_CHECK(lines <= request.headers.size(), "a field is a line");
}

boost::asio::awaitable<void> Answer(int* handled, Request& request, ResponseWriter& writer) {
  ++*handled;
  CheckRequest(request);
  const std::string answer(request.body.size(), 'x');  // not the body: it may hold a head's lines
  if (request.target.size() % 2 == 0) {
    (void)(co_await writer.Send({}, answer)).ok();
    co_return;
  }
  Status told = co_await writer.Begin({}, {}, request.method);
  if (told.ok()) told = co_await writer.Write(answer);
  if (told.ok()) told = co_await writer.End();
}

void Fuzz(size_t piece, std::string_view bytes) {
  int handled = 0;
  HttpServerOptions options;
  options.max_body_bytes = kMaxBody;
  options.max_connections = 1;
  boost::asio::io_context context(1);
  {
    SocketPair pair(context);
    auto shared = std::make_shared<ServerShared>(
        options,
        [&handled](Request& request, ResponseWriter& writer) {
          return Answer(&handled, request, writer);
        },
        nullptr);
    const auto connection = std::make_shared<ServerConnection>(shared, std::move(pair.ours));
    EMBER_CHECK(shared->Add(connection), "room for one");
    connection->Start();
    pair.SendAll(context, bytes, piece);
    for (int i = 0; i < 100 && !shared->connections.empty(); ++i) {
      SocketPair::Run(context);
      pair.Receive();
    }
    EMBER_CHECK(shared->connections.empty(), "the connection ends with its client");
    EMBER_CHECK(shared->budget.used() == 0, "bodies are given back");
    size_t final_replies = 0;
    const std::string_view got = pair.received;
    for (size_t at = 0; (at = got.find("\r\nDate: ", at)) != got.npos; ++at) ++final_replies;
    EMBER_CHECK(final_replies <= static_cast<size_t>(handled) + 1, "one answer a request");
  }
  SocketPair::Run(context);
}

}  // namespace
}  // namespace ember::http

// The instrumented copies of sources bring second copies of their vtables.
extern "C" const char* __asan_default_options() { return "detect_odr_violation=0"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = data[0] < 16 ? data[0] + 1u : data[0] * 32u;
  ember::http::Fuzz(piece, {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
