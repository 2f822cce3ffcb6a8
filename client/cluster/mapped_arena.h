// MappedArena: the memory of one shard of a node on this host, mapped read-only.
//
// Operation: the node's hello names a unix socket; there the node hands over the memory's
// descriptor (wire::ArenaOffer). What lies in it is told by replies on the data connection, for as
// long as a lease of that connection holds. The mapping itself stays valid for as long as this
// object lives, also when the node dies or is replaced: reads never fault, but after a lease has
// ended the bytes may be anybody's.
//
// Concurrency: Map on the loop's thread; a MappedArena is constant and for any thread.
#pragma once

#include <memory>
#include <optional>

#include "client/io/loop.h"
#include "proto/wire/messages.h"

namespace ember::cluster {

class MappedArena {
 public:
  // Does not block: asks again and again for up to `timeout`. kUnavailable when there is no such
  // socket, or this process may not use it (another host, container or user); kDeadline;
  // kMismatch when what is handed over is not what the hello promised, or could shrink under its
  // readers; kInvalid when it is no offer at all.
  static io::Task<Result<std::shared_ptr<const MappedArena>>> Map(io::Loop& loop,
                                                                  wire::HelloReply hello,
                                                                  Duration timeout);
  ~MappedArena();
  MappedArena(const MappedArena&) = delete;
  MappedArena& operator=(const MappedArena&) = delete;

  // Whether it is the memory behind this connection.
  bool IsOf(const wire::HelloReply& hello) const {
    return incarnation_ == hello.incarnation && shard_ == hello.shard;
  }
  // Nothing when not all of it lies within: the node's word is not believed.
  std::optional<ByteSpan> At(const wire::ArenaPlace& place) const;
  uint64_t capacity() const { return capacity_; }
  uint64_t incarnation() const { return incarnation_; }

 private:
  MappedArena(uint64_t incarnation, uint32_t shard, const std::byte* base, uint64_t capacity)
      : incarnation_(incarnation), shard_(shard), base_(base), capacity_(capacity) {}

  const uint64_t incarnation_;
  const uint32_t shard_;
  const std::byte* const base_;
  const uint64_t capacity_;
};

}  // namespace ember::cluster
