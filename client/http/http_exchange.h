// HttpExchange: the Exchange over one UpstreamConnection. The only place where bytes from upstreams
// are parsed (by Beast). Concurrency and life: as Exchange.
#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <memory>
#include <optional>
#include <span>

#include "client/http/exchange.h"
#include "client/http/upstream_connection.h"
#include "client/http/watchdog.h"

namespace ember::http {

class HttpExchange final : public Exchange {
 public:
  // Takes over one reservation at `store`.
  HttpExchange(const boost::asio::any_io_executor& strand, std::shared_ptr<UpstreamStore> store,
               Origin origin, const ExchangeOptions& options);
  ~HttpExchange() override;

  // Connects, sends, reads the head; whole as described at UpstreamPool::Send.
  boost::asio::awaitable<Status> Run(const UpstreamRequest& request);

  const ResponseHead& head() const override { return head_; }
  std::optional<uint64_t> content_length() const override { return content_length_; }
  boost::asio::awaitable<Result<std::string_view>> ReadBody() override;
  boost::asio::awaitable<void> Rest(TimePoint until) override;
  bool body_over() const override { return complete_; }
  bool ends_with_connection() const override { return parser_->need_eof(); }
  bool reused() const override { return reused_; }
  TimePoint sent_at() const override { return sent_at_; }
  TimePoint head_at() const override { return head_at_; }

 private:
  using Parser = boost::beast::http::response_parser<boost::beast::http::buffer_body>;

  boost::asio::awaitable<Status> Connect();
  boost::asio::awaitable<boost::system::error_code> ConnectSocket();
  boost::asio::awaitable<boost::system::error_code> ConnectToName();
  boost::asio::awaitable<Status> Secure();
  boost::asio::awaitable<Status> Attempt(const std::string& head, const UpstreamRequest& request);
  boost::asio::awaitable<boost::system::error_code> ReadHead(bool head_only);
  boost::asio::awaitable<boost::system::error_code> ParseWithoutReason();
  boost::asio::awaitable<boost::system::error_code> ReadHeadWhileSending(
      std::span<boost::asio::const_buffer> rest, bool head_only,
      boost::system::error_code* write_error);
  void OnSent(boost::system::error_code ec);
  void TakeHead();
  void FinishBody();
  // Closes the connection; pending operations end at once.
  void Interrupt();
  void LimitPhase(Duration limit);
  Status Why(boost::system::error_code ec, std::string_view doing) const;

  const std::shared_ptr<UpstreamStore> store_;
  const Origin origin_;
  const ExchangeOptions options_;
  const TimePoint deadline_;
  std::unique_ptr<UpstreamConnection> connection_;
  const boost::asio::any_io_executor strand_;
  Cancellation lookup_stop_;
  std::optional<Parser> parser_;
  std::unique_ptr<std::array<char, 16 << 10>> piece_;
  Watchdog watchdog_;
  Cancellation::Registration cancel_registration_;
  Status failed_;  // told after the piece that came before it
  ResponseHead head_;
  std::optional<uint64_t> content_length_;
  TimePoint sent_at_, head_at_;
  bool holds_reservation_ = true;
  bool reused_ = false;
  bool sent_all_ = false;
  bool stale_ = false;  // the attempt failed as a dead kept connection does
  bool interrupted_ = false;
  bool timed_out_ = false;
  bool complete_ = false;
};

}  // namespace ember::http
