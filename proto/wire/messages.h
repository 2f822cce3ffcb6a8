// The messages inside data-plane frames, and their bounded encoders and decoders.
//
// Each struct has `Bytes Encode(const T&)` and `Result<T> Decode<T>(ByteSpan)`; a decoder accepts
// exactly what the encoder makes, within limits.h, and nothing longer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/bytes.h"
#include "proto/model/block_hash.h"
#include "proto/model/miss_reason.h"
#include "proto/model/segment.h"
#include "proto/model/tier.h"
#include "proto/wire/frame.h"

namespace ember::wire {

// 128 random bits that only the reserving client knows.
struct AttemptToken {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const AttemptToken&) const = default;
};

struct Member {
  std::string id;    // stable, never derived from the address
  std::string host;  // numeric or a name
  uint16_t port = 0;
  uint32_t weight = 1;
  std::string zone;
  bool operator==(const Member&) const = default;
};

struct Hello {
  uint16_t min_version = kProtocolVersion;
  uint16_t max_version = kProtocolVersion;
  std::string client_name;       // for logs
  std::string expected_node_id;  // empty: any
};
struct HelloReply {
  uint16_t version = kProtocolVersion;
  std::string node_id;
  uint64_t incarnation = 0;  // random at each start with empty memory
  uint64_t max_payload_bytes = 0;
  uint64_t view_number = 0;
  std::vector<Member> members;
  // Data ports of the node's shards, by shard number; a segment belongs to one of them. At least 1.
  std::vector<uint16_t> shard_ports;
  uint32_t shard = 0;  // which one answers here
  // A unix socket that hands the shard's memory to readers on the same host; empty: not offered.
  std::string shm_path;
};

struct Match {
  std::vector<BlockKey> keys;
  uint32_t lease_ms = 0;  // pin what is present for so long; 0 = no lease
};
struct MatchEntry {
  MissReason miss = MissReason::kNone;  // kNone = present
  uint64_t payload_length = 0;
  GenerationId generation;
  Tier tier = Tier::kMemory;  // the fastest that has it
};
struct MatchReply {
  uint64_t lease_id = 0;            // 0 = none given
  std::vector<MatchEntry> entries;  // as many as keys, in their order
};

struct Reserve {
  std::vector<Bytes> headers;  // encoded SegmentHeaders
  // Of what is stored already, whose reply waits for it; of the others the Commit says it.
  AckLevel ack = AckLevel::kMemory;
};
struct ReserveEntry {
  // kOk: write it. kBusy: another writer is at it. Others: refused, see `have` first.
  StatusCode code = StatusCode::kOk;
  bool have = false;  // stored already: nothing to send
  AttemptToken token;
  AckLevel level = AckLevel::kMemory;  // of what is stored already
};
struct ReserveReply {
  uint32_t deadline_ms = 0;
  std::vector<ReserveEntry> entries;
};

struct Write {
  AttemptToken token;
  uint64_t offset = 0;  // bytes into the segment's payload
};

struct Commit {
  std::vector<AttemptToken> tokens;
  AckLevel ack = AckLevel::kMemory;  // the reply waits for it
};
struct CommitEntry {
  // kOk: published, see `level`. kCorrupt checksum; kNotFound unknown token; ...
  StatusCode code = StatusCode::kOk;
  AckLevel level = AckLevel::kMemory;  // reached; may be below what was asked
};
struct CommitReply {
  std::vector<CommitEntry> entries;  // as many as tokens, in their order
};
struct Abort {
  std::vector<AttemptToken> tokens;
};

struct Release {
  uint64_t lease_id = 0;
};

// A run of bytes in a shard's memory, as the one who mapped it counts them.
struct ArenaPlace {
  uint64_t offset = 0;
  uint64_t length = 0;
  bool operator==(const ArenaPlace&) const = default;
};

struct GetItem {
  BlockKey key;
  uint64_t offset = 0;
  uint64_t length = 0;  // 0 = to the end
};
struct Get {
  std::vector<GetItem> items;
  // Above 0: the client has mapped this shard's memory (HelloReply::shm_path). What it asks for is
  // told by its place there instead of being sent, and pinned for so long. 0: all is sent.
  uint32_t in_place_lease_ms = 0;
};
struct GetReply {
  uint32_t index = 0;  // of the item
  MissReason miss = MissReason::kNone;
  Bytes header;         // encoded SegmentHeader; empty on a miss
  uint64_t offset = 0;  // of the payload asked for within the segment's
  // Not 0: the payload is not in the frame, but at `place` in the shard's memory, pinned by this
  // lease until its Release, its deadline or the connection's end. The lease may be that of many
  // items, and a Get may need several. 0 although a place was asked for: the payload follows.
  uint64_t lease_id = 0;
  ArenaPlace place;
};

struct ErrorReply {
  StatusCode code = StatusCode::kInternal;
  std::string message;
};

struct ReportCorrupt {
  BlockKey key;
  GenerationId generation;
};

Bytes Encode(const Hello&);
Bytes Encode(const HelloReply&);
Bytes Encode(const Match&);
Bytes Encode(const MatchReply&);
Bytes Encode(const Reserve&);
Bytes Encode(const ReserveReply&);
Bytes Encode(const Write&);
Bytes Encode(const Commit&);
Bytes Encode(const CommitReply&);
Bytes Encode(const Abort&);
Bytes Encode(const Release&);
Bytes Encode(const Get&);
Bytes Encode(const GetReply&);
Bytes Encode(const ErrorReply&);
Bytes Encode(const ReportCorrupt&);

template <typename T>
Result<T> Decode(ByteSpan bytes);

}  // namespace ember::wire
