// ScriptedNode: a store node on raw sockets that can be told to misbehave in ways a real one can't.
// With Fault::kNone it is an honest, simple node: a thread per connection, a map of segments.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "proto/wire/frame.h"
#include "proto/wire/messages.h"

namespace ember::testing {

enum class Fault {
  kNone,
  kSilent,            // accepts, never says anything
  kMute,              // greets, then never answers
  kTrickle,           // answers a byte at a time, one each 50 ms
  kStallsMidPayload,  // sends the rest when the fault is lifted
  kClosesMidPayload,
  kClosesOnRequest,
  kFlipsByte,     // of each payload
  kFlipsHeader,   // of each segment's header
  kLongPayload,   // one byte more than the segment has
  kShortPayload,  // one byte less
  kGarbage,       // answers with bytes that are no frame
  kWrongReply,    // answers with a frame of another type
  kWrongRequestId,
  kShortMatch,     // a match reply with too few entries
  kWrongId,        // greets under another name
  kHugeMembers,    // a hello whose member count lies
  kBusy,           // refuses every request for load, properly
  kLosesSegments,  // matches what it has, then has it no more when it is asked for
  kRefusesCommit,
};

class ScriptedNode {
 public:
  explicit ScriptedNode(std::string id);
  ~ScriptedNode() { Stop(); }
  ScriptedNode(const ScriptedNode&) = delete;
  ScriptedNode& operator=(const ScriptedNode&) = delete;

  // Binds a free port, or the one it had before, and serves with a new incarnation.
  void Start(bool keep_segments = false);
  // As a KILL: connections break, nothing listens.
  void Stop();

  void set_fault(Fault fault) { fault_ = fault; }
  void set_members(std::vector<wire::Member> members) {
    const std::lock_guard lock(mutex_);
    members_ = std::move(members);
  }
  // Offers its memory in the next hellos.
  void set_shm_path(std::string path) {
    const std::lock_guard lock(mutex_);
    shm_path_ = std::move(path);
  }
  // Answers gets of what it has with this place (and lease 5) instead of the payload, asked or not.
  void set_place(std::optional<wire::ArenaPlace> place) {
    const std::lock_guard lock(mutex_);
    place_ = place;
  }
  uint64_t incarnation() {
    const std::lock_guard lock(mutex_);
    return incarnation_;
  }
  void Evict(const BlockKey& key);
  bool Has(const BlockKey& key);

  const std::string& id() const { return id_; }
  uint16_t port() const { return port_; }
  wire::Member member() const { return {.id = id_, .host = "127.0.0.1", .port = port_}; }

  // What clients have done.
  std::atomic<int> connections{0};
  std::atomic<int> requests{0};
  std::atomic<int> payloads_sent{0};
  std::atomic<int> corrupt_reports{0};
  std::atomic<int> releases{0};

 private:
  struct Stored {
    Bytes header;
    Bytes payload;
    GenerationId generation;
  };
  struct Frame {
    wire::FrameHeader header;
    Bytes meta;
    Bytes payload;
  };
  using Attempts = std::map<wire::AttemptToken, Stored>;

  void Accept();
  void Serve(int fd);
  bool Greet(int fd);
  bool Answer(int fd, const Frame& frame, Attempts* attempts);
  MissReason WhyAbsent(const BlockKey& key) const;  // mutex_ held
  bool AnswerMatch(int fd, const Frame& frame);
  bool AnswerGet(int fd, const Frame& frame);
  bool AnswerReserve(int fd, const Frame& frame, Attempts* attempts);
  bool AnswerCommit(int fd, const Frame& frame, Attempts* attempts);
  bool Misbehave(int fd, const Frame& frame, bool* handled);
  bool SendSegment(int fd, uint64_t id, uint32_t index, Stored segment);
  bool Send(int fd, wire::FrameType type, uint64_t id, ByteSpan meta, ByteSpan payload = {});
  bool SendRaw(int fd, ByteSpan bytes);
  bool Receive(int fd, Frame* frame);
  // False when the node was stopped meanwhile.
  bool Pause(std::chrono::milliseconds time);

  const std::string id_;
  std::atomic<Fault> fault_{Fault::kNone};
  uint16_t port_ = 0;
  int listener_ = -1;
  uint64_t incarnation_ = 0;
  std::thread acceptor_;

  std::mutex mutex_;
  std::condition_variable stopping_changed_;
  bool stopping_ = true;
  std::vector<wire::Member> members_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::map<BlockKey, Stored> segments_;
  std::set<BlockKey> evicted_;
  std::string shm_path_;
  std::optional<wire::ArenaPlace> place_;
  uint64_t next_token_ = 1;
};

}  // namespace ember::testing
