// Batches of KV events from the wire to the index: the decoder on any bytes, and the feed behind
// it. Several batches are cut from one input, each behind a byte that says how long it is.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "router/events/event_feed.h"
#include "router/events/kv_event_decoder.h"

namespace ember::router {
namespace {

constexpr EventSourceId kSource = 1;

// Nothing that was decoded is larger than what it was decoded from.
void CheckBounds(const KvEventBatch& batch, size_t bytes) {
  size_t values = 0;
  for (const KvEvent& event : batch.events) {
    ++values;
    if (const auto* stored = std::get_if<KvStored>(&event)) {
      const size_t keys = stored->keys.size();
      const bool named_only = stored->tokens.empty();
      const size_t blocks = named_only ? keys : stored->tokens.size() / stored->block_size;
      const bool sparse = blocks > keys;
      EMBER_CHECK(keys > 0 && blocks <= (sparse ? kMaxSparseBlocks : kMaxBlocksPerEvent),
                  "a piece");
      EMBER_CHECK(named_only || stored->tokens.size() == blocks * stored->block_size,
                  "every block has its tokens");
      EMBER_CHECK(stored->places.size() == (sparse && stored->placed ? keys : 0) &&
                      (sparse || stored->placed),
                  "a place for each key where blocks are left out");
      EMBER_CHECK(stored->places.empty() ||
                      (std::ranges::is_sorted(stored->places) && stored->places.back() < blocks),
                  "places are among the blocks");
      EMBER_CHECK(stored->extras.size() <= blocks, "one for a block");
      for (const KvExtra& extra : stored->extras) {
        EMBER_CHECK(extra.block < blocks, "an extra is of a block");
      }
      values += stored->keys.size() + stored->tokens.size();
    } else if (const auto* removed = std::get_if<KvRemoved>(&event)) {
      EMBER_CHECK(!removed->keys.empty() && removed->keys.size() <= kMaxBlocksPerEvent, "a piece");
      values += removed->keys.size();
    }
  }
  EMBER_CHECK(values <= bytes, "no more values than bytes");
}

void Fuzz(ByteSpan in) {
  spdlog::set_level(spdlog::level::off);
  static MetricsRegistry registry;
  static EventMetrics metrics(registry);
  PrefixIndex index(PrefixIndexOptions{.max_bytes = 1 << 20});
  SeededRandom random(1);
  EventFeed feed(index, random, metrics);
  const EngineKeyFold fold(7);
  const std::vector<HolderId> holders{index.AddHolder(HolderKind::kReplica),
                                      index.AddHolder(HolderKind::kReplica)};
  feed.AddSource(kSource, {.id = "r", .model = "m", .has_ranks = true, .holders = holders}, 0);
  TokenizedPrompt prompt;
  prompt.model = "m";
  while (!in.empty()) {
    // 0xff: all the rest.
    const auto length = static_cast<uint8_t>(in[0]);
    in = in.subspan(1);
    const ByteSpan payload =
        in.first(length == 0xff ? in.size() : std::min<size_t>(length, in.size()));
    in = in.subspan(payload.size());
    const Result<KvEventBatch> batch = DecodeKvEventBatch(payload, fold);
    if (!batch.ok()) {
      feed.OnLost(kSource, batch.status());
      EMBER_CHECK(index.blocks_held(holders[0]) == 0 && index.blocks_held(holders[1]) == 0,
                  "nothing is held after a loss");
      continue;
    }
    CheckBounds(*batch, payload.size());
    for (const KvEvent& event : batch->events) {
      TellEvent(feed, kSource, batch->rank, event);
      const auto* stored = std::get_if<KvStored>(&event);
      if (stored != nullptr && prompt.tokens.empty()) prompt.tokens = stored->tokens;
    }
    for (const GroupMatch& match : feed.Match(prompt, EventFeed::Holders().set())) {
      EMBER_CHECK(match.device_tokens <= match.any_tier_tokens, "slower tiers are counted as well");
      EMBER_CHECK(match.any_tier_tokens <= prompt.tokens.size(), "no more than the prompt");
    }
  }
  feed.RemoveSource(kSource);
}

}  // namespace
}  // namespace ember::router

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ember::router::Fuzz({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
