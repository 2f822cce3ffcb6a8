#include "router/tokenize/token_cache.h"

#include <algorithm>
#include <utility>

namespace ember::router {

bool TokenCache::Find(const Checksum& name, KnownText* out) {
  const KnownText* known = known_.Find(name);
  if (known == nullptr) return false;
  *out = *known;
  return true;
}

size_t TokenCache::FindStretch(const TextWalk& walk, KnownText* out) {
  size_t n = walk.stretches();
  while (n > 0 && !known_.Contains(walk.NameAfter(n))) --n;
  if (n == 0) return 0;
  Find(walk.NameAfter(n), out);
  // What comes before is used as well, and the more often the earlier it comes.
  for (size_t before = n - 1; before > 0; --before) known_.Find(walk.NameAfter(before));
  return n;
}

size_t TokenCache::FindStep(std::span<const TextSpan> spans, KnownText* out) {
  const auto end = std::find_if(spans.begin(), spans.end(),
                                [](const TextSpan& s) { return s.end == TextSpan::End::kStretch; });
  for (size_t n = static_cast<size_t>(end - spans.begin()); n > 0; --n) {
    if (spans[n - 1].end == TextSpan::End::kStep && Find(spans[n - 1].name, out)) return n;
  }
  return 0;
}

size_t TokenCache::CostOf(const KnownText& known) {
  constexpr size_t kEntry = sizeof(KnownText) + 160;  // nodes of map and list, control blocks
  const auto heap = [](const std::string& s) { return s.capacity() > 15 ? s.capacity() + 1 : 0; };
  return kEntry + heap(known.pending) + heap(known.last_of_slot);
}

void TokenCache::Extend(const TextSpan& end, std::vector<TokenId> tokens, std::string pending,
                        std::string last_of_slot, KnownText* known) {
  if (end.end == TextSpan::End::kStretch) {
    // One run for the whole stretch, so that a long prompt has few of them.
    const size_t begin = known->stretch == nullptr ? 0 : known->stretch->end();
    std::vector<TokenId> all((known->run == nullptr ? 0 : known->run->end()) - begin);
    size_t left = all.size();
    for (const TokenRun* run = known->run.get(); run != known->stretch.get();
         run = run->parent().get()) {
      left -= run->tokens().size();
      std::copy(run->tokens().begin(), run->tokens().end(),
                all.begin() + static_cast<ptrdiff_t>(left));
    }
    all.insert(all.end(), tokens.begin(), tokens.end());
    known->run = std::make_shared<const TokenRun>(known->stretch, std::move(all), ledger_);
    known->stretch = known->run;
  } else {
    known->run = std::make_shared<const TokenRun>(known->run, std::move(tokens), ledger_);
  }
  known->pending = std::move(pending);
  known->last_of_slot = std::move(last_of_slot);
  Put(end.name, *known);
}

void TokenCache::PutWhole(const Checksum& name, std::vector<TokenId> tokens, KnownText* known) {
  known->run = std::make_shared<const TokenRun>(nullptr, std::move(tokens), ledger_);
  Put(name, *known);
}

void TokenCache::Put(const Checksum& name, KnownText known) {
  const size_t cost = CostOf(known);
  if (!known_.Put(name, std::move(known))) return;
  *ledger_ += cost;
  while (*ledger_ > max_bytes_ && !known_.empty()) DropOldest();
}

void TokenCache::DropOldest() {
  const KnownText dropped = known_.DropOldest();
  *ledger_ -= CostOf(dropped);
}

void TokenCache::Clear() {
  while (!known_.empty()) DropOldest();
}

}  // namespace ember::router
