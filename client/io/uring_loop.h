// UringLoop: the io_uring back end. One ring for one thread.
//
// Operation: coroutines fill submission entries, Poll hands them all to the kernel in the system
// call that also waits, and completions name their UringOperation by address. A Post from another
// io_uring loop's thread wakes this one by a message from that ring to this: the same system call
// as writing an eventfd, and none here to read it.
#pragma once

#include <liburing.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "client/io/loop_base.h"
#include "client/io/registered_memory.h"
#include "client/io/ring_address.h"
#include "client/io/uring_operation.h"

namespace ember::io {

class UringLoop final : public LoopBase {
 public:
  // Takes an initialised ring, made with IORING_SETUP_R_DISABLED. `address` are duplicates of the
  // two descriptors.
  UringLoop(FileDescriptor wake, const io_uring& ring, RingAddress address);
  ~UringLoop() override;

  std::string_view backend() const override { return "uring"; }
  Status RegisterMemory(MutableByteSpan memory) override;
  std::unique_ptr<File> AdoptFile(FileDescriptor fd, std::string path, bool direct) override;

  // Submits what `prepare(io_uring_sqe*)` describes, suspends until it completes and gives its
  // result (a count, or a negative error number). `*slot` is the operation while it is pending.
  template <typename Prepare>
  auto Perform(UringOperation** slot, Prepare prepare) {
    struct Awaiter : UringOperation {
      UringLoop* loop;
      Prepare prepare;
      Awaiter(UringLoop* l, UringOperation** s, Prepare p) : loop(l), prepare(std::move(p)) {
        slot = s;
      }
      bool await_ready() { return false; }
      void await_suspend(std::coroutine_handle<> caller) {
        waiter = caller;
        io_uring_sqe* entry = loop->NextEntry();
        prepare(entry);
        loop->Track(this, entry);
      }
      int await_resume() { return result; }
    };
    return Awaiter(this, slot, std::move(prepare));
  }
  // Asks the kernel to end a pending operation; nullptr is none.
  void Cancel(UringOperation* operation);
  // The number of the registered buffer that holds all of `bytes`.
  std::optional<int> FindRegistered(ByteSpan bytes) const { return memory_.Find(bytes); }
  std::unique_ptr<Stream> AdoptStream(FileDescriptor fd, std::string peer_name);

 protected:
  void Start() override;
  void Enter() override;
  void Leave() override;
  void Wake() override;
  void Poll(std::optional<Duration> timeout) override;
  bool CancelPending() override;
  int socket_flags() const override { return 0; }
  Result<std::unique_ptr<Listener>> AdoptListener(FileDescriptor fd) override;
  Task<Result<std::unique_ptr<Stream>>> ConnectSocket(FileDescriptor fd,
                                                      const SocketAddress& address,
                                                      TimePoint deadline) override;

 private:
  io_uring_sqe* NextEntry();
  void Track(UringOperation* operation, io_uring_sqe* entry);
  void Reap();
  Status RegisterBuffer(MutableByteSpan buffer);
  void Complete(UringOperation* operation, int result);
  // Wakes another loop.
  void SendMessage(const std::shared_ptr<const RingAddress>& to);
  void OnMessageFailed(uint64_t peer, int error);

  io_uring ring_;
  const std::shared_ptr<const RingAddress> address_;
  bool wake_armed_ = false;
  UringOperation* pending_ = nullptr;
  RegisteredMemory memory_;
  // Loops that were sent messages, and their numbers. Kept open, since nothing tells when a message
  // has arrived.
  std::vector<std::shared_ptr<const RingAddress>> peers_;
  std::unordered_map<const RingAddress*, uint64_t> peer_numbers_;
  bool messages_work_;
};

}  // namespace ember::io
