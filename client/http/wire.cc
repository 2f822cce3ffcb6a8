#include "client/http/wire.h"

#include <algorithm>
#include <boost/asio/write.hpp>
#include <tuple>

#include "client/http/await.h"
#include "client/http/tls_context.h"

namespace ember::http {

namespace asio = boost::asio;

namespace {

constexpr size_t kMaxRecord = 16 << 10;  // of TLS

bool WouldBlock(const Wire::Error& ec) {
  return ec == asio::error::would_block || ec == asio::error::try_again;
}

}  // namespace

void Wire::Close() {
  Error ignored;
  socket_.close(ignored);
}

asio::awaitable<void> Wire::SayFarewell() {
  if (!secure() || !socket_.is_open()) co_return;
  SSL* ssl = tls_->native_handle();
  const bool said = (SSL_get_shutdown(ssl) & SSL_SENT_SHUTDOWN) != 0;
  if (said || !SSL_is_init_finished(ssl)) co_return;
  // As if the peer had said his: else the shutdown would wait for it.
  SSL_set_shutdown(ssl, SSL_RECEIVED_SHUTDOWN);
  (void)co_await tls_->async_shutdown(kAwait);
}

asio::awaitable<Wire::Error> Wire::AcceptTls(TlsContext& context) {
  tls_ = std::make_unique<Tls>(socket_, context.native());
  const auto [ec] = co_await tls_->async_handshake(asio::ssl::stream_base::server, kAwait);
  co_return ec;
}

asio::awaitable<Status> Wire::ConnectTls(TlsContext& context, const std::string& name) {
  tls_ = std::make_unique<Tls>(socket_, context.native());
  Error ec;
  asio::ip::make_address(name, ec);
  const bool is_name = ec.failed();  // server names of addresses are not allowed (RFC 6066, 3)
  SSL* ssl = tls_->native_handle();
  X509_VERIFY_PARAM* wanted = SSL_get0_param(ssl);
  const bool asked = is_name ? SSL_set_tlsext_host_name(ssl, name.c_str()) == 1 &&
                                   X509_VERIFY_PARAM_set1_host(wanted, name.c_str(), name.size())
                             : X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str());
  if (!asked) co_return UnavailableError("no certificate can name \"" + name + "\"");
  std::tie(ec) = co_await tls_->async_handshake(asio::ssl::stream_base::client, kAwait);
  co_return ec ? UnavailableError(TlsContext::WhyRefused(ssl, ec, name)) : OkStatus();
}

asio::awaitable<Wire::Error> Wire::ReadSome(asio::mutable_buffer into, size_t* got) {
  Error ec;
  // The reactor is asked only where nothing can be there: after a short read.
  if (more_to_read_) {
    *got = socket_.read_some(into, ec);
    more_to_read_ = *got == into.size();
    if (!WouldBlock(ec)) co_return ec;
  }
  std::tie(ec, *got) = co_await AsyncReadSome(into, kAwait);
  more_to_read_ = !secure() && *got == into.size();
  co_return ec;
}

size_t Wire::TryWrite(std::span<const asio::const_buffer> parts, Error& ec) {
  if (!secure()) return socket_.write_some(parts, ec);
  ec = asio::error::would_block;
  return 0;
}

asio::awaitable<Wire::Error> Wire::WriteSome(std::span<const asio::const_buffer> parts,
                                             size_t* written) {
  Error ec;
  if (!secure()) {
    std::tie(ec, *written) = co_await socket_.async_write_some(parts, kAwait);
    co_return ec;
  }
  record_.clear();
  for (const asio::const_buffer& part : parts) {
    record_.append(static_cast<const char*>(part.data()),
                   std::min(part.size(), kMaxRecord - record_.size()));
  }
  std::tie(ec, *written) = co_await asio::async_write(*tls_, asio::buffer(record_), kAwait);
  co_return ec;
}

asio::awaitable<Wire::Error> Wire::WriteFirst(std::span<asio::const_buffer>* parts) {
  DropFront(parts, 0);
  Error ec;
  size_t n = TryWrite(*parts, ec);
  if (secure()) ec = co_await WriteSome(*parts, &n);
  DropFront(parts, n);
  co_return WouldBlock(ec) ? Error() : ec;
}

void DropFront(std::span<asio::const_buffer>* parts, size_t n) {
  while (!parts->empty()) {
    asio::const_buffer& first = parts->front();
    const size_t taken = std::min(n, first.size());
    first += taken;
    n -= taken;
    if (first.size() != 0) return;
    *parts = parts->subspan(1);
  }
}

}  // namespace ember::http
