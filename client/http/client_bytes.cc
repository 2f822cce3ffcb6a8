#include "client/http/client_bytes.h"

#include <algorithm>
#include <cstring>

#include "client/http/await.h"
#include "client/http/watchdog.h"

namespace ember::http {

namespace asio = boost::asio;

void ClientBytes::Consume(size_t n) {
  consumed_ += n;
  if (consumed_ < held_.size()) return;
  consumed_ = 0;
  held_.clear();
  if (held_.capacity() > 2 * kMaxAhead) held_ = std::string();
}

void ClientBytes::ReadAhead(std::function<void()> done) {
  if (reading_ || ended_ || full()) return;
  reading_ = true;
  wire_.AsyncReadSome(asio::buffer(ahead_), [this, done = std::move(done)](Error ec, size_t n) {
    reading_ = false;
    ended_ = ec;
    held_.append(ahead_.data(), n);
    Wake();
    done();
  });
}

asio::awaitable<void> ClientBytes::Await(TimePoint until) {
  if (!reading_ || !unread().empty()) co_return;
  wake_.expires_at(until);
  co_await wake_.async_wait(kAwait);
}

// False: no read was under way. True: it is over.
asio::awaitable<bool> ClientBytes::AwaitAhead() {
  if (!reading_) co_return false;
  while (reading_) {
    wake_.expires_at(TimePoint::max());
    co_await wake_.async_wait(kAwait);
  }
  co_return true;
}

asio::awaitable<ClientBytes::Error> ClientBytes::Fill(size_t size) {
  if (co_await AwaitAhead()) co_return ended_;
  if (ended_) co_return ended_;
  held_.erase(0, consumed_);
  consumed_ = 0;
  const size_t before = held_.size();
  held_.resize(before + size);
  size_t n = 0;
  ended_ = co_await wire_.ReadSome(asio::buffer(held_.data() + before, size), &n);
  held_.resize(before + n);
  co_return ended_;
}

asio::awaitable<ClientBytes::Error> ClientBytes::Discard() {
  Consume(unread().size());
  (void)co_await AwaitAhead();
  // Asio would wait for the socket to become readable once more.
  if (ended_ == asio::error::eof && !wire_.secure()) co_return ended_;
  const auto [ec, n] = co_await wire_.socket().async_read_some(asio::buffer(ahead_), kAwait);
  co_return ec;
}

asio::awaitable<ClientBytes::Error> ClientBytes::ReadInto(asio::mutable_buffer into, size_t* got) {
  *got = 0;
  if (unread().empty()) co_await AwaitAhead();
  if (const std::string_view here = unread(); !here.empty()) {
    *got = std::min(here.size(), into.size());
    std::memcpy(into.data(), here.data(), *got);
    Consume(*got);
    co_return Error();
  }
  if (!ended_) ended_ = co_await wire_.ReadSome(into, got);
  co_return ended_;
}

}  // namespace ember::http
