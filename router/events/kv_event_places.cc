#include "router/events/kv_event_places.h"

#include <algorithm>

#include "router/events/msgpack_reader.h"

namespace ember::router {
namespace {

// A block of an event without gaps, by what precedes the event and by its hash.
struct WholeBlock {
  uint64_t parent = 0;
  uint64_t hash = 0;
  size_t event = 0;     // of those without gaps
  uint64_t tokens = 0;  // of the event, up to its end
};

bool SameName(const WholeBlock& a, const WholeBlock& b) {
  return a.parent == b.parent && a.hash == b.hash;
}

bool NameLess(const WholeBlock& a, const WholeBlock& b) {
  return a.parent != b.parent ? a.parent < b.parent : a.hash < b.hash;
}

template <typename Visit>
void ForEachHash(ByteSpan hashes, Visit visit) {
  MsgpackReader in(hashes);
  const size_t count = in.ReadArray();
  for (size_t i = 0; i < count && !in.failed(); ++i) visit(Xxh3Of64(in.Skip()));
}

// Those that are not known stand next to those that are: windows end where other groups' blocks do.
bool FillBetween(std::vector<int64_t>* places, size_t blocks) {
  constexpr int64_t kUnknown = -1;
  if (std::ranges::all_of(*places, [](int64_t p) { return p == kUnknown; })) return false;
  for (size_t i = places->size() - 1; i-- > 0;) {
    if (places->at(i) == kUnknown && places->at(i + 1) != kUnknown) {
      places->at(i) = places->at(i + 1) - 1;
    }
  }
  int64_t before = -1;
  for (int64_t& place : *places) {
    if (place == kUnknown) place = before + 1;
    if (place <= before || place >= static_cast<int64_t>(blocks)) return false;
    before = place;
  }
  return true;
}

}  // namespace

void KvEventPlaces::SeeWhole(const KvStored& event, ByteSpan hashes, ByteSpan parent) {
  whole_.push_back(
      {.block_size = event.block_size, .hashes = hashes, .parent = parent, .extras = event.extras});
}

void KvEventPlaces::SeeSparse(size_t event, ByteSpan hashes, ByteSpan parent) {
  sparse_.push_back({.event = event, .hashes = hashes, .parent = parent, .extras = {}});
}

void KvEventPlaces::Place(KvEventBatch& batch) const {
  if (sparse_.empty()) return;
  std::vector<WholeBlock> known;
  for (size_t w = 0; w < whole_.size(); ++w) {
    WholeBlock block{.parent = Xxh3Of64(whole_[w].parent), .event = w};
    ForEachHash(whole_[w].hashes, [&](uint64_t hash) {
      block.hash = hash;
      block.tokens += whole_[w].block_size;
      known.push_back(block);
    });
  }
  std::ranges::stable_sort(known, NameLess);
  for (const Seen& sparse : sparse_) {
    KvStored& stored = std::get<KvStored>(batch.events[sparse.event]);
    const size_t blocks = stored.tokens.size() / stored.block_size;
    std::vector<int64_t> places;
    const Seen* like = nullptr;
    WholeBlock wanted{.parent = Xxh3Of64(sparse.parent)};
    ForEachHash(sparse.hashes, [&](uint64_t hash) {
      wanted.hash = hash;
      const auto found = std::ranges::lower_bound(known, wanted, NameLess);
      const bool there = found != known.end() && SameName(*found, wanted) &&
                         found->tokens % stored.block_size == 0;
      places.push_back(there ? static_cast<int64_t>(found->tokens / stored.block_size) - 1
                             : int64_t{-1});
      if (there && like == nullptr) like = &whole_[found->event];
    });
    // A recurrent state sums up all that is before it: the newest one is kept.
    if (like == nullptr && places.size() == 1 && IsRecurrent(stored.group_kind)) {
      places[0] = static_cast<int64_t>(blocks) - 1;
    }
    stored.placed = FillBetween(&places, blocks);
    if (!stored.placed) continue;
    stored.places.assign(places.begin(), places.end());
    if (like == nullptr) {
      for (KvExtra& extra : stored.extras) extra.block = stored.places[extra.block];
      continue;
    }
    // What blocks depend on that were left out, a salt first of all, is told by the other group.
    stored.extras.clear();
    for (const KvExtra& extra : like->extras) {
      const uint64_t block = uint64_t{extra.block} * like->block_size / stored.block_size;
      if (block >= blocks) break;
      if (!stored.extras.empty() && stored.extras.back().block == block) continue;
      stored.extras.push_back(extra);
      stored.extras.back().block = static_cast<uint32_t>(block);
    }
  }
}

}  // namespace ember::router
