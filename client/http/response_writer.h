// ResponseWriter: how a handler answers one request, whole or as a stream, and how it learns that
// the client is gone.
//
// Either one Send*, or Begin, any number of Write, End. Every call completes when the kernel has
// taken the bytes, so a slow client holds back whoever produces them. After an error (the client is
// gone, kCancelled) every further call returns that error.
// Concurrency: the handler's strand; one call at a time. Owned by the server's connection.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/http/cancellation.h"
#include "client/http/openai_error.h"
#include "client/http/request.h"
#include "proto/base/status.h"

namespace ember::http {

class ResponseWriter {
 public:
  virtual ~ResponseWriter() = default;

  // A whole reply. Content-Length, Connection and Date are the server's: do not set them.
  virtual boost::asio::awaitable<Status> Send(ResponseHead head, std::string_view body) = 0;
  // Starts a streamed reply and sends its head together with `first` (may be empty) in one piece.
  // With `content_length` the body must be exactly that long, else it is chunked (closed at the end
  // for an HTTP/1.0 client). Replies that have no body by definition (HEAD, 204, 304) drop it.
  virtual boost::asio::awaitable<Status> Begin(ResponseHead head,
                                               std::optional<uint64_t> content_length,
                                               std::string_view first) = 0;
  // Sends these bytes now. An empty chunk is nothing.
  virtual boost::asio::awaitable<Status> Write(std::string_view chunk) = 0;
  virtual boost::asio::awaitable<Status> End() = 0;
  // Closes the connection without a regular end, so that the client sees that the reply was cut.
  virtual void Abort() = 0;

  // True once any byte of the reply may have reached the client: too late for another answer.
  virtual bool started() const = 0;
  virtual bool finished() const = 0;
  // Fires when the client closed or reset the connection, stopped taking bytes for the write
  // timeout, or the server stops without further grace.
  virtual Cancellation& gone() = 0;
  // gone() fired because the server stops: the client had not left, and has about a second to be
  // told.
  virtual bool stopping() const = 0;

  // Of the errors sent from here on.
  void SetErrorShape(ErrorShape shape) { error_shape_ = shape; }
  ErrorShape error_shape() const { return error_shape_; }
  // What the reply says under these names, whoever sends it and whatever its head says; an empty
  // value: nothing.
  void SetReplyFields(Headers fields) { reply_fields_ = std::move(fields); }
  // Send with JSON content type; `extra` are further header fields.
  boost::asio::awaitable<Status> SendJson(int status, std::string_view body, Headers extra = {});
  boost::asio::awaitable<Status> SendError(OpenAiError error, Headers extra = {});

 protected:
  const Headers& reply_fields() const { return reply_fields_; }

 private:
  ErrorShape error_shape_ = ErrorShape::kOpenAi;
  Headers reply_fields_;
};

}  // namespace ember::http
