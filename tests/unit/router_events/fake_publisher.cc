#include "tests/unit/router_events/fake_publisher.h"

#include <zmq.h>

#include <mutex>
#include <thread>
#include <utility>

#include "proto/base/check.h"
#include "tests/unit/support/eventually.h"

namespace ember::router {
namespace {

std::string SequenceFrame(uint64_t sequence) {
  std::string frame;
  for (int shift = 56; shift >= 0; shift -= 8)
    frame.push_back(static_cast<char>(sequence >> shift));
  return frame;
}

void SendAll(void* socket, const std::vector<std::string>& frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    zmq_send(socket, frames[i].data(), frames[i].size(),
             ZMQ_DONTWAIT | (i + 1 < frames.size() ? ZMQ_SNDMORE : 0));
  }
}

std::vector<std::string> ReceiveAll(void* socket) {
  std::vector<std::string> frames;
  int more = 1;
  size_t size = sizeof more;
  while (more != 0) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    const int got = zmq_msg_recv(&message, socket, ZMQ_DONTWAIT);
    if (got >= 0) {
      frames.emplace_back(static_cast<char*>(zmq_msg_data(&message)), zmq_msg_size(&message));
    }
    zmq_msg_close(&message);
    if (got < 0) break;
    zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
  }
  return frames;
}

}  // namespace

struct FakePublisher::Impl {
  explicit Impl(Script& script_in) : script(script_in), context(zmq_ctx_new()) {}

  // The address it got. A predecessor's port may take a moment to be free.
  static std::string Bind(void* socket, const std::string& address) {
    const bool bound = Eventually([&] {
      return zmq_bind(socket, address.empty() ? "tcp://127.0.0.1:*" : address.c_str()) == 0;
    });
    EMBER_CHECK(bound, "the fake publisher binds");
    char got[256];
    size_t size = sizeof got;
    zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, got, &size);
    return got;
  }

  void* OpenReplay() {
    void* router = zmq_socket(context, ZMQ_ROUTER);
    constexpr int kNow = 0;
    zmq_setsockopt(router, ZMQ_LINGER, &kNow, sizeof kNow);
    constexpr int kNoLimit = 0;
    zmq_setsockopt(router, ZMQ_SNDHWM, &kNoLimit, sizeof kNoLimit);
    replay_address = Bind(router, replay_address);
    return router;
  }

  void ServeReplays() {
    void* router = OpenReplay();
    {
      const std::lock_guard lock(mutex);
      ready = true;
    }
    while (!stopping) {
      zmq_pollitem_t item{router, 0, ZMQ_POLLIN, 0};
      if (zmq_poll(&item, 1, 5) <= 0) continue;
      const std::vector<std::string> request = ReceiveAll(router);
      // Exactly what vLLM takes: anything else is ignored.
      if (request.size() != 3 || !request[1].empty() || request[2].size() != 8) continue;
      uint64_t from = 0;
      for (const char c : request[2]) from = from << 8 | static_cast<uint8_t>(c);
      std::vector<std::pair<uint64_t, std::string>> batches;
      {
        const std::lock_guard lock(mutex);
        requests.push_back(from);
        const size_t keep = std::min<size_t>(script.buffer, buffer.size());
        batches.assign(buffer.end() - static_cast<ptrdiff_t>(keep), buffer.end());
      }
      if (!Answer(router, request[0], from, batches)) {
        zmq_close(router);
        router = OpenReplay();
      }
    }
    zmq_close(router);
  }

  // False: the script cuts the connection.
  bool Answer(void* router, const std::string& client, uint64_t from,
              const std::vector<std::pair<uint64_t, std::string>>& batches) {
    if (!script.answers) return true;
    if (script.garbage_replies > 0) {
      --script.garbage_replies;
      SendAll(router, {client, "", "nonsense", "a", "b", "c"});
      return true;
    }
    size_t sent = 0;
    for (const auto& [sequence, payload] : batches) {
      if (sequence < from) continue;
      if (sent == script.cut_after) {
        script.cut_after = ~size_t{0};
        while (!script.cut && !stopping) LetTimePass(std::chrono::milliseconds(1));
        return false;
      }
      if (sent == script.pause_after) {
        script.pause_after = ~size_t{0};
        while (!script.resume && !stopping) LetTimePass(std::chrono::milliseconds(1));
      }
      ++sent;
      std::vector<std::string> frames{client, ""};
      if (script.replay_topic) frames.push_back("kv-events");
      frames.push_back(SequenceFrame(sequence));
      frames.push_back(payload);
      SendAll(router, frames);
    }
    if (script.end_marker) SendAll(router, {client, "", SequenceFrame(~uint64_t{0}), ""});
    return true;
  }

  Script& script;
  void* const context;
  void* publisher = nullptr;
  std::string address;
  std::string replay_address;
  std::atomic<bool> stopping{false};
  std::thread replays;

  std::mutex mutex;
  bool ready = false;
  std::vector<std::pair<uint64_t, std::string>> buffer;
  std::vector<uint64_t> requests;
  uint64_t next = 0;
};

FakePublisher::FakePublisher(bool has_replay, const std::string& address,
                             const std::string& replay_address)
    : impl_(std::make_unique<Impl>(script)) {
  // XPUB is a PUB that can see who subscribes.
  impl_->publisher = zmq_socket(impl_->context, ZMQ_XPUB);
  constexpr int kVerbose = 1;
  zmq_setsockopt(impl_->publisher, ZMQ_XPUB_VERBOSE, &kVerbose, sizeof kVerbose);
  constexpr int kHighWater = 100'000;
  zmq_setsockopt(impl_->publisher, ZMQ_SNDHWM, &kHighWater, sizeof kHighWater);
  constexpr int kNow = 0;
  zmq_setsockopt(impl_->publisher, ZMQ_LINGER, &kNow, sizeof kNow);
  impl_->address = Impl::Bind(impl_->publisher, address);
  if (!has_replay) return;
  impl_->replay_address = replay_address;
  impl_->replays = std::thread([impl = impl_.get()] { impl->ServeReplays(); });
  Eventually([this] {
    const std::lock_guard lock(impl_->mutex);
    return impl_->ready;
  });
}

FakePublisher::~FakePublisher() {
  impl_->stopping = true;
  if (impl_->replays.joinable()) impl_->replays.join();
  zmq_close(impl_->publisher);
  zmq_ctx_term(impl_->context);
}

const std::string& FakePublisher::address() const { return impl_->address; }
const std::string& FakePublisher::replay_address() const { return impl_->replay_address; }

bool FakePublisher::WaitForSubscriber() {
  return Eventually([this] {
    const std::vector<std::string> said = ReceiveAll(impl_->publisher);
    return !said.empty() && said[0].starts_with('\x01');
  });
}

void FakePublisher::Publish(const std::string& payload, bool lost) {
  uint64_t sequence;
  {
    const std::lock_guard lock(impl_->mutex);
    sequence = impl_->next++;
    impl_->buffer.emplace_back(sequence, payload);
  }
  if (!lost) SendFrames({"kv-events", SequenceFrame(sequence), payload});
}

void FakePublisher::SendFrames(const std::vector<std::string>& frames) {
  SendAll(impl_->publisher, frames);
}

uint64_t FakePublisher::next_sequence() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->next;
}

void FakePublisher::set_next_sequence(uint64_t sequence) {
  const std::lock_guard lock(impl_->mutex);
  impl_->next = sequence;
}

std::vector<uint64_t> FakePublisher::requests() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->requests;
}

}  // namespace ember::router
