// What an upstream answers, in pieces of any size: interim replies, heads, bodies by length, in
// chunks, until the connection's end. What is read must not depend on the pieces, and a connection
// is kept only when nothing is left on it.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "client/http/http_exchange.h"
#include "client/http/name_resolver.h"
#include "tests/fuzz/socket_pair.h"

namespace ember::http {
namespace {

struct Seen {
  Status status = InternalError("still running");
  int code = 0;
  std::string fields;
  std::string body;
  size_t kept = 0;
};

boost::asio::awaitable<void> Read(std::shared_ptr<UpstreamStore> store, bool head_only,
                                  Seen* seen) {
  const Origin origin{"127.0.0.1", 1};
  ExchangeOptions options;
  options.stale_within = Duration::zero();
  EMBER_CHECK(store->Reserve(origin, false), "room for one");
  HttpExchange exchange(store->executor, store, origin, options);
  UpstreamRequest request;
  request.method = head_only ? "HEAD" : "GET";
  seen->status = co_await exchange.Run(request);
  if (!seen->status.ok()) co_return;
  seen->code = exchange.head().status;
  exchange.head().headers.AppendTo(&seen->fields);
  for (;;) {
    const auto piece = co_await exchange.ReadBody();
    seen->status = piece.status();
    if (!piece.ok()) co_return;
    if (piece->empty()) break;
    seen->body.append(*piece);
  }
  const auto length = exchange.content_length();
  EMBER_CHECK(!length || head_only || seen->code == 204 || seen->code == 304 ||
                  seen->body.size() == *length,
              "as long as declared");
}

Seen ReadInPieces(std::string_view bytes, size_t piece, bool head_only) {
  Seen seen;
  NameResolver names;
  boost::asio::io_context context(1);
  {
    SocketPair pair(context);
    const auto store =
        std::make_shared<UpstreamStore>(context.get_executor(), names, UpstreamPoolOptions());
    const Origin origin{"127.0.0.1", 1};
    auto connection = std::make_unique<UpstreamConnection>(context.get_executor());
    connection->wire.socket() = std::move(pair.ours);
    EMBER_CHECK(store->Reserve(origin, false), "room for one");
    store->Put(origin, false, std::move(connection));
    boost::asio::co_spawn(context, Read(store, head_only, &seen), boost::asio::detached);
    SocketPair::Run(context);
    pair.SendAll(context, bytes, piece);
    for (int i = 0; i < 10; ++i) SocketPair::Run(context);
    EMBER_CHECK(seen.status.code() != StatusCode::kInternal, "the exchange ends with its upstream");
    seen.kept = store->idle_count();
    store->Close();
  }
  SocketPair::Run(context);
  return seen;
}

void Fuzz(std::string_view bytes, size_t piece, bool head_only) {
  const Seen whole = ReadInPieces(bytes, bytes.size() + 1, head_only);
  const Seen cut = ReadInPieces(bytes, piece, head_only);
  EMBER_CHECK(whole.code == cut.code && whole.fields == cut.fields, "one head");
  EMBER_CHECK(whole.status.ok() == cut.status.ok(), "one end");
  if (whole.status.ok()) EMBER_CHECK(whole.body == cut.body, "one body");
  EMBER_CHECK(whole.kept == 0 || whole.status.ok(), "a broken connection is not kept");
}

}  // namespace
}  // namespace ember::http

// The instrumented copies of sources bring second copies of their vtables.
extern "C" const char* __asan_default_options() { return "detect_odr_violation=0"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = (data[0] & 0x7F) < 64 ? (data[0] & 0x7F) + 1u : (data[0] & 0x7F) * 16u;
  ember::http::Fuzz({reinterpret_cast<const char*>(data + 1), size - 1}, piece,
                    (data[0] & 0x80) != 0);
  return 0;
}
