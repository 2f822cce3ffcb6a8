#include "client/agent/slot_keeper.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/post.hpp>

namespace ember::agent {

namespace asio = boost::asio;

void SlotKeeper::Keep(KeepJob job) { loop_.Spawn(Run(std::move(job))); }

asio::awaitable<void> SlotKeeper::Run(KeepJob job) {
  job.lease.BeginEnding();
  if (job.identity == nullptr) {
    job.lease.SetContent({});
    co_return;
  }
  Result<std::shared_ptr<const SavedSlot>> saved = co_await Save(job);
  if (!saved.ok()) {
    spdlog::warn("request {}: slot {} is not known any more: {}", job.record->id, job.lease.slot(),
                 saved.status().ToString());
    job.record->notes.push_back(saved.status().ToString());
    job.lease.SetContent({});
    co_return;
  }
  const std::span<const TokenId> tokens = (*saved)->file().tokens();
  job.lease.SetContent({true, {tokens.begin(), tokens.end()}});
  job.lease.Release();
  if (job.push && pusher_ != nullptr) Push(job, *std::move(saved));
}

asio::awaitable<Result<std::shared_ptr<const SavedSlot>>> SlotKeeper::Save(KeepJob& job) {
  const TimePoint start = std::chrono::steady_clock::now();
  const std::string name = folder_.NewSaveName();
  const Result<SlotAction> action = co_await engine_.SaveSlot(job.lease.slot(), name);
  if (!action.ok()) {
    folder_.Remove(name);
    metrics_.Failure(CacheFailure::kSaveFailed).Add();
    if (action.status().code() == StatusCode::kUnavailable) {
      monitor_.NoteEngineGone(action.status().message());
    }
    co_return action.status();
  }
  Result<std::shared_ptr<const SavedSlot>> saved = SavedSlot::Take(folder_, name);
  job.record->save_ms = ToMilliseconds(std::chrono::steady_clock::now() - start);
  metrics_.save.Observe(job.record->save_ms / 1e3);
  Status status = saved.status();
  if (status.ok()) {
    const SlotFile& file = (*saved)->file();
    if (!file.tokens().empty() && file.shape() != job.identity->shape) {
      status = MismatchError("saved slot: another shape than at the start");
    } else if (file.tokens().size() + 1 >= job.identity->props.context_tokens) {
      // Full: the engine may have shifted it, which leaves KV that no prefix would give.
      status = MismatchError("saved slot: the context is full");
    } else if (CommonPrefix(file.tokens(), *job.prompt) <
               std::min(file.tokens().size(), job.prompt->size())) {
      metrics_.Failure(CacheFailure::kTokensDiffer).Add();
      job.record->notes.push_back("the slot holds other tokens than the prompt's");
    }
  }
  if (!status.ok()) {
    metrics_.Failure(CacheFailure::kSaveRefused).Add();
    co_return status;
  }
  co_return saved;
}

void SlotKeeper::Push(const KeepJob& job, std::shared_ptr<const SavedSlot> saved) {
  HashChain chain(job.identity->root, kTokensPerBlock);
  chain.Append(saved->file().tokens());
  PushJob push{job.identity, std::move(saved), CutSegments(chain), nullptr};
  if (push.refs.empty()) return;
  push.on_done = [executor = loop_.executor(), record = job.record](const PushResult& result) {
    asio::post(executor, [record, result] {
      record->pushed_segments = result.segments;
      record->pushed_bytes = result.bytes;
      record->push_ms = result.milliseconds;
    });
  };
  pusher_->Push(std::move(push));
}

}  // namespace ember::agent
