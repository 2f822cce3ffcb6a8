// ReadMessageHead, ReadMessageBody: one HTTP message through Beast's parser, from a source of
// bytes. Beast's own reader goes on reading while the next chunk's header is incomplete, which
// would hold back bytes that are there. For the sources that include Beast only.
//
// A Source has: `std::string_view unread()`, `void Consume(size_t)`, and `awaitable<error_code>
// Fill()`, which waits for more bytes behind those unread; eof: there will be none.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <string_view>

namespace ember::http {

// Of a chunk's line with its extensions, and of trailers but for what comes at once.
inline constexpr size_t kMaxChunkLine = 16 << 10;

// Not with control characters, which Beast lets pass within quotes: they are others' line ends.
inline bool IsChunkExtension(std::string_view extension) {
  return extension.size() <= kMaxChunkLine &&
         std::none_of(extension.begin(), extension.end(),
                      [](char c) { return (c >= 0 && c < ' ' && c != '\t') || c == 0x7F; });
}

// What of a body can't be parsed yet is a chunk's line or the trailer. Beast waits there for a CR
// LF, whatever came before it.
inline boost::system::error_code CheckChunkLines(std::string_view unread) {
  using boost::beast::http::error;
  if (unread.size() > kMaxChunkLine) return error::bad_chunk_extension;
  for (size_t at = unread.find('\n'); at != unread.npos; at = unread.find('\n', at + 1)) {
    if (at == 0 || unread[at - 1] != '\r') return error::bad_line_ending;
  }
  return {};
}

template <typename Source, typename Parser>
boost::asio::awaitable<boost::system::error_code> ReadMessageHead(Source& source, Parser& parser) {
  namespace asio = boost::asio;
  using boost::beast::http::error;
  while (!parser.is_header_done()) {
    boost::system::error_code ec = error::need_more;
    if (!source.unread().empty()) source.Consume(parser.put(asio::buffer(source.unread()), ec));
    if (!ec) continue;
    if (ec != error::need_more) co_return ec;
    ec = co_await source.Fill();
    if (ec == asio::error::eof) {
      ec = error::end_of_stream;
      if (parser.got_some()) parser.put_eof(ec);
    }
    if (ec) co_return ec;
  }
  co_return boost::system::error_code();
}

// Puts 1..size bytes of the body to `data` and their number to `got`; 0 when the body is over
// (parser.is_done()) or on an error, which may also come with the bytes before it.
template <typename Source, bool isRequest>
boost::asio::awaitable<boost::system::error_code> ReadMessageBody(
    Source& source, boost::beast::http::parser<isRequest, boost::beast::http::buffer_body>& parser,
    char* data, size_t size, size_t* got) {
  namespace asio = boost::asio;
  using boost::beast::http::error;
  *got = 0;
  parser.eager(true);
  while (!parser.is_done()) {
    boost::system::error_code ec = error::need_more;
    if (!source.unread().empty()) {
      auto& sink = parser.get().body();
      sink = {.data = data, .size = size, .more = true};
      source.Consume(parser.put(asio::buffer(source.unread()), ec));
      *got = size - sink.size;
      if (ec == error::need_buffer) ec = {};
      if (*got != 0 || (ec && ec != error::need_more))
        co_return ec == error::need_more ? boost::system::error_code() : ec;
      if (!ec) continue;
    }
    ec = CheckChunkLines(source.unread());
    if (!ec) ec = co_await source.Fill();
    if (ec == asio::error::eof) {
      ec = {};
      parser.put_eof(ec);
    }
    if (ec) co_return ec;
  }
  co_return boost::system::error_code();
}

}  // namespace ember::http
