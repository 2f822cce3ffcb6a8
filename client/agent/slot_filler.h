// SlotFiller: decides where a prompt's prefix comes from (the slot itself, the store, or a
// computation) and brings the slot into that state.
//
// It loads when the store has at least a segment more than the slot and loading is predicted to
// take less time than computing that difference; both speeds are learned from what happened.
// Concurrency: the HTTP loop's thread. Life: everything given must outlive it.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>

#include "client/agent/agent_metrics.h"
#include "client/agent/engine_client.h"
#include "client/agent/engine_monitor.h"
#include "client/agent/prefill_fit.h"
#include "client/agent/prefix_loader.h"
#include "client/agent/request_log.h"
#include "client/agent/slot_table.h"

namespace ember::agent {

struct FillWish {
  std::shared_ptr<const EngineIdentity> identity;
  std::shared_ptr<const PromptSegments> prompt;
  bool use_store = true;
  bool recompute = false;  // nothing may be reused
};

struct Filled {
  Route route = Route::kRecompute;
  uint64_t cached_tokens = 0;  // that the engine will find in the slot
  bool may_reuse = true;       // false: the slot is in doubt, the engine must be told to ignore it
};

class SlotFiller {
 public:
  SlotFiller(EngineClient& engine, EngineMonitor& monitor, PrefixLoader& loader,
             const SlotFolder& folder, AgentMetrics& metrics)
      : engine_(engine), monitor_(monitor), loader_(loader), folder_(folder), metrics_(metrics) {}

  // Never fails: what can't be had is computed. Writes what it did into the record.
  boost::asio::awaitable<Filled> Fill(const FillWish& wish, SlotTable::Lease& lease,
                                      RequestRecord& record);

  // Whether it loads at all: there is a store, and the engine uses what it is given.
  bool loads() const;
  // Segments of the prompt that a load could bring; 0: it will not load for this request.
  size_t LoadableSegments(const FillWish& wish) const;

  // What the engine counted afterwards, and for how much it had been filled.
  void NoteResult(const Filled& filled, const EngineTimings& timings, RequestRecord& record);
  // A (re)started engine gets a new chance.
  void ForgetUnusedRestores() { unused_restores_ = 0; }

  PrefillModel prefill_model() const { return fit_.model(); }
  // Measured, or assumed until the first load; 0 without a store.
  double load_tokens_per_ms() const;

 private:
  boost::asio::awaitable<bool> Erase(SlotTable::Lease& lease, RequestRecord& record);
  // Segments in the slot afterwards; 0: none came, the slot is as it was; nothing: it is in doubt.
  boost::asio::awaitable<std::optional<size_t>> LoadInto(const FillWish& wish, size_t segments,
                                                         size_t local, SlotTable::Lease& lease,
                                                         RequestRecord& record);
  // `ready`: of the remote tokens, those that need no transfer any more.
  bool WorthLoading(size_t prompt, size_t local, size_t remote, size_t ready) const;
  double PredictedLoadMs(size_t tokens, size_t ready) const;
  // `whole_ms`: of the load as it was, from asking to restored.
  void LearnRates(size_t tokens, double whole_ms, const LoadedPrefix& loaded, double restore_ms);

  EngineClient& engine_;
  EngineMonitor& monitor_;
  PrefixLoader& loader_;
  const SlotFolder& folder_;
  AgentMetrics& metrics_;
  PrefillFit fit_;
  double load_tokens_per_ms_ = 0;     // with the transfer
  double restore_tokens_per_ms_ = 0;  // of what is received: rebuilding and restoring
  int unused_restores_ = 0;           // in a row
};

}  // namespace ember::agent
