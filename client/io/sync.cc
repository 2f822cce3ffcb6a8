#include "client/io/sync.h"

namespace ember::io {

LoopThread::LoopThread(std::unique_ptr<Loop> loop)
    : loop_(std::move(loop)), thread_([this] { loop_->Run(); }) {}

Result<std::unique_ptr<LoopThread>> LoopThread::Make(Backend backend, std::string* fallback_reason,
                                                     Duration spin) {
  Result<std::unique_ptr<Loop>> loop = MakeLoop(backend, fallback_reason);
  if (!loop.ok()) return loop.status();
  (*loop)->set_spin(spin);
  return std::make_unique<LoopThread>(*std::move(loop));
}

LoopThread::~LoopThread() {
  loop_->Stop();
  thread_.join();
}

}  // namespace ember::io
