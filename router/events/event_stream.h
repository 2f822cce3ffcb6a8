// EventStream: the numbers of one publisher's event stream, and what follows from them. It passes
// batches on in order and once each, finds what is missing, says what to ask for again, and says
// when what was passed on so far can't be believed any more. No sockets, no clock of its own.
//
// Concurrency: one thread. The sink is called from within the On... calls and Tick.
#pragma once

#include <array>
#include <deque>
#include <optional>

#include "proto/base/time.h"
#include "router/events/event_metrics.h"
#include "router/events/kv_event.h"

namespace ember::router {

struct EventStreamOptions {
  bool has_replay = false;
  EngineKeyFold keys{0};
  Duration first_answer = seconds(3);        // until a replay's first message
  Duration stall = seconds(15);              // between two messages of a replay
  Duration first_pause = milliseconds(250);  // before a failed replay is asked for again; doubles
  int attempts = 3;                          // that bring nothing
  Duration first_resync = seconds(30);       // after a loss that a replay may make good; doubles
  Duration longest_resync = seconds(600);
  size_t max_held_bytes = 16u << 20;  // live messages held while a replay runs
  size_t max_held = 8192;
  Duration longest_hold = seconds(60);  // of a live message, however a replay drips
};

class EventStream {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void OnBatch(KvEventBatch batch, bool live) = 0;
    // Everything that was passed on is void. What comes after is true, but may be incomplete.
    virtual void OnLost(const Status& why) = 0;
    // Everything since the publisher's first batch was passed on, and nothing more is to be had
    // now.
    virtual void OnTrusted() = 0;
  };

  EventStream(EventStreamOptions options, Sink& sink, EventMetrics& metrics)
      : options_(options), sink_(sink), metrics_(metrics), resync_pause_(options.first_resync) {}

  // The subscription has a new connection: it may be to another process.
  void OnConnected(TimePoint now);
  // A message of the subscription.
  void OnLive(uint64_t sequence, ByteSpan payload, TimePoint now);

  // Messages of the replay that replay() names; those of an older one are not passed here.
  void OnReplayed(uint64_t sequence, ByteSpan payload, TimePoint now);
  void OnReplayEnd(TimePoint now);
  // The replay gave garbage or was cut in its answer (kCorrupt), or its connection failed.
  void OnReplayBroken(const Status& why, TimePoint now);

  void Tick(TimePoint now);

  // What must be asked for on a connection of its own: a new one whenever `number` changes.
  // Nothing: no replay is under way.
  struct Replay {
    uint64_t number;
    uint64_t from;
  };
  std::optional<Replay> replay() const;
  // When Tick has something to do.
  std::optional<TimePoint> deadline() const;

 private:
  enum class Phase : uint8_t { kLive, kReplaying, kPausing };
  // Why a replay is asked for.
  enum class Purpose : uint8_t {
    kJoin,    // all that the publisher can repeat, on top of nothing
    kGap,     // from next_ on
    kVerify,  // the last batch again, to see that it is the same publisher, and what follows
    kProbe,   // the batch that could not be had, before all is asked for on top of nothing
  };
  struct Held {
    uint64_t sequence;
    Bytes payload;
    TimePoint since;
  };

  void Ask(Purpose purpose, TimePoint now);
  // Nothing is missing that could be had.
  void FinishReplay();
  void PlanResync(TimePoint now);
  // True: go on with the message. False: it was dealt with.
  bool TakeFirstAnswer(uint64_t sequence, ByteSpan payload, TimePoint now);
  // Goes on behind the batch that can't be got through a connection. False: there is no such way.
  bool SkipNext(const Status& why);
  void GiveUp(const Status& why, TimePoint now);
  // What is held must not wait longer.
  TimePoint HoldDeadline() const;
  void Restart(const Status& why);

  void Hold(uint64_t sequence, ByteSpan payload, TimePoint now);
  void DropHeld();
  // Applies what is held up to the first hole.
  void DrainHeld();
  // The replay is over: goes on live, or asks again for what is still missing.
  void Settle(TimePoint now);
  // Makes the oldest held message the next one.
  void SkipToHeld(const Status& why);

  // Passes the batch on and makes the one after it the next. False: it can't be read.
  bool Apply(uint64_t sequence, ByteSpan payload, bool live);
  void Passed(uint64_t sequence, uint64_t digest);
  // Whether the batch, of a number below next_, is the one that was applied.
  bool IsKnown(uint64_t sequence, uint64_t digest) const;
  void ApplyOrLose(uint64_t sequence, ByteSpan payload, bool live);
  void LoseUnreadable(uint64_t sequence, ByteSpan payload);
  void LoseBatch(uint64_t sequence, uint64_t digest, const Status& why);
  void Lose(const Status& why);
  // The batch of that number is the first of all that is passed on since the last loss.
  void Begin(uint64_t sequence);

  const EventStreamOptions options_;
  Sink& sink_;
  EventMetrics& metrics_;

  std::optional<uint64_t> next_;         // the number to be applied next; nothing: none was applied
  std::array<uint64_t, 256> digests_{};  // of the payloads of the batches before next_, by number
  uint64_t known_since_ = 0;             // the first that was applied since the last loss
  uint64_t missing_ = 0;                 // the last that could not be had
  std::optional<uint64_t> unreadable_;   // the last that could not be read, and was asked for again
  std::optional<uint64_t> last_live_;    // of this connection
  uint64_t last_live_digest_ = 0;
  bool seen_live_ = false;
  std::deque<Held> held_;  // ascending
  size_t held_bytes_ = 0;

  Phase phase_ = Phase::kLive;
  Purpose purpose_ = Purpose::kJoin;
  uint64_t replays_ = 0;
  uint64_t asked_from_ = 0;
  bool answered_ = false;       // this attempt, by any message
  bool progressed_ = false;     // this attempt, by a batch that was applied
  bool had_target_ = false;     // something later was held already when it was asked for
  bool reconnected_ = false;    // what this replay brings was lost with the connection
  bool whole_ = false;          // once it is over, nothing since the publisher's first is missing
  int failures_ = 0;            // attempts without progress
  int skipped_ = 0;             // batches without progress
  TimePoint deadline_{};        // of the phase
  bool resync_wanted_ = false;  // something was lost since, and a replay may bring all of it back
  std::optional<TimePoint> resync_at_;
  Duration resync_pause_;
};

}  // namespace ember::router
