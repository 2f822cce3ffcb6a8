#include "client/agent/engine_monitor.h"

#include <spdlog/spdlog.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "client/agent/saved_slot.h"

namespace ember::agent {

namespace asio = boost::asio;

namespace {
constexpr Duration kPollInterval = milliseconds(200);
constexpr Duration kRetryInterval = seconds(2);
constexpr Duration kProbeTimeout = seconds(60);
TimePoint Now() { return std::chrono::steady_clock::now(); }
}  // namespace

EngineMonitor::EngineMonitor(Options options, EngineClient& engine, SlotTable& slots,
                             const SlotFolder& folder, AgentMetrics& metrics,
                             std::function<void()> on_change)
    : options_(std::move(options)),
      engine_(engine),
      slots_(slots),
      folder_(folder),
      metrics_(metrics),
      on_change_(std::move(on_change)) {}

asio::awaitable<void> EngineMonitor::Run() {
  while (!stop_.cancelled()) {
    const Status status = co_await engine_.Health();
    if (!status.ok()) {
      if (healthy_) NoteEngineGone(status.message());
      if (!said_waiting_)
        spdlog::info("waiting for the engine at {}: {}", engine_.origin().ToString(),
                     status.message());
      said_waiting_ = true;
    } else {
      if (!healthy_) {
        spdlog::info("the engine at {} is there", engine_.origin().ToString());
        said_waiting_ = false;
        settled_ = false;
        settle_after_ = {};
      }
      if (!settled_ && Now() >= settle_after_) co_await Settle();
    }
    (void)co_await http::SleepFor(kPollInterval, &stop_);
  }
}

void EngineMonitor::NoteEngineGone(std::string_view how) {
  if (healthy_) {
    spdlog::warn("the engine is gone: {}", how);
    metrics_.engine_losses.Add();
  }
  healthy_ = false;
  NoteEngineChanged();
}

void EngineMonitor::NoteEngineChanged() {
  settled_ = false;
  settle_after_ = {};
  identity_ = nullptr;
  problem_ = "the engine's identity is being settled";
  slots_.DropAll();
  on_change_();
}

// What became known about an engine that has been answering. Slots are usable right away; the cache
// only once the identity is settled.
asio::awaitable<void> EngineMonitor::Settle() {
  settled_ = true;
  settling_ = true;
  settle_after_ = Now() + kRetryInterval;
  Result<EngineProps> props = co_await engine_.Props();
  if (!props.ok()) {
    if (props.status().code() == StatusCode::kMismatch) {
      SetIdentity(nullptr, props.status().ToString());
    } else {
      settled_ = false;
    }
    co_return;
  }
  uint32_t slots = props->slots;
  if (options_.slots > 0) slots = std::min(slots, options_.slots);
  slots_.Resize(slots);
  if (!model_) {  // reading it takes a while: serve meanwhile
    healthy_ = true;
    on_change_();
  }
  Result<EngineIdentity> identity = co_await FindIdentity(*props);
  if (identity.ok()) {
    SetIdentity(std::make_shared<const EngineIdentity>(*std::move(identity)), "");
  } else {
    // What is transient is tried again; a mismatch stays until the engine changes.
    settled_ = settled_ && identity.status().code() == StatusCode::kMismatch;
    SetIdentity(nullptr, identity.status().ToString());
  }
}

asio::awaitable<Status> EngineMonitor::ReadModel() {
  if (model_ && model_->Unchanged()) co_return OkStatus();
  asio::thread_pool reader(1);
  std::optional<Result<ModelFile>> read;
  co_await asio::co_spawn(
      reader,
      [&]() -> asio::awaitable<void> {
        read = ModelFile::Read(options_.model_file);
        co_return;
      },
      asio::use_awaitable);
  if (!read->ok()) co_return read->status();
  model_ = *std::move(*read);
  co_return OkStatus();
}

asio::awaitable<Result<EngineIdentity>> EngineMonitor::FindIdentity(const EngineProps& props) {
  EMBER_CO_RETURN_IF_ERROR(co_await ReadModel());
  Result<uint64_t> bytes = co_await engine_.ModelBytes();
  if (!bytes.ok()) co_return bytes.status();
  EMBER_CO_RETURN_IF_ERROR(CheckSameModel(*model_, props, *bytes));
  Result<bool> adapters = co_await engine_.HasAdapters();
  if (!adapters.ok()) co_return adapters.status();
  if (*adapters) co_return MismatchError("the engine has LoRA adapters loaded");
  Result<SlotShape> shape = co_await ProbeShape();
  if (!shape.ok()) co_return shape.status();
  co_return MakeIdentity(options_.identity, *model_, props, *shape);
}

asio::awaitable<Result<SlotShape>> EngineMonitor::ProbeShape() {
  Result<SlotTable::Lease> lease = co_await slots_.Acquire({}, 1, kProbeTimeout, nullptr);
  if (!lease.ok()) co_return lease.status();
  EMBER_CO_RETURN_IF_ERROR(co_await engine_.Probe(lease->slot()));
  const std::string name = folder_.NewSaveName();
  Result<SlotAction> saved = co_await engine_.SaveSlot(lease->slot(), name);
  if (!saved.ok()) {
    // Refused: the engine runs without --slot-save-path. It will not change its mind.
    co_return saved.status().code() == StatusCode::kInvalid
        ? MismatchError(std::string(saved.status().message()))
        : saved.status();
  }
  Result<std::shared_ptr<const SavedSlot>> slot = SavedSlot::Take(folder_, name);
  if (!slot.ok()) {
    if (slot.status().code() != StatusCode::kNotFound) co_return slot.status();
    co_return MismatchError("--slot-dir " + folder_.path() +
                            " is not the engine's --slot-save-path: what it saved is not there");
  }
  const SlotFile& file = (*slot)->file();
  if (file.tokens().empty()) co_return UnavailableError("the probed slot was empty");
  lease->SetContent({true, {file.tokens().begin(), file.tokens().end()}});
  co_return file.shape();
}

void EngineMonitor::SetIdentity(std::shared_ptr<const EngineIdentity> identity,
                                std::string problem) {
  if (identity != nullptr) {
    spdlog::info("cache on: namespace {}, build {}, {} slots, {} bytes a token",
                 ToHex(identity->root.id.bytes), identity->props.build, slots_.size(),
                 identity->shape.BytesPerToken());
  } else if (problem != problem_) {
    spdlog::warn("serving without a cache: {}", problem);
  }
  identity_ = std::move(identity);
  problem_ = std::move(problem);
  healthy_ = true;
  settling_ = false;
  on_change_();
}

}  // namespace ember::agent
