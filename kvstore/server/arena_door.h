// ArenaDoor: hands the shards' memory, read-only, to clients on the same host: a unix socket for
// each shard, and one thread that answers each connection with a wire::ArenaOffer and the memory's
// descriptor, and closes. Once a client and shard, and never on the data path.
//
// Who is let in: processes of the same user, and root. The sockets' mode says so, and the kernel's
// word on the peer is asked again. A reader can read all of the memory, whatever its keys.
//
// Concurrency: any thread. Life: the destructor takes the sockets away; what was handed out stays
// with its readers. The lock file stays, empty.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/io/file_descriptor.h"
#include "proto/base/bytes.h"
#include "proto/base/metrics.h"
#include "proto/base/status.h"

namespace ember::kv {

struct ArenaDoorOptions {
  std::string folder;  // exists
  std::string node_id;
  uint64_t incarnation = 0;
};

// A shard's memory, to be handed out.
struct SharedArena {
  io::FileDescriptor memory;
  uint64_t capacity = 0;
};

class ArenaDoor {
 public:
  // `arenas`: by shard number. `metrics` outlives it. kUnavailable when the sockets can't be made,
  // above all when a live node of the same name has its own in that folder; those of a dead one are
  // replaced. kInvalid when the folder's name is too long for a socket.
  static Result<std::unique_ptr<ArenaDoor>> Open(const ArenaDoorOptions& options,
                                                 std::vector<SharedArena> arenas,
                                                 MetricsRegistry* metrics);
  ~ArenaDoor();
  ArenaDoor(const ArenaDoor&) = delete;
  ArenaDoor& operator=(const ArenaDoor&) = delete;

  // Times that a shard's memory was handed out.
  uint64_t clients() const { return clients_.value(); }
  const std::string& path(uint32_t shard) const { return sockets_[shard].path; }

 private:
  struct Socket {
    std::string path;
    io::FileDescriptor listener;
    io::FileDescriptor memory;
    Bytes offer;
  };

  explicit ArenaDoor(MetricsRegistry* metrics);
  Status Lock(const ArenaDoorOptions& options);
  Status Listen(const ArenaDoorOptions& options, uint32_t shard, SharedArena arena);
  void Run();
  bool Answer(const Socket& socket);

  Counter& clients_;
  Counter& refused_;
  io::FileDescriptor lock_;
  io::FileDescriptor wake_;
  std::vector<Socket> sockets_;
  std::thread thread_;
};

}  // namespace ember::kv
