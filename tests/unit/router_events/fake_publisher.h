// FakePublisher: plays an engine's event publisher on real ZeroMQ sockets, PUB and ROUTER, as a
// script says: losses, replay forms, stalls, cuts, garbage, a restart on the same address.
//
// Publish and the Send functions from one thread; the script may be changed at any time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ember::router {

class FakePublisher {
 public:
  struct Script {
    // Replay messages: [empty, sequence, payload], or [empty, topic, sequence, payload].
    std::atomic<bool> replay_topic{false};
    std::atomic<bool> end_marker{true};
    std::atomic<bool> answers{true};              // false: takes requests, says nothing
    std::atomic<size_t> buffer{100'000};          // batches that can be repeated
    std::atomic<size_t> pause_after{~size_t{0}};  // stops in a replay after so many messages ...
    std::atomic<bool> resume{false};              // ... until this
    std::atomic<size_t> cut_after{~size_t{0}};  // closes the replay socket after so many, once ...
    std::atomic<bool> cut{false};               // ... this is true
    std::atomic<int> garbage_replies{0};        // so many requests are answered with garbage
  };

  // On loopback addresses: free ports for empty ones. `has_replay` false: no ROUTER.
  explicit FakePublisher(bool has_replay = true, const std::string& address = "",
                         const std::string& replay_address = "");
  // Takes its sockets away: whoever is connected is cut off.
  ~FakePublisher();

  const std::string& address() const;
  const std::string& replay_address() const;
  // True when somebody subscribed since the last call that said so.
  bool WaitForSubscriber();

  // Publishes the next batch; `lost`: only for replays.
  void Publish(const std::string& payload, bool lost = false);
  void SendFrames(const std::vector<std::string>& frames);
  uint64_t next_sequence() const;
  void set_next_sequence(uint64_t sequence);

  // Where the replays that were asked for began.
  std::vector<uint64_t> requests() const;

  Script script;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ember::router
