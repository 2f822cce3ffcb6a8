#include "kvstore/server/arena_door.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "proto/wire/arena_offer.h"

namespace ember::kv {
namespace {

constexpr int kBacklog = 64;
constexpr int kPauseMs = 50;  // when the process is out of descriptors

Status SystemError(const std::string& what) {
  return UnavailableError(what + ": " + std::strerror(errno));
}

// A socket of a node that is no more; anything else there isn't ours to remove.
Status RemoveStale(const std::string& path) {
  struct stat found {};
  if (lstat(path.c_str(), &found) != 0) return errno == ENOENT ? OkStatus() : SystemError(path);
  if (!S_ISSOCK(found.st_mode)) return UnavailableError(path + " is in the way");
  return unlink(path.c_str()) == 0 ? OkStatus() : SystemError("remove " + path);
}

Result<io::FileDescriptor> ListenAt(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return InvalidError(path + " is too long for a socket's name: at most " +
                        std::to_string(sizeof address.sun_path - 1) + " bytes");
  }
  path.copy(address.sun_path, path.size());
  EMBER_RETURN_IF_ERROR(RemoveStale(path));
  io::FileDescriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return SystemError("socket");
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return SystemError("bind " + path);
  }
  // Before listen: nobody gets in meanwhile.
  if (chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0) return SystemError("chmod " + path);
  if (listen(fd.get(), kBacklog) != 0) return SystemError("listen on " + path);
  return fd;
}

bool MayRead(int connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

// The socket's buffer takes so few bytes at once; a peer that is gone already is no failure.
void Send(int connection, ByteSpan offer, int memory) {
  iovec bytes{const_cast<std::byte*>(offer.data()), offer.size()};
  alignas(cmsghdr) std::byte control[CMSG_SPACE(sizeof memory)]{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof memory);
  std::memcpy(CMSG_DATA(rights), &memory, sizeof memory);
  (void)sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

Result<std::unique_ptr<ArenaDoor>> ArenaDoor::Open(const ArenaDoorOptions& options,
                                                   std::vector<SharedArena> arenas,
                                                   MetricsRegistry* metrics) {
  std::unique_ptr<ArenaDoor> door(new ArenaDoor(metrics));
  EMBER_RETURN_IF_ERROR(door->Lock(options));
  for (uint32_t shard = 0; shard < arenas.size(); ++shard) {
    EMBER_RETURN_IF_ERROR(door->Listen(options, shard, std::move(arenas[shard])));
  }
  door->wake_ = io::FileDescriptor(eventfd(0, EFD_CLOEXEC));
  if (!door->wake_.valid()) return SystemError("eventfd");
  door->thread_ = std::thread([raw = door.get()] { raw->Run(); });
  return door;
}

ArenaDoor::ArenaDoor(MetricsRegistry* metrics)
    : clients_(metrics->AddCounter("ember_store_shm_clients_total",
                                   "Times a shard's memory was handed to a client on this host")),
      refused_(metrics->AddCounter("ember_store_shm_refused_total",
                                   "Processes of another user that asked for the memory")) {}

ArenaDoor::~ArenaDoor() {
  if (thread_.joinable()) {
    EMBER_CHECK(eventfd_write(wake_.get(), 1) == 0, "waking the door's thread");
    thread_.join();
  }
  for (const Socket& socket : sockets_) (void)unlink(socket.path.c_str());
}

// Held while the node lives, however it ends; so a socket found under it is that of a dead one.
Status ArenaDoor::Lock(const ArenaDoorOptions& options) {
  const std::string path = options.folder + "/ember-" + options.node_id + ".lock";
  lock_ = io::FileDescriptor(
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!lock_.valid()) return SystemError("open " + path);
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return OkStatus();
  if (errno != EWOULDBLOCK) return SystemError("lock " + path);
  return UnavailableError("a live node named " + options.node_id + " holds " + path +
                          "; give this one another --node-id or --shm-dir");
}

Status ArenaDoor::Listen(const ArenaDoorOptions& options, uint32_t shard, SharedArena arena) {
  std::string path = options.folder + "/" + wire::ArenaSocketName(options.node_id, shard);
  Result<io::FileDescriptor> listener = ListenAt(path);
  if (!listener.ok()) return listener.status();
  const wire::ArenaOffer offer{options.incarnation, shard, arena.capacity};
  sockets_.push_back(
      {std::move(path), *std::move(listener), std::move(arena.memory), Encode(offer)});
  return OkStatus();
}

void ArenaDoor::Run() {
  std::vector<pollfd> waiting{{wake_.get(), POLLIN, 0}};
  for (const Socket& socket : sockets_) waiting.push_back({socket.listener.get(), POLLIN, 0});
  for (;;) {
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) {
      spdlog::error("shared memory is offered no more error=\"{}\"", std::strerror(errno));
      return;
    }
    if (waiting[0].revents != 0) return;
    for (size_t i = 0; i < sockets_.size(); ++i) {
      if (waiting[i + 1].revents != 0 && !Answer(sockets_[i])) {
        (void)poll(waiting.data(), 1, kPauseMs);
      }
    }
  }
}

// False when the system can't take a connection now.
bool ArenaDoor::Answer(const Socket& socket) {
  io::FileDescriptor connection(accept4(socket.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection.valid()) return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
  if (!MayRead(connection.get())) {
    refused_.Add();
    return true;
  }
  Send(connection.get(), socket.offer, socket.memory.get());
  clients_.Add();
  return true;
}

}  // namespace ember::kv
