// ReplyWriter: the ResponseWriter of one request on a ServerConnection: framing of the reply.
// Concurrency and ownership: as ResponseWriter.
#pragma once

#include "client/http/response_writer.h"

namespace ember::http {

class ServerConnection;

class ReplyWriter final : public ResponseWriter {
 public:
  struct Client {
    bool head_only = false;  // the method is HEAD
    bool http10 = false;
    bool keep_alive = true;
  };
  ReplyWriter(ServerConnection& connection, Client client)
      : connection_(connection), client_(client) {}

  boost::asio::awaitable<Status> Send(ResponseHead head, std::string_view body) override;
  boost::asio::awaitable<Status> Begin(ResponseHead head, std::optional<uint64_t> content_length,
                                       std::string_view first) override;
  boost::asio::awaitable<Status> Write(std::string_view chunk) override;
  boost::asio::awaitable<Status> End() override;
  void Abort() override;
  bool started() const override { return state_ != State::kNew; }
  bool finished() const override { return state_ == State::kEnded || state_ == State::kAborted; }
  Cancellation& gone() override;
  bool stopping() const override;

  bool ended() const { return state_ == State::kEnded; }
  // After the handler: the connection can take another request.
  bool reusable() const { return state_ == State::kEnded && client_.keep_alive; }
  // The reply was cut, and only a reset can tell the client so.
  bool cut_needs_reset() const {
    return state_ == State::kAborted && framing_ == Framing::kUntilClose;
  }
  // A byte that a client which still listens will not notice at this point of the reply, and one
  // which has closed its socket answers with a reset; "" when there is none. ProbeSent once it is
  // on its way.
  std::string_view ProbeByte() const;
  void ProbeSent() { status_line_begun_ = state_ == State::kNew; }

 private:
  enum class State { kNew, kStreaming, kEnded, kAborted };
  enum class Framing { kLength, kChunked, kUntilClose, kNoBody };

  std::string Head(ResponseHead head, std::optional<uint64_t> content_length);
  Status Refuse(const char* why);

  ServerConnection& connection_;
  Client client_;
  State state_ = State::kNew;
  Framing framing_ = Framing::kLength;
  uint64_t left_ = 0;  // bytes still owed under kLength
  bool status_line_begun_ = false;
};

}  // namespace ember::http
