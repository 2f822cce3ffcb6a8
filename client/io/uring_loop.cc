#include "client/io/uring_loop.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "client/io/back_ends.h"
#include "client/io/socket.h"
#include "client/io/uring_file.h"
#include "client/io/uring_listener.h"
#include "client/io/uring_stream.h"

namespace ember::io {
namespace {

constexpr unsigned kSubmissionEntries = 1024;
constexpr unsigned kCompletionEntries = 8192;
// The kernel's limits: a GiB a registered buffer (larger memory becomes several, and I/O across
// the seam of two goes the plain way); the number is ours, a TiB in all.
constexpr size_t kMaxBufferBytes = size_t{1} << 30;
constexpr unsigned kMaxBuffers = 1024;
// Of one loop; others are woken by their descriptors.
constexpr size_t kMaxPeers = 1024;
// Bounds the attempts to hand over a full submission queue while the kernel says that it is busy.
constexpr int kMaxSubmitAttempts = 10000;

// Best first. R_DISABLED binds the ring to the thread inside Run instead of the one that made it.
constexpr std::array<unsigned, 3> kSetupFlags = {
    IORING_SETUP_R_DISABLED | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
        IORING_SETUP_COOP_TASKRUN,
    IORING_SETUP_R_DISABLED | IORING_SETUP_COOP_TASKRUN,
    IORING_SETUP_R_DISABLED,
};
// Waiting with a time-out, polling instead of worker threads, no completion ever lost: Linux 5.11.
constexpr unsigned kNeededFeatures =
    IORING_FEAT_EXT_ARG | IORING_FEAT_FAST_POLL | IORING_FEAT_NODROP;

// User data that names no operation. Addresses are aligned, so their lowest bits are 0.
constexpr uint64_t kIgnored = 0;
constexpr uint64_t kWake = 1;           // our wake-up descriptor is readable
constexpr uint64_t kMessage = 2;        // another ring's message came
constexpr uint64_t kFailedMessage = 3;  // plus eight times the peer's number

// The loop that this thread runs.
thread_local UringLoop* running_loop = nullptr;

bool IsTransient(int rc) {
  return rc == -EINTR || rc == -ETIME || rc == -EAGAIN || rc == -EBUSY || rc == -ENOMEM;
}

// Each of the three system calls may be refused on its own.
Status CheckUsable(const io_uring& ring) {
  if ((ring.features & kNeededFeatures) != kNeededFeatures) {
    return UnavailableError("io_uring_setup: the kernel is too old (5.11 is needed)");
  }
  alignas(io_uring_probe) std::array<std::byte, sizeof(io_uring_probe)> probe{};
  int rc = io_uring_register(ring.ring_fd, IORING_REGISTER_PROBE, probe.data(), 0);
  if (rc < 0) return ErrnoStatus("io_uring_register", -rc);
  rc = io_uring_enter(ring.ring_fd, 0, 0, 0, nullptr);
  // EBADFD: the ring is disabled still.
  return rc == -EBADFD ? OkStatus() : ErrnoStatus("io_uring_enter", -rc);
}

Status InitRing(io_uring* ring) {
  int rc = -EINVAL;
  for (unsigned flags : kSetupFlags) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    params.cq_entries = kCompletionEntries;
    rc = io_uring_queue_init_params(kSubmissionEntries, ring, &params);
    // EINVAL: a flag this kernel doesn't know.
    if (rc != -EINVAL) break;
  }
  if (rc < 0) return ErrnoStatus("io_uring_setup", -rc);
  const Status usable = CheckUsable(*ring);
  if (!usable.ok()) io_uring_queue_exit(ring);
  return usable;
}

bool HasMessages(io_uring& ring) {
  io_uring_probe* const probe = io_uring_get_probe_ring(&ring);
  const bool has = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_MSG_RING) != 0;
  io_uring_free_probe(probe);
  return has;
}

FileDescriptor Duplicate(int fd) { return FileDescriptor(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

}  // namespace

Result<std::unique_ptr<Loop>> MakeUringLoop() {
  Result<FileDescriptor> wake = PostQueue::MakeWakeDescriptor();
  if (!wake.ok()) return wake.status();
  io_uring ring;
  EMBER_RETURN_IF_ERROR(InitRing(&ring));
  RingAddress address{Duplicate(ring.ring_fd), Duplicate(wake->get())};
  if (!address.ring.valid() || !address.wake.valid()) {
    io_uring_queue_exit(&ring);
    return BusyError("the process is out of descriptors");
  }
  return std::unique_ptr<Loop>(new UringLoop(*std::move(wake), ring, std::move(address)));
}

UringLoop::UringLoop(FileDescriptor wake, const io_uring& ring, RingAddress address)
    : LoopBase(std::move(wake)),
      ring_(ring),
      address_(std::make_shared<const RingAddress>(std::move(address))),
      messages_work_(HasMessages(ring_)) {}

UringLoop::~UringLoop() { io_uring_queue_exit(&ring_); }

void UringLoop::Start() {
  // Not io_uring_enable_rings: liburing 2.3 declares it but its shared library doesn't export it.
  const int rc = io_uring_register(ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  EMBER_CHECK(rc == 0, "enabling the ring; Run is called once");
}

void UringLoop::Enter() { running_loop = this; }

void UringLoop::Leave() {
  running_loop = nullptr;
  // Messages that have failed.
  io_uring_submit_and_get_events(&ring_);
  Reap();
}

void UringLoop::Wake() {
  if (running_loop != nullptr && running_loop != this && running_loop->messages_work_) {
    running_loop->SendMessage(address_);
  } else {
    posts_.Wake();
  }
}

void UringLoop::SendMessage(const std::shared_ptr<const RingAddress>& to) {
  const auto [peer, is_new] = peer_numbers_.try_emplace(to.get(), peers_.size());
  if (is_new) {
    peers_.push_back(to);
    if (peers_.size() == kMaxPeers) messages_work_ = false;
  }
  io_uring_sqe* entry = NextEntry();
  io_uring_prep_msg_ring(entry, to->ring.get(), 0, kMessage, 0);
  io_uring_sqe_set_data64(entry, kFailedMessage + peer->second * 8);
  // Success needs no completion here, which would only wake the sender.
  entry->flags |= IOSQE_CQE_SKIP_SUCCESS;
  // Now: this thread may be about to wait for what it has posted.
  io_uring_submit(&ring_);
}

void UringLoop::OnMessageFailed(uint64_t peer, int error) {
  // EBADFD: that loop doesn't run yet. Else a sandbox allows no messages between rings.
  if (error != -EBADFD) messages_work_ = false;
  PostQueue::Wake(peers_[peer]->wake.get());
}

io_uring_sqe* UringLoop::NextEntry() {
  for (int attempt = 0; attempt < kMaxSubmitAttempts; ++attempt) {
    if (io_uring_sqe* entry = io_uring_get_sqe(&ring_)) return entry;
    const int rc = io_uring_submit(&ring_);
    EMBER_CHECK(rc >= 0 || IsTransient(rc), "io_uring_submit; too many operations before Run");
    // Only collects, so it is safe inside a coroutine; and a full completion queue blocks
    // submission.
    if (rc < 0) Reap();
  }
  EMBER_CHECK(false, "the kernel takes no submissions");
  return nullptr;
}

void UringLoop::Track(UringOperation* operation, io_uring_sqe* entry) {
  io_uring_sqe_set_data(entry, operation);
  if (operation->slot != nullptr) {
    EMBER_CHECK(*operation->slot == nullptr, "one read and one write at a time");
    *operation->slot = operation;
  }
  operation->next = pending_;
  if (pending_ != nullptr) pending_->previous = operation;
  pending_ = operation;
  AddSuspended();
}

void UringLoop::Complete(UringOperation* operation, int result) {
  operation->result = result;
  if (operation->slot != nullptr) *operation->slot = nullptr;
  (operation->previous != nullptr ? operation->previous->next : pending_) = operation->next;
  if (operation->next != nullptr) operation->next->previous = operation->previous;
  RemoveSuspended();
  Enqueue(operation->waiter);
}

void UringLoop::Reap() {
  unsigned head = 0;
  unsigned count = 0;
  io_uring_cqe* entry = nullptr;
  io_uring_for_each_cqe(&ring_, head, entry) {
    ++count;
    if (entry->user_data == kIgnored || entry->user_data == kMessage) continue;
    if (entry->user_data == kWake) {
      wake_armed_ = false;
      posts_.ClearWake();
    } else if (entry->user_data % 8 == kFailedMessage) {
      OnMessageFailed(entry->user_data / 8, entry->res);
    } else {
      Complete(static_cast<UringOperation*>(io_uring_cqe_get_data(entry)), entry->res);
    }
  }
  io_uring_cq_advance(&ring_, count);
}

void UringLoop::Poll(std::optional<Duration> timeout) {
  if (!wake_armed_) {
    io_uring_sqe* entry = NextEntry();
    io_uring_prep_poll_add(entry, posts_.wake_fd(), POLLIN);
    io_uring_sqe_set_data64(entry, kWake);
    wake_armed_ = true;
  }
  // Every entry is with the kernel before anybody is resumed; so a cancellation is never submitted
  // after its operation's frame has gone and the address belongs to another one.
  for (int attempt = 0; attempt == 0 || io_uring_sq_ready(&ring_) > 0; ++attempt) {
    EMBER_CHECK(attempt < kMaxSubmitAttempts, "the kernel takes no submissions");
    int rc = 0;
    if (timeout && *timeout == Duration::zero()) {
      rc = io_uring_submit_and_get_events(&ring_);
    } else {
      __kernel_timespec wait{};
      wait.tv_sec = timeout ? *timeout / seconds(1) : 0;
      wait.tv_nsec = timeout ? (*timeout % seconds(1)).count() : 0;
      io_uring_cqe* first = nullptr;
      rc = io_uring_submit_and_wait_timeout(&ring_, &first, 1, timeout ? &wait : nullptr, nullptr);
    }
    EMBER_CHECK(rc >= 0 || IsTransient(rc), "io_uring_enter");
    Reap();
    timeout = Duration::zero();
  }
}

void UringLoop::Cancel(UringOperation* operation) {
  if (operation == nullptr) return;
  io_uring_sqe* entry = NextEntry();
  io_uring_prep_cancel(entry, operation, 0);
  io_uring_sqe_set_data64(entry, kIgnored);
}

bool UringLoop::CancelPending() {
  // Cancel may reap, which changes the list; what it misses is cancelled in the next round.
  for (UringOperation* operation = pending_; operation != nullptr;) {
    UringOperation* const next = operation->next;
    Cancel(operation);
    operation = next;
  }
  return pending_ != nullptr;
}

Status UringLoop::RegisterMemory(MutableByteSpan memory) {
  for (; !memory.empty(); memory = memory.subspan(std::min(memory.size(), kMaxBufferBytes))) {
    const MutableByteSpan buffer = memory.first(std::min(memory.size(), kMaxBufferBytes));
    EMBER_RETURN_IF_ERROR(RegisterBuffer(buffer).WithContext("register memory with io_uring"));
  }
  return OkStatus();
}

Status UringLoop::RegisterBuffer(MutableByteSpan buffer) {
  if (memory_.count() == 0) {
    // EBUSY: the table is there from an attempt that failed later.
    const int rc = io_uring_register_buffers_sparse(&ring_, kMaxBuffers);
    if (rc < 0 && rc != -EBUSY) return FileStatus("table", -rc);
  }
  if (memory_.count() == kMaxBuffers) return BusyError("the table is full");
  const auto number = static_cast<unsigned>(memory_.count());
  const iovec vector{buffer.data(), buffer.size()};
  const __u64 tag = 0;
  const int rc = io_uring_register_buffers_update_tag(&ring_, number, &vector, &tag, 1);
  if (rc < 0) return FileStatus("buffer", -rc);
  memory_.Add(buffer, static_cast<int>(number));
  return OkStatus();
}

std::unique_ptr<File> UringLoop::AdoptFile(FileDescriptor fd, std::string path, bool direct) {
  return std::make_unique<UringFile>(this, std::move(fd), std::move(path), direct);
}

std::unique_ptr<Stream> UringLoop::AdoptStream(FileDescriptor fd, std::string peer_name) {
  SetUpStream(fd.get());
  return std::make_unique<UringStream>(this, std::move(fd), std::move(peer_name));
}

Result<std::unique_ptr<Listener>> UringLoop::AdoptListener(FileDescriptor fd) {
  return std::unique_ptr<Listener>(std::make_unique<UringListener>(this, std::move(fd)));
}

Task<Result<std::unique_ptr<Stream>>> UringLoop::ConnectSocket(FileDescriptor fd,
                                                               const SocketAddress& address,
                                                               TimePoint deadline) {
  UringOperation* connecting = nullptr;
  bool late = false;
  const auto timer = StartTimer(deadline, [&] {
    late = true;
    Cancel(connecting);
  });
  const int rc = co_await Perform(&connecting, [&](io_uring_sqe* entry) {
    io_uring_prep_connect(entry, fd.get(), address.get(), address.length);
  });
  if (rc == 0) co_return AdoptStream(std::move(fd), address.ToString());
  if (late) co_return DeadlineError("timed out");
  co_return ErrnoStatus("connect", -rc);
}

}  // namespace ember::io
