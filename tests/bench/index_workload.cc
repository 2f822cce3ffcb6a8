#include "tests/bench/index_workload.h"

#include <algorithm>
#include <cstring>

namespace ember::router {
namespace {

constexpr size_t kSystemPrompts = 64;
constexpr size_t kSystemBlocks = 32;
constexpr size_t kOwnBlocks = 96;
constexpr size_t kEventBlocks = 16;
constexpr size_t kQueries = 4000;
constexpr size_t kInterleaved = 1024;

uint64_t Mix(uint64_t z) {  // SplitMix64's
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

// A block of the prefix whose blocks so far fold to `fold`.
struct WorkBlock {
  uint64_t fold = 0;
  WorkBlock Next(uint64_t content) const { return {Mix(fold ^ Mix(content))}; }
  EngineKey Key() const { return EngineKey{fold}; }
  BlockHash Hash() const {
    const uint64_t words[] = {Mix(fold ^ 1), Mix(fold ^ 2)};
    BlockHash hash;
    std::memcpy(hash.bytes.data(), words, sizeof words);
    return hash;
  }
};

void Append(const std::vector<WorkBlock>& blocks, uint32_t worker, std::optional<EngineKey> parent,
            std::vector<StoredEvent>* out) {
  for (size_t from = 0; from < blocks.size(); from += kEventBlocks) {
    StoredEvent event{.worker = worker, .parent = parent};
    for (size_t i = from; i < std::min(blocks.size(), from + kEventBlocks); ++i) {
      event.keys.push_back(blocks[i].Key());
      event.hashes.push_back(blocks[i].Hash());
    }
    parent = event.keys.back();
    out->push_back(std::move(event));
  }
}

BlockHash Strange(uint64_t number) { return WorkBlock{Mix(number)}.Hash(); }

}  // namespace

IndexWorkload IndexWorkload::Of(size_t blocks, uint32_t workers) {
  IndexWorkload work;
  std::vector<std::vector<WorkBlock>> prompts(kSystemPrompts);
  for (size_t s = 0; s < kSystemPrompts; ++s) {
    WorkBlock block;
    for (uint64_t i = 0; i < kSystemBlocks; ++i) {
      prompts[s].push_back(block = block.Next(Mix(s << 32 | i)));
    }
  }
  std::vector<std::vector<bool>> has(workers, std::vector<bool>(kSystemPrompts));
  const size_t every = std::max<size_t>(1, blocks / kOwnBlocks / kQueries);
  for (uint64_t session = 0; work.blocks < blocks; ++session) {
    const uint64_t draw = Mix(session ^ 0xabcdef);
    const auto worker = static_cast<uint32_t>(draw % workers);
    const size_t s = (draw >> 20) % kSystemPrompts;
    if (!has[worker][s]) {
      has[worker][s] = true;
      Append(prompts[s], worker, std::nullopt, &work.events);
      work.blocks += kSystemBlocks;
    }
    std::vector<WorkBlock> own;
    WorkBlock block = prompts[s].back();
    for (uint64_t i = 0; i < kOwnBlocks; ++i) {
      own.push_back(block = block.Next(Mix(Mix(session + 1) ^ i)));
    }
    Append(own, worker, prompts[s].back().Key(), &work.events);
    work.blocks += kOwnBlocks;
    if (session % every != 0) continue;
    BlockChain system, hit, shared, miss;
    for (const WorkBlock& b : prompts[s]) system.push_back(b.Hash());
    hit = shared = system;
    RemovedEvent removal{.worker = worker};
    for (uint64_t i = 0; i < kOwnBlocks; ++i) {
      hit.push_back(own[i].Hash());
      shared.push_back(Strange(0x7777 + session * 100 + i));
      removal.keys.push_back(own[kOwnBlocks - 1 - i].Key());
    }
    for (uint64_t i = 0; i < hit.size(); ++i) miss.push_back(Strange(~(session * 1000 + i)));
    work.hits.push_back(std::move(hit));
    work.shared.push_back(std::move(shared));
    work.misses.push_back(std::move(miss));
    work.removals.push_back(std::move(removal));
  }
  return work;
}

std::vector<StoredEvent> IndexWorkload::Interleaved() const {
  // Each session's events follow one another; a system prompt's belong to the session after it.
  std::vector<std::vector<StoredEvent>> sessions(1);
  size_t own = 0;
  for (const StoredEvent& event : events) {
    std::optional<EngineKey> parent = event.parent;
    for (size_t i = 0; i < event.keys.size(); ++i) {
      sessions.back().push_back({event.worker, parent, {event.keys[i]}, {event.hashes[i]}});
      parent = event.keys[i];
    }
    const bool of_prompt = sessions.back().size() <= kSystemBlocks && !sessions.back()[0].parent;
    own += of_prompt ? 0 : event.keys.size();
    if (own < kOwnBlocks) continue;
    own = 0;
    sessions.emplace_back();
  }
  std::vector<StoredEvent> out;
  for (size_t from = 0; from < sessions.size(); from += kInterleaved) {
    const size_t to = std::min(sessions.size(), from + kInterleaved);
    for (size_t i = 0; i < kSystemBlocks + kOwnBlocks; ++i) {
      for (size_t s = from; s < to; ++s) {
        if (i < sessions[s].size()) out.push_back(sessions[s][i]);
      }
    }
  }
  return out;
}

}  // namespace ember::router
