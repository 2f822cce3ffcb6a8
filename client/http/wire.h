// Wire: the bytes of one TCP connection, plain or under TLS.
//
// Concurrency: one strand; at most one read and one write under way at a time. Owned by whoever
// serves or uses the connection; operations under way must end before it dies: Close() ends them.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <span>
#include <string>

#include "proto/base/status.h"

namespace ember::http {

class TlsContext;

class Wire {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using Error = boost::system::error_code;

  explicit Wire(Socket socket) : socket_(std::move(socket)) {}

  Socket& socket() { return socket_; }
  bool secure() const { return tls_ != nullptr; }
  void Close();
  // Under TLS says that nothing more follows (close_notify): without it the peer can't tell the end
  // from a cut. The peer's answer is not waited for, and nothing can be read here any more.
  boost::asio::awaitable<void> SayFarewell();

  // From here on under TLS, as its server.
  boost::asio::awaitable<Error> AcceptTls(TlsContext& context);
  // The same as a client, of a peer that must prove to be `name`. kUnavailable says why not.
  boost::asio::awaitable<Status> ConnectTls(TlsContext& context, const std::string& name);

  // As async_read_some.
  template <typename Token>
  auto AsyncReadSome(boost::asio::mutable_buffer into, Token&& token) {
    if (tls_) return tls_->async_read_some(into, std::forward<Token>(token));
    return socket_.async_read_some(into, std::forward<Token>(token));
  }
  // At least one byte, or an error (eof: the peer has finished).
  boost::asio::awaitable<Error> ReadSome(boost::asio::mutable_buffer into, size_t* got);

  // What can be written at once, without waiting; would_block: nothing.
  size_t TryWrite(std::span<const boost::asio::const_buffer> parts, Error& ec);
  // Waits until some of it is written.
  boost::asio::awaitable<Error> WriteSome(std::span<const boost::asio::const_buffer> parts,
                                          size_t* written);
  // What can be written at once, which is taken off the front; under TLS the first record.
  boost::asio::awaitable<Error> WriteFirst(std::span<boost::asio::const_buffer>* parts);

 private:
  using Tls = boost::asio::ssl::stream<Socket&>;

  Socket socket_;
  std::unique_ptr<Tls> tls_;
  std::string record_;         // what is encrypted next, gathered
  bool more_to_read_ = false;  // the last read filled its buffer
};

// Takes `n` bytes off the front.
void DropFront(std::span<boost::asio::const_buffer>* parts, size_t n);

}  // namespace ember::http
