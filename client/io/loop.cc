#include "client/io/loop.h"

#include "client/io/back_ends.h"

namespace ember::io {

void Loop::RunUntil(const std::function<bool()>& /*done*/) {
  EMBER_CHECK(false, "this loop stays on one thread");
}

bool Loop::HasWork() {
  EMBER_CHECK(false, "this loop stays on one thread");
  return false;
}

Result<std::unique_ptr<Loop>> MakeLoop(Backend backend, std::string* fallback_reason) {
  if (fallback_reason != nullptr) fallback_reason->clear();
  if (backend == Backend::kEpoll) return MakeEpollLoop();
  Result<std::unique_ptr<Loop>> loop = MakeUringLoop();
  if (loop.ok() || backend == Backend::kUring) return loop;
  if (fallback_reason != nullptr) *fallback_reason = loop.status().message();
  return MakeEpollLoop();
}

Result<Backend> ParseBackend(std::string_view text) {
  if (text == "auto") return Backend::kAuto;
  if (text == "uring") return Backend::kUring;
  if (text == "epoll") return Backend::kEpoll;
  return InvalidError("I/O back end \"" + std::string(text) + "\": one of auto, uring, epoll");
}

}  // namespace ember::io
