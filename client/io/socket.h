// Making and setting up TCP sockets, the same for both back ends. `flags` are those of socket(2):
// SOCK_NONBLOCK for epoll, none for io_uring (which would else report EAGAIN instead of waiting).
#pragma once

#include <string_view>

#include "client/io/file_descriptor.h"
#include "client/io/socket_address.h"
#include "proto/base/status.h"

namespace ember::io {

// "what: system's reason", with the code that fits the error number: kCancelled for ECANCELED,
// kBusy when the process or system is out of something, else kUnavailable.
Status ErrnoStatus(std::string_view what, int error);

Result<FileDescriptor> OpenSocket(int family, int flags);
// Bound and listening; the first address of the endpoint that can be bound. Waits up to two seconds
// for a port that is in use.
Result<FileDescriptor> OpenListenSocket(const Endpoint& endpoint, int flags);
// Of a connected one. Small frames don't wait for acknowledgements of earlier ones; and within one
// host nothing is paced, whatever the system's congestion control does on networks.
void SetUpStream(int fd);
uint16_t LocalPort(int fd);
// A connect from the ephemeral range to a free port of the same range can meet itself (TCP's
// simultaneous open); such a connection has no server behind it.
bool IsConnectedToItself(int fd);

}  // namespace ember::io
