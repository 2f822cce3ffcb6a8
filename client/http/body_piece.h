// ReadBodyPiece: the next bytes of a message body, from what is buffered or from the socket.
// Beast's own reader goes on reading while the next chunk's header is incomplete, which would hold
// back bytes that are there. For the two sources that include Beast only.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <tuple>

#include "client/http/await.h"

namespace ember::http {

// Puts 1..size bytes of the body to `data` and their number to `got`; 0 when the body is over
// (parser.is_done()) or on an error, which may also come with the bytes before it. The socket is
// non-blocking; at most `read_size` bytes are taken from it at a time.
template <bool isRequest>
boost::asio::awaitable<boost::system::error_code> ReadBodyPiece(
    boost::asio::ip::tcp::socket& socket, boost::beast::flat_buffer& buffer,
    boost::beast::http::parser<isRequest, boost::beast::http::buffer_body>& parser,
    size_t read_size, char* data, size_t size, size_t* got) {
  namespace asio = boost::asio;
  using boost::beast::http::error;
  *got = 0;
  parser.eager(true);
  while (!parser.is_done()) {
    boost::system::error_code ec = error::need_more;
    if (buffer.size() != 0) {
      auto& sink = parser.get().body();
      sink = {.data = data, .size = size, .more = true};
      buffer.consume(parser.put(buffer.data(), ec));
      *got = size - sink.size;
      if (ec == error::need_buffer) ec = {};
      if (*got != 0 || (ec && ec != error::need_more))
        co_return ec == error::need_more ? boost::system::error_code() : ec;
      if (!ec) continue;
    }
    if (buffer.size() == buffer.max_size()) co_return make_error_code(error::buffer_overflow);
    const size_t n = socket.read_some(
        buffer.prepare(std::min(read_size, buffer.max_size() - buffer.size())), ec);
    buffer.commit(n);
    if (ec == asio::error::would_block || ec == asio::error::try_again) {
      std::tie(ec) = co_await socket.async_wait(asio::ip::tcp::socket::wait_read, kAwait);
    } else if (ec == asio::error::eof) {
      ec = {};
      parser.put_eof(ec);
    }
    if (ec) co_return ec;
  }
  co_return boost::system::error_code();
}

}  // namespace ember::http
