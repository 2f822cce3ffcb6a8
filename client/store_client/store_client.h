// StoreClient: Match, Get and Put against a cluster of store nodes, over placement and fail-over.
//
// What it is: the library that engines' connectors, the agent and the command line talk to. It
// finds the owners of each segment by rendezvous hashing over the cluster's view, asks them in
// parallel, fails over to the other copy, verifies every byte after the last copy, and says for
// each miss why. A node that is down costs one failed try, then none until its back-off ends.
//
// Concurrency: every call is blocking, may come from any thread, and many may run at once. The
// client owns one loop that does all the I/O, run by the callers themselves. Calls return by their
// deadline whatever the nodes do. When a call has returned, nothing of it touches the caller's
// buffers any more.
//
// Life: Shutdown() (or the destructor) ends the calls in flight (kCancelled, kLostNode) and waits
// for them to return; later calls return at once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/io/loop.h"
#include "client/io/stream.h"
#include "client/store_client/lease.h"
#include "client/store_client/mapped_segment.h"
#include "proto/base/metrics.h"
#include "proto/base/status.h"
#include "proto/base/time.h"
#include "proto/model/miss_reason.h"
#include "proto/model/segment.h"
#include "proto/model/tier.h"

namespace ember {

inline constexpr uint32_t kMaxCopies = 8;

struct StoreClientOptions {
  std::vector<io::Endpoint> seeds;  // any nodes of the cluster; the view is learned from them
  std::string name = "client";      // for the nodes' logs, and as the writer of segments
  std::string tenant;               // of what is put
  io::Backend backend = io::Backend::kAuto;
  uint32_t copies = 2;  // at first write; 1 to kMaxCopies
  Duration connect_timeout = milliseconds(500);
  Duration back_off_min = milliseconds(100);  // after a failed connection; doubles
  Duration back_off_max = seconds(2);
  // How long a call looks for the answer before it lets its processor sleep; 0 = not at all. Waking
  // costs some 30 to 80 us on virtual machines. Not done while it doesn't pay.
  Duration spin = microseconds(50);
  // Whether to map the memory of nodes on this host that offer it, and read segments there instead
  // of having them sent.
  bool map_memory = true;
  MetricsRegistry* metrics = nullptr;  // optional; must outlive the client
};

struct MatchOptions {
  // How long what is present must not be evicted, at most wire::kMaxLeaseMs; 0: no lease.
  Duration lease = Duration::zero();
};
struct SegmentMatch {
  MissReason miss = MissReason::kNone;  // kNone = some live owner has it
  uint64_t payload_bytes = 0;
};
struct MatchResult {
  size_t usable = 0;                   // segments present from the start, unbroken
  std::vector<SegmentMatch> segments;  // as many as asked
  Lease lease;                         // of what is present, as far as the nodes gave one
};

// One segment's place in a load. `buffer` receives the payload, or a range of it.
//
// A range can't be compared with the payload's checksum: where it is not the whole payload, only
// the header is verified. Ask for whole segments unless a wrong byte can be told in another way.
struct GetRequest {
  SegmentRef ref;
  std::span<const TokenId> tokens;  // of the segment's blocks, compared with the header
  MutableByteSpan buffer;           // exactly the payload's length as matched; of a range, its
  std::optional<uint64_t> offset = std::nullopt;  // where the range begins; nullopt: the whole
};
struct GetResult {
  size_t usable = 0;  // segments that arrived and were verified, from the start, unbroken
  std::vector<MissReason> misses;      // per request; kNone = arrived and verified
  std::vector<SegmentHeader> headers;  // per request; default where missed
  uint64_t bytes = 0;                  // of the payloads that arrived and were verified
};

struct InPlaceRequest {
  SegmentRef ref;
  std::span<const TokenId> tokens;  // of the segment's blocks, compared with the header
};
struct InPlaceResult {
  size_t usable = 0;                    // segments found, from the start, unbroken
  std::vector<MissReason> misses;       // per request; kNone = found
  std::vector<MappedSegment> segments;  // per request; not held() where missed
  // kUnavailable with the reason when the memory of a node that was asked is not mapped here: on
  // another host, not offered, or not for this user. What it owns is then missed as kLostNode.
  Status status;
};

struct PutRequest {
  SegmentRef ref;
  std::span<const TokenId> tokens;
  ByteSpan payload;
  std::vector<uint64_t> layer_offsets;
};
struct PutOptions {
  // What an acknowledgement means: kDisk survives the loss of every node's power.
  AckLevel ack = AckLevel::kMemory;
};
// What became of one segment of a put.
struct PutOutcome {
  uint32_t copies = 0;       // nodes that have it now, acknowledged in memory at least
  uint32_t disk_copies = 0;  // of copies: acknowledged on disk, which a put at kMemory may not hear
  bool was_there = false;    // every owner had it already: nothing was sent
  Status status;             // why copies is below what was asked
};

class StoreClient {
 public:
  // Fails only on bad options; nodes that can't be reached now are tried again by later calls.
  static Result<std::unique_ptr<StoreClient>> Create(StoreClientOptions options);
  virtual ~StoreClient() = default;

  // One batched request per owner for the whole list. Never fails as a whole: what could not be
  // asked is a miss (kLostNode, kDeadline). Returns as soon as every answer is known, without
  // waiting for a slow owner whose answer can't change it.
  virtual MatchResult Match(std::span<const SegmentRef> segments, Duration timeout,
                            const MatchOptions& options = {}) = 0;
  // Loads segments straight into their buffers, spread over the copies. Stops asking after the
  // first miss of the prefix; what was not asked then has that miss's reason. A buffer whose
  // segment missed may hold anything.
  virtual GetResult Get(std::span<const GetRequest> requests, const LayoutDigest& layout,
                        Duration timeout) = 0;
  // As Get, without any copy: where segments lie in the memory of a node on this host, kept there
  // for `lease` (60 s at most). Their payloads are not hashed; see MappedSegment. What is found on
  // other hosts only is a miss: load it by Get.
  // A client that maps nothing says so.
  virtual InPlaceResult GetInPlace(std::span<const InPlaceRequest> requests,
                                   const LayoutDigest& layout, Duration timeout, Duration lease);
  // Reserve, stream, commit, at each owner in parallel. Outcomes in the order of the requests; an
  // owner that is down means fewer copies and its status, never a failure of the others. An empty
  // payload, or one over wire::kMaxPayloadBytes, is kInvalid.
  virtual std::vector<PutOutcome> Put(std::span<const PutRequest> requests,
                                      const LayoutDigest& layout, Duration timeout,
                                      const PutOptions& options = {}) = 0;

  struct NodeState {
    std::string id;
    io::Endpoint endpoint;
    bool reachable = false;
    std::string last_error;
  };
  // The cluster's nodes as this client sees them; connects to those it has not used yet, so it may
  // take as long as a connect. The seeds, while no view is known.
  virtual std::vector<NodeState> Nodes() = 0;
  virtual void Shutdown() = 0;
};

}  // namespace ember
