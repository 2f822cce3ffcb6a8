// Stream and Listener: connected byte streams and where they come from. Made by a Loop.
//
// Concurrency: the loop's thread only. At most one read and one write may be pending at a time.
// Life: a Stream must outlive its pending operations; Close() makes them end with kCancelled soon.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "client/io/task.h"
#include "proto/base/bytes.h"
#include "proto/base/status.h"

namespace ember::io {

// A TCP address. `host` is a numeric IPv4 or IPv6 address (no brackets) or a name to be resolved.
struct Endpoint {
  std::string host;
  uint16_t port = 0;
  // "127.0.0.1:7101", "[::1]:7101"
  std::string ToString() const;
  // Accepts what ToString makes, and names; anything ambiguous (an IPv6 address without brackets,
  // a missing or out-of-range port) is kInvalid with the reason.
  static Result<Endpoint> Parse(std::string_view text);
  bool operator==(const Endpoint&) const = default;
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Reads 1..buffer.size() bytes into `buffer`; 0 means the peer closed its side.
  // kUnavailable when the connection broke, kCancelled after Close().
  virtual Task<Result<size_t>> ReadSome(MutableByteSpan buffer) = 0;
  // As ReadSome, for a caller that needs the whole buffer: a back end may let the kernel fill it
  // before it wakes anybody. It may still return less.
  virtual Task<Result<size_t>> ReadBulk(MutableByteSpan buffer) { return ReadSome(buffer); }
  // Writes all of `parts`, in order, in as few system calls as the kernel allows. The bytes must
  // stay valid until it completes. At most kMaxGatherParts parts.
  virtual Task<Status> WriteAll(std::span<const ByteSpan> parts) = 0;
  // Shuts the connection down; idempotent.
  virtual void Close() = 0;
  // The remote address, for logs.
  virtual const std::string& peer_name() const = 0;
};

inline constexpr size_t kMaxGatherParts = 64;

// Reads exactly buffer.size() bytes. kNotFound when the peer closed before the first byte (a clean
// end between frames), kUnavailable when it closed within.
Task<Result<size_t>> ReadExactly(Stream& stream, MutableByteSpan buffer);

class Listener {
 public:
  virtual ~Listener() = default;
  // One at a time. kCancelled after Close(); kBusy when the process is out of descriptors or
  // memory, and the caller should then wait a little before the next one.
  virtual Task<Result<std::unique_ptr<Stream>>> Accept() = 0;
  virtual void Close() = 0;
  // The bound port, also when 0 was asked for.
  virtual uint16_t port() const = 0;
};

}  // namespace ember::io
