#include "client/cluster/mapped_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "client/io/file_descriptor.h"
#include "proto/wire/arena_offer.h"

namespace ember::cluster {
namespace {

constexpr Duration kFirstPause = microseconds(100);
constexpr Duration kLongestPause = milliseconds(5);

Status SystemError(std::string_view what) {
  return UnavailableError(std::string(what) + ": " + std::strerror(errno));
}

Status CheckPath(const wire::HelloReply& hello) {
  const std::string name = "/" + wire::ArenaSocketName(hello.node_id, hello.shard);
  if (hello.shm_path.starts_with('/') && hello.shm_path.ends_with(name)) return OkStatus();
  return MismatchError("\"" + hello.shm_path + "\" is not the name of this node's socket");
}

// Whoever gives us memory to read must be as trusted as we are.
Status CheckServer(int fd) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return SystemError("peer");
  if (peer.uid == geteuid() || peer.uid == 0) return OkStatus();
  return MismatchError("the socket belongs to user " + std::to_string(peer.uid));
}

Result<io::FileDescriptor> ConnectTo(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return InvalidError("its name is too long");
  path.copy(address.sun_path, path.size());
  io::FileDescriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return SystemError("socket");
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return SystemError("connect");
  }
  EMBER_RETURN_IF_ERROR(CheckServer(fd.get()));
  return fd;
}

struct Handover {
  wire::ArenaOffer offer;
  io::FileDescriptor memory;
};

// Takes every descriptor that came, so that none is leaked; keeps one.
io::FileDescriptor TakeDescriptors(msghdr* message) {
  io::FileDescriptor kept;
  for (cmsghdr* c = CMSG_FIRSTHDR(message); c != nullptr; c = CMSG_NXTHDR(message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
      kept = io::FileDescriptor(fd);
    }
  }
  return kept;
}

// Nothing while nothing has come.
Result<std::optional<Handover>> Receive(int fd) {
  std::array<std::byte, wire::kArenaOfferBytes + 1> bytes;  // a longer one is seen to be longer
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(4 * sizeof(int))> control;
  iovec vector{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return std::optional<Handover>();
  if (n < 0) return SystemError("read");
  Handover handover;
  handover.memory = TakeDescriptors(&message);
  if (n == 0) return UnavailableError("the node closed: it does not let this process in");
  Result<wire::ArenaOffer> offer =
      wire::DecodeArenaOffer(ByteSpan(bytes).first(static_cast<size_t>(n)));
  if (!offer.ok()) return offer.status();
  handover.offer = *offer;
  return std::optional(std::move(handover));
}

Status CheckHandover(const Handover& handover, const wire::HelloReply& hello) {
  const wire::ArenaOffer& offer = handover.offer;
  if (offer.incarnation != hello.incarnation || offer.shard != hello.shard) {
    return MismatchError("it is the memory of another node, or of its life before");
  }
  if (!handover.memory.valid()) return MismatchError("no memory came with the offer");
  struct stat found {};
  if (fstat(handover.memory.get(), &found) != 0) return SystemError("fstat");
  // A file that shrinks under a mapping kills its readers. Only memory files can be sealed.
  const int seals = fcntl(handover.memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return MismatchError("it could shrink");
  if (offer.capacity == 0 || found.st_size < 0 ||
      static_cast<uint64_t>(found.st_size) < offer.capacity) {
    return MismatchError("it is shorter than the node says");
  }
  return OkStatus();
}

}  // namespace

io::Task<Result<std::shared_ptr<const MappedArena>>> MappedArena::Map(io::Loop& loop,
                                                                      wire::HelloReply hello,
                                                                      Duration timeout) {
  const TimePoint deadline = loop.Now() + timeout;
  const std::string what = "shared memory at " + hello.shm_path;
  EMBER_CO_RETURN_IF_ERROR(CheckPath(hello).WithContext(what));
  Result<io::FileDescriptor> socket = ConnectTo(hello.shm_path);
  if (!socket.ok()) co_return socket.status().WithContext(what);
  std::optional<Handover> handover;
  for (Duration pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    // Loops know no descriptors in messages, and this happens once a node: so it is asked for.
    co_await loop.Sleep(pause);
    Result<std::optional<Handover>> received = Receive(socket->get());
    if (!received.ok()) co_return received.status().WithContext(what);
    handover = *std::move(received);
    if (handover) break;
    if (loop.Now() >= deadline) co_return DeadlineError(what + ": no offer came");
  }
  EMBER_CO_RETURN_IF_ERROR(CheckHandover(*handover, hello).WithContext(what));
  const wire::ArenaOffer& offer = handover->offer;
  // Pages are not asked for in advance: that would take memory for what the node has not used yet.
  void* base = mmap(nullptr, offer.capacity, PROT_READ, MAP_SHARED | MAP_NORESERVE,
                    handover->memory.get(), 0);
  if (base == MAP_FAILED) co_return SystemError("map " + what);
  // As the node itself: other people's prompts don't belong in core dumps.
  (void)madvise(base, offer.capacity, MADV_DONTDUMP);
  co_return std::shared_ptr<const MappedArena>(new MappedArena(
      offer.incarnation, offer.shard, static_cast<const std::byte*>(base), offer.capacity));
}

MappedArena::~MappedArena() { munmap(const_cast<std::byte*>(base_), capacity_); }

std::optional<ByteSpan> MappedArena::At(const wire::ArenaPlace& place) const {
  if (place.offset > capacity_ || place.length > capacity_ - place.offset) return std::nullopt;
  return ByteSpan(base_ + place.offset, place.length);
}

}  // namespace ember::cluster
