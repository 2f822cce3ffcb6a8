// TLS on both sides: the listener, and upstreams that are asked for under their own name (D28).
#include "client/http/tls_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>

#include "tests/unit/http/door.h"
#include "tests/unit/http/test_certificate.h"

namespace ember::http {
namespace {

using boost::asio::awaitable;
using testing::HasSubstr;

constexpr char kNames[] = "DNS:engine.example,IP:127.0.0.1";

HttpServerOptions Secured(const TestCertificate& own, const std::string& client_ca = "") {
  HttpServerOptions options;
  auto tls = TlsContext::ForServer(
      {.certificate = own.certificate(), .key = own.key(), .client_ca = client_ca});
  EMBER_CHECK(tls.ok(), "a TLS context");
  options.tls = *tls;
  return options;
}

UpstreamPoolOptions Trusting(const TestCertificate& authority) {
  UpstreamPoolOptions options;
  options.tls = *TlsContext::ForClient({.ca = authority.certificate()});
  return options;
}

Origin Https(uint16_t port, std::string virtual_host = "") {
  return {.host = "127.0.0.1", .port = port, .https = true, .virtual_host = virtual_host};
}

awaitable<void> Tell(Request& request, ResponseWriter& writer) {
  const std::string told = std::string(request.secure ? "secure " : "plain ") +
                           std::string(request.headers.Get("Host")) + " " +
                           std::string(request.headers.Get("X-Forwarded-Host")) + " " +
                           request.body;
  Status sent = co_await writer.Send({}, told);
}

Result<CallReply> Ask(Door& door, UpstreamPool& pool, Origin origin, std::string_view body = "") {
  UpstreamRequest request{.method = "POST", .target = "/", .headers = {}, .host = "", .body = body};
  return RunOn(door.loop, pool.Call(std::move(origin), std::move(request), {}, 16u << 20));
}

// A client with the blocking calls of OpenSSL; it never says farewell itself.
class TlsClient {
 public:
  explicit TlsClient(uint16_t port, int version = TLS1_3_VERSION) : stream_(context_, tls_) {
    SSL_set_max_proto_version(stream_.native_handle(), version);
    stream_.next_layer().connect({boost::asio::ip::address_v4::loopback(), port});
    stream_.handshake(boost::asio::ssl::stream_base::client);
  }
  void Send(std::string_view bytes) { boost::asio::write(stream_, boost::asio::buffer(bytes)); }
  // How the stream ends: eof is a farewell, stream_truncated is none.
  boost::system::error_code ReadAll(std::string* out = nullptr) {
    std::string all;
    boost::system::error_code ec;
    boost::asio::read(stream_, boost::asio::dynamic_buffer(all), ec);
    if (out != nullptr) *out = std::move(all);
    return ec;
  }

 private:
  boost::asio::io_context context_;
  boost::asio::ssl::context tls_{boost::asio::ssl::context::tls_client};
  boost::asio::ssl::stream<boost::asio::ip::tcp::socket> stream_;
};

TEST(Tls, CarriesRequestsAndRepliesOfAnySizeOnKeptConnections) {
  const TestCertificate certificate(kNames);
  Door door(Tell, Secured(certificate));
  UpstreamPool pool(door.loop, Trusting(certificate));
  for (const size_t size : {size_t{0}, size_t{1}, size_t{16384}, size_t{3} << 20}) {
    std::string body(size, 'x');
    for (size_t i = 0; i < size; i += 1000) body[i] = static_cast<char>('a' + i / 1000 % 26);
    const auto reply = Ask(door, pool, Https(door.port()), body);
    ASSERT_TRUE(reply.ok()) << reply.status().ToString();
    EXPECT_EQ(reply->body, "secure 127.0.0.1:" + std::to_string(door.port()) + "  " + body);
  }
  EXPECT_EQ(pool.connection_count(), 1u);
}

// D28.
TEST(Tls, AnUpstreamIsAskedForByItsOwnNameAndTheClientsNameGoesBeside) {
  const TestCertificate certificate("DNS:engine.example");
  Door engine(Tell, Secured(certificate));
  std::string asked_for;
  SSL_CTX* context = nullptr;
  HttpServerOptions options = Secured(certificate);
  context = options.tls->native().native_handle();
  SSL_CTX_set_tlsext_servername_callback(
      context, +[](SSL* ssl, int*, void* out) -> int {
        const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        *static_cast<std::string*>(out) = name == nullptr ? "" : name;
        return SSL_TLSEXT_ERR_OK;
      });
  SSL_CTX_set_tlsext_servername_arg(context, &asked_for);
  Door virtual_engine(Tell, options);
  UpstreamPool pool(engine.loop, Trusting(certificate));
  Door door([&](Request& request, ResponseWriter& writer) -> awaitable<void> {
    const RelayOutcome outcome =
        co_await Relay(pool, Https(virtual_engine.port(), "engine.example"), request, writer, {});
    if (!outcome.reply_started) {
      Status sent = co_await writer.SendError(OpenAiError::FromStatus(outcome.error));
    }
  });
  TestSocket client = door.Client();
  client.Send(Post("{}"));
  EXPECT_EQ(client.ReadMessage().body, "secure engine.example door {}");
  EXPECT_EQ(asked_for, "engine.example");
}

TEST(Tls, ACertificateThatDoesNotProveTheNameIsNoUpstream) {
  const TestCertificate certificate(kNames), stranger(kNames);
  Door door(Tell, Secured(certificate));
  UpstreamPool trusts_other(door.loop, Trusting(stranger));
  UpstreamPool trusts(door.loop, Trusting(certificate));
  for (const auto& refused : {Ask(door, trusts_other, Https(door.port())),
                              Ask(door, trusts, Https(door.port(), "other.example"))}) {
    EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr("connect to https://"));
  }
  EXPECT_TRUE(Ask(door, trusts, Https(door.port(), "engine.example")).ok());
  // Neither side takes the other protocol for its own.
  EXPECT_FALSE(Ask(door, trusts, Origin{"127.0.0.1", door.port()}).ok());
  Door plain(Tell);
  EXPECT_FALSE(Ask(door, trusts, Https(plain.port())).ok());
}

// Who runs it has to know which of these it is.
TEST(Tls, AnUpstreamThatIsRefusedSaysWhy) {
  const TestCertificate good(kNames), stranger(kNames), old(kNames, -7200, -3600),
      future(kNames, 3600, 7200);
  const auto why = [](const TestCertificate& own, const TestCertificate& trusted,
                      const std::string& host = "") {
    Door door(Tell, Secured(own));
    UpstreamPool pool(door.loop, Trusting(trusted));
    return Ask(door, pool, Https(door.port(), host)).status().ToString();
  };
  EXPECT_THAT(why(old, old), HasSubstr("its certificate has expired"));
  EXPECT_THAT(why(future, future), HasSubstr("its certificate is not valid yet"));
  EXPECT_THAT(why(good, stranger), HasSubstr("its certificate is not trusted: "));
  EXPECT_THAT(why(good, good, "other.example"),
              HasSubstr("its certificate does not name \"other.example\""));
  const TestCertificate no_address("DNS:engine.example");
  EXPECT_THAT(why(no_address, no_address), HasSubstr("does not name \"127.0.0.1\""));
}

TEST(Tls, OneSideThatSpeaksNoneIsTold) {
  const TestCertificate certificate(kNames);
  Door door(Tell, Secured(certificate)), plain(Tell);
  UpstreamPool pool(door.loop, Trusting(certificate));
  FakeUpstream closes([](TestSocket& peer) {
    peer.ReadSome();
    peer.Close();
  });
  FakeUpstream alerts(AnswerAlways("\x15\x03\x03"));
  Signal done;
  FakeUpstream waits([&](TestSocket&) { done.Await(); });
  const auto why = [&](Origin origin, Duration patience = seconds(60)) {
    ExchangeOptions options;
    options.connect_timeout = patience;
    return RunOn(door.loop, pool.Call(std::move(origin), {}, options)).status().ToString();
  };
  EXPECT_THAT(why(Https(plain.port())), HasSubstr("it does not speak TLS; is it plain http?"));
  EXPECT_THAT(why(Https(closes.origin().port)), HasSubstr("does it speak TLS?"));
  EXPECT_THAT(why(Https(waits.origin().port), milliseconds(200)),
              HasSubstr("time-out; does it speak TLS?"));
  EXPECT_THAT(why(alerts.origin()), HasSubstr("it speaks TLS; is it https?"));
  done.Set();
}

TEST(Tls, ClientsWithoutTheRightCertificateAreRefused) {
  const TestCertificate certificate(kNames), authority("DNS:client");
  Door door(Tell, Secured(certificate, authority.certificate()));
  UpstreamPoolOptions with_certificate;
  with_certificate.tls = *TlsContext::ForClient({.ca = certificate.certificate(),
                                                 .certificate = authority.certificate(),
                                                 .key = authority.key()});
  UpstreamPool without(door.loop, Trusting(certificate));
  EXPECT_FALSE(Ask(door, without, Https(door.port())).ok());
  UpstreamPool with(door.loop, with_certificate);
  EXPECT_TRUE(Ask(door, with, Https(door.port())).ok());
}

TEST(Tls, AClientThatLeavesIsNoticed) {  // D17
  const TestCertificate certificate(kNames);
  Signal handling, gone;
  Door door(
      [&](Request&, ResponseWriter& writer) -> awaitable<void> {
        handling.Set();
        const Status slept = co_await SleepFor(seconds(20), &writer.gone());
        if (slept.code() == StatusCode::kCancelled) gone.Set();
      },
      Secured(certificate));
  UpstreamPool pool(door.loop, Trusting(certificate));
  ExchangeOptions options;
  options.deadline = milliseconds(500);
  UpstreamRequest request;
  EXPECT_EQ(RunOn(door.loop, pool.Call(Https(door.port()), request, options)).status().code(),
            StatusCode::kDeadline);
  EXPECT_TRUE(handling.is_set());
  EXPECT_TRUE(gone.Await());
}

// Without it nobody could tell the end of a reply that only the connection's end delimits from a
// cut.
TEST(Tls, EveryEndInOrderIsSaid) {
  const TestCertificate certificate(kNames);
  HttpServerOptions options = Secured(certificate);
  options.idle_timeout = milliseconds(100);
  Door door(
      [](Request& request, ResponseWriter& writer) -> awaitable<void> {
        Status sent = co_await writer.Begin({}, std::nullopt, "piece");
        if (request.path == "/cut") co_return writer.Abort();
        sent = co_await writer.End();
      },
      options);
  const std::string head = " HTTP/1.1\r\nHost: a\r\n";
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    for (const std::string& request :
         {"GET /" + head + "Connection: close\r\n\r\n", "GET /" + head + "\r\n",
          std::string("GET / HTTP/1.0\r\n\r\n"), "GET /" + head + "\r\nBAD\r\n\r\n",
          std::string("BAD\r\n\r\n")}) {
      TlsClient client(door.port(), version);
      client.Send(request);
      std::string reply;
      EXPECT_EQ(client.ReadAll(&reply), boost::asio::error::eof) << request;
      EXPECT_THAT(reply, HasSubstr("HTTP/1.1 ")) << request;
      // The client still has its side open, which only who is refused may be waited for.
      if (request.ends_with("BAD\r\n\r\n")) continue;
      EXPECT_TRUE(Eventually([&] { return door.server->connection_count() == 0; })) << request;
    }
    for (const std::string& request :
         {"GET /cut" + head + "\r\n", std::string("GET /cut HTTP/1.0\r\n\r\n")}) {
      TlsClient client(door.port(), version);
      client.Send(request);
      EXPECT_NE(client.ReadAll(), boost::asio::error::eof) << "a cut reply is no end";
    }
  }
}

TEST(Tls, SilentAndBrokenHandshakesEndInTime) {
  const TestCertificate certificate(kNames);
  HttpServerOptions options = Secured(certificate);
  options.header_timeout = milliseconds(150);
  Door door(Tell, options);
  TestSocket silent = door.Client(), nonsense = door.Client();
  nonsense.Send("\x16\x03\x01\xff\xff" + std::string(4096, 'x'));
  EXPECT_TRUE(nonsense.AwaitClose());
  EXPECT_TRUE(silent.AwaitClose());
  UpstreamPool pool(door.loop, Trusting(certificate));
  EXPECT_TRUE(Ask(door, pool, Https(door.port())).ok());
}

TEST(Tls, ACertificateThatHasOrWillSoonHaveExpiredIsDoubted) {
  constexpr long kDay = 86'400;
  const std::time_t now = std::time(nullptr);
  const auto doubt = [&](long begin, long end) {
    const TestCertificate certificate(kNames, begin, end);
    return Secured(certificate).tls->DoubtAt(now);
  };
  EXPECT_THAT(doubt(-90 * kDay, -3 * kDay - 60), HasSubstr("expired 3 days ago"));
  EXPECT_THAT(doubt(-85 * kDay, 5 * kDay + 60), HasSubstr("expires in 5 days"));
  EXPECT_THAT(doubt(-kDay, 3600 + 60), HasSubstr("expires in 61 min"));
  EXPECT_THAT(doubt(2 * kDay + 60, 90 * kDay), HasSubstr("is not valid for 2 days yet"));
  EXPECT_EQ(doubt(-82 * kDay, 8 * kDay), "");
  EXPECT_EQ(doubt(-3600, kDay), "") << "one that lives for a day is young";
  const TestCertificate ends_tomorrow(kNames, -kDay, kDay);
  EXPECT_NEAR(static_cast<double>(Secured(ends_tomorrow).tls->ExpiresAt() - now), kDay, 60);
}

TEST(Tls, NewConnectionsGetTheNewCertificateAndOldOnesGoOn) {
  const TestCertificate before(kNames), after(kNames);
  Door door(Tell, Secured(before));
  UpstreamPool old_friend(door.loop, Trusting(before)), new_friend(door.loop, Trusting(after));
  ASSERT_TRUE(Ask(door, old_friend, Https(door.port())).ok());
  EXPECT_FALSE(Ask(door, new_friend, Https(door.port())).ok());
  door.server->SetTls(Secured(after).tls);
  EXPECT_TRUE(Ask(door, new_friend, Https(door.port())).ok());
  EXPECT_TRUE(Ask(door, old_friend, Https(door.port())).ok()) << "on the connection that it has";
  UpstreamPool late(door.loop, Trusting(before));
  EXPECT_FALSE(Ask(door, late, Https(door.port())).ok());
}

TEST(Tls, FilesThatAreNoneAreNamed) {
  const TestCertificate certificate(kNames);
  const auto no_file =
      TlsContext::ForServer({.certificate = "/none.pem", .key = "", .client_ca = ""});
  EXPECT_EQ(no_file.status().code(), StatusCode::kInvalid);
  EXPECT_THAT(std::string(no_file.status().message()), HasSubstr("/none.pem"));
  EXPECT_FALSE(TlsContext::ForServer({.certificate = certificate.certificate(),
                                      .key = certificate.certificate(),
                                      .client_ca = ""})
                   .ok());
  const TestCertificate other(kNames);
  EXPECT_FALSE(TlsContext::ForServer(
                   {.certificate = certificate.certificate(), .key = other.key(), .client_ca = ""})
                   .ok());
  EXPECT_FALSE(TlsContext::ForClient({.ca = certificate.key()}).ok());
  EXPECT_FALSE(
      TlsContext::ForClient({.certificate = certificate.certificate(), .key = other.key()}).ok());
}

}  // namespace
}  // namespace ember::http
