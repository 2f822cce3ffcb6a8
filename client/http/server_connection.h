// ServerConnection: one client's connection: the loop of its requests, the watch over the client
// while a handler works, and the replies' bytes.
//
// Concurrency: everything on the connection's strand; Start, BeginDrain, Cut and ForceClose may
// be called from any thread. Life: shared by its own coroutine and the server's list.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <memory>
#include <span>
#include <string>

#include "client/http/cancellation.h"
#include "client/http/client_bytes.h"
#include "client/http/request_reader.h"
#include "client/http/server_shared.h"
#include "client/http/watchdog.h"
#include "client/http/wire.h"

namespace ember::http {

class ReplyWriter;

class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  // `socket`'s executor is the connection's strand.
  ServerConnection(std::shared_ptr<ServerShared> server, Wire::Socket socket);

  // Serves until the connection ends, then leaves the server's list.
  void Start();
  // Answers "busy" without reading a request.
  void StartRefusal();
  void BeginDrain();
  // Its request is given up, and its client told so.
  void Cut();
  void ForceClose();

  // For ReplyWriter, on the strand:
  // Writes everything; suspends while the client takes nothing. kCancelled when it is gone.
  boost::asio::awaitable<Status> WriteAll(std::span<boost::asio::const_buffer> parts);
  Cancellation& gone() { return gone_; }
  void ClientGone();
  bool client_left() const { return client_left_; }
  // The server stops, and that is why the reply ends.
  bool cut() const { return cut_ && (closed_by_us_ || !client_left_); }
  // No further request is taken.
  bool ends_after_reply() const { return draining_ || server_->winding_down; }
  Counter& responses(int status) { return server_->metrics.ResponsesOf(status); }

 private:
  enum class Phase { kIdle, kReading, kHandling, kClosing };

  boost::asio::awaitable<void> Serve();
  boost::asio::awaitable<bool> Secure();
  boost::asio::awaitable<bool> ServeOne(bool first);
  boost::asio::awaitable<bool> AwaitRequest(bool first);
  boost::asio::awaitable<std::optional<RequestReader::Failure>> ReadRequest(Request* request);
  boost::asio::awaitable<bool> Handle(Request& request);
  boost::asio::awaitable<void> RefuseRequest(Request& request,
                                             const RequestReader::Failure& failure);
  boost::asio::awaitable<void> Refuse();
  void EndRefusal();
  boost::asio::awaitable<void> SayFarewell();
  boost::asio::awaitable<void> Linger(Duration at_most);

  void OnTimeout();
  int Unacknowledged();
  void AwaitAcknowledgement();
  void CountAcknowledged(size_t written);
  void WatchClient();
  void WatchErrors();
  void AskForEnd();
  void OnClientEnd(boost::system::error_code why);
  void ProbeClient();
  void Close();

  std::shared_ptr<ServerShared> server_;
  Wire wire_;
  ClientBytes bytes_;
  RequestReader reader_;
  Watchdog watchdog_;
  Cancellation gone_;              // nobody waits for the reply: client_left_ or cut_
  ReplyWriter* writer_ = nullptr;  // of the request being handled
  std::string peer_;
  Phase phase_ = Phase::kReading;
  bool watching_errors_ = false;
  bool asking_for_end_ = false;
  bool probed_ = false;
  bool ends_whole_ = true;  // what was sent is no part of a reply
  bool write_pending_ = false;
  // When the wait for the client to take some began, and how long it was behind already.
  TimePoint waits_since_;
  int unacknowledged_ = 0;
  Duration behind_ = Duration::zero();
  bool draining_ = false;
  bool cut_ = false;
  bool client_left_ = false;   // no byte can be written to it any more
  bool closed_by_us_ = false;  // it did not leave: the farewell was over
};

}  // namespace ember::http
