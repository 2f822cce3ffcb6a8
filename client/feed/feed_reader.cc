#include "client/feed/feed_reader.h"

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "client/feed/feed_tracker.h"
#include "proto/base/time.h"
#include "proto/rpc/store.grpc.pb.h"

namespace ember {
namespace {

constexpr Duration kFirstPause = milliseconds(100);
constexpr Duration kLongestPause = seconds(2);

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // nodes are neighbours
  // A node that is back must be found within our own pauses; one that froze must be noticed.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

struct FeedReader::Impl {
  Impl(const std::string& address, FeedListener& listener_in, AfterLoss after_loss_in)
      : listener(listener_in),
        after_loss(after_loss_in),
        tracker(listener_in),
        stub(rpc::StoreControl::NewStub(ChannelTo(address))) {}

  void Run() {
    Duration pause = kFirstPause;
    for (;;) {
      bool heard = false;
      const Status why = Follow(&heard);
      std::unique_lock lock(mutex);
      if (stopping) return;
      lock.unlock();
      listener.OnLost(why);
      if (after_loss == AfterLoss::kSnapshot) tracker.Forget();
      lock.lock();
      if (heard) pause = kFirstPause;
      if (changed.wait_for(lock, pause, [this] { return stopping; })) return;
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  // One stream from its start to its end, which is why it returns.
  Status Follow(bool* heard) {
    grpc::ClientContext own;
    {
      const std::lock_guard lock(mutex);
      if (stopping) return CancelledError("stopping");
      context = &own;
    }
    const auto reader = stub->Watch(&own, tracker.Resume());
    rpc::FeedBatch batch;
    Status why;
    while (why.ok() && reader->Read(&batch)) {
      *heard = true;
      why = tracker.Take(batch);
      if (why.ok()) listener.OnBatchEnd();
    }
    if (!why.ok()) own.TryCancel();
    const grpc::Status end = reader->Finish();
    {
      const std::lock_guard lock(mutex);
      context = nullptr;
    }
    if (!why.ok()) return why;
    return UnavailableError(end.ok() ? "the node ended the feed" : end.error_message());
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      if (context != nullptr) context->TryCancel();
      changed.notify_all();
    }
    thread.join();
  }

  FeedListener& listener;
  const AfterLoss after_loss;
  FeedTracker tracker;
  const std::unique_ptr<rpc::StoreControl::Stub> stub;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  grpc::ClientContext* context = nullptr;  // of the stream being read
  std::thread thread;
};

FeedReader::FeedReader(const std::string& address, FeedListener& listener, AfterLoss after_loss)
    : impl_(std::make_unique<Impl>(address, listener, after_loss)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->Run(); });
}

FeedReader::~FeedReader() { impl_->Stop(); }

}  // namespace ember
