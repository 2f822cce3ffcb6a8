// ClientBytes: what one client sends, read ahead also while nobody wants it, so that its end is
// seen at once.
//
// At most one read is under way on the wire: ReadAhead's, or that of the coroutine in Fill or
// ReadInto. Concurrency: the connection's strand. Owned by the connection, beside the wire.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "client/http/wire.h"
#include "proto/base/time.h"

namespace ember::http {

class ClientBytes {
 public:
  using Error = Wire::Error;
  // How much is read ahead of those who want it.
  static constexpr size_t kMaxAhead = 16 << 10;

  explicit ClientBytes(Wire& wire) : wire_(wire), wake_(wire.socket().get_executor()) {}

  // Read and not consumed.
  std::string_view unread() const { return std::string_view(held_).substr(consumed_); }
  void Consume(size_t n);
  // Why no more will come (eof: the client has finished); nothing yet.
  Error ended() const { return ended_; }
  bool full() const { return unread().size() >= kMaxAhead; }

  // Starts to read in the background, unless that is under way, all is read, or much is unread.
  // `done` runs after it, in the strand; it must keep the connection alive.
  void ReadAhead(std::function<void()> done);
  // Waits for the end of the read in the background, until `until`, or for Wake().
  boost::asio::awaitable<void> Await(TimePoint until);
  void Wake() { wake_.cancel(); }
  // Waits for more behind the unread bytes; takes at most `size` of them from the wire.
  boost::asio::awaitable<Error> Fill(size_t size);
  // Reads on to throw away, whatever ended it before, and past TLS; an error once nothing will
  // come.
  boost::asio::awaitable<Error> Discard();
  // At least one byte to `into`; bytes that are unread come first.
  boost::asio::awaitable<Error> ReadInto(boost::asio::mutable_buffer into, size_t* got);

 private:
  boost::asio::awaitable<bool> AwaitAhead();

  Wire& wire_;
  boost::asio::steady_timer wake_;
  std::string held_;
  size_t consumed_ = 0;
  Error ended_;
  bool reading_ = false;
  std::array<char, 4 << 10> ahead_;
};

}  // namespace ember::http
