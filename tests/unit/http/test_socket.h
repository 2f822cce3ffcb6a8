// TestSocket: a plain blocking socket with deadlines, with which tests play clients and engines
// byte by byte.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ember::http {

inline constexpr std::chrono::milliseconds kPatience{20000};

// One HTTP message as it came over the wire.
struct WireMessage {
  std::string head;       // start line and fields, with the blank line
  std::string body;       // transfer coding removed
  int interim = 0;        // 1xx replies before it
  bool complete = false;  // the body ended as its framing says
  int status() const;
  std::string Field(std::string_view name) const;
};

class TestSocket {
 public:
  explicit TestSocket(int fd = -1) : fd_(fd) {}
  TestSocket(TestSocket&& other) noexcept;
  TestSocket& operator=(TestSocket&& other) noexcept;
  ~TestSocket() { Close(); }

  // `from`: the last number of the client's own address, 127.0.0.x.
  static TestSocket ConnectTo(uint16_t port, uint8_t from = 1);

  bool Connect(uint16_t port);
  bool Send(std::string_view bytes);
  // At least one byte within the deadline; "" when the peer closed, reset, or stayed silent.
  std::string ReadSome(std::chrono::milliseconds patience = kPatience);
  // Reads on until everything received so far, kept from earlier calls too, contains `mark`; takes
  // up to its end.
  std::optional<std::string> ReadUntil(std::string_view mark,
                                       std::chrono::milliseconds patience = kPatience);
  // A whole message. `head_only`: it is a reply to HEAD.
  WireMessage ReadMessage(bool head_only = false);
  // Everything up to the end of the stream.
  std::string ReadAll();
  // Waits until the peer has closed or reset; false after the deadline.
  bool AwaitClose(std::chrono::milliseconds patience = kPatience);
  // Nothing arrives and the peer does not close for this long.
  bool StaysSilent(std::chrono::milliseconds time);
  void ShutdownWrite();
  void Close();
  void Reset();
  int fd() const { return fd_.load(); }

 private:
  bool Fill(std::chrono::milliseconds patience);  // reads once into pending_
  std::string Take(size_t n);
  bool ReadBody(WireMessage* message);
  bool ReadChunks(std::string* body);

  std::atomic<int> fd_{-1};  // a test may end a script's socket from outside
  std::string pending_;
};

}  // namespace ember::http
