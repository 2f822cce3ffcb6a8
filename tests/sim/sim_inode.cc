#include "tests/sim/sim_inode.h"

#include <algorithm>

namespace ember::sim {

const SimInode::Block& SimInode::ContentOf(const BlockPtr& block) {
  static const Block kZeros{};
  return block == nullptr ? kZeros : *block;
}

template <typename Choose>
void SimInode::ReadWith(uint64_t offset, MutableByteSpan out, Choose choose) const {
  for (size_t done = 0; done < out.size();) {
    const uint64_t at = offset + done;
    const size_t skip = at % kPageBytes;
    const size_t n = std::min(kPageBytes - skip, out.size() - done);
    auto page = pages_.find(at / kPageBytes);
    const Block& block = ContentOf(page == pages_.end() ? nullptr : choose(page->second));
    std::memcpy(out.data() + done, block.data() + skip, n);
    done += n;
  }
}

void SimInode::Read(uint64_t offset, MutableByteSpan out) const {
  ReadWith(offset, out, [](const Page& page) { return page.now; });
}

bool SimInode::ReadStale(uint64_t offset, MutableByteSpan out) const {
  const Bytes fresh(out.begin(), out.end());
  ReadWith(offset, out, [](const Page& page) { return page.before; });
  return !std::ranges::equal(fresh, out);
}

void SimInode::Set(uint64_t index, BlockPtr block) {
  Page& page = pages_[index];
  if (!page.dirty) page.durable = page.now;
  page.before = std::exchange(page.now, std::move(block));
  page.dirty = true;
  page.doomed = false;
  dirty_.insert(index);
}

void SimInode::Write(uint64_t offset, ByteSpan bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const uint64_t at = offset + done;
    const size_t skip = at % kPageBytes;
    const size_t n = std::min(kPageBytes - skip, bytes.size() - done);
    auto page = pages_.find(at / kPageBytes);
    auto block = std::make_shared<Block>();
    if (n < kPageBytes && page != pages_.end()) *block = ContentOf(page->second.now);
    std::memcpy(block->data() + skip, bytes.data() + done, n);
    Set(at / kPageBytes, std::move(block));
    done += n;
  }
  size_ = std::max(size_, offset + bytes.size());
}

void SimInode::FlipBit(uint64_t offset, uint8_t bit) {
  Page& page = pages_[offset / kPageBytes];
  const BlockPtr old_block = page.now;
  auto block = std::make_shared<Block>(ContentOf(old_block));
  (*block)[offset % kPageBytes] ^= std::byte{1} << (bit % 8);
  page.now = block;
  if (page.dirty && page.durable == old_block) page.durable = block;
}

void SimInode::Truncate(uint64_t length) {
  const uint64_t keep = (length + kPageBytes - 1) / kPageBytes;
  if (length < size_) {
    if (const size_t rest = length % kPageBytes; rest > 0 && pages_.contains(keep - 1)) {
      auto block = std::make_shared<Block>(ContentOf(pages_[keep - 1].now));
      std::fill(block->begin() + rest, block->end(), std::byte{0});
      Set(keep - 1, std::move(block));
    }
    for (auto it = pages_.lower_bound(keep); it != pages_.end(); ++it) Set(it->first, nullptr);
    reserved_pages_ = std::min(reserved_pages_, keep);
  }
  size_ = length;
}

void SimInode::Reserve(uint64_t length) {
  reserved_pages_ = std::max(reserved_pages_, (length + kPageBytes - 1) / kPageBytes);
  size_ = std::max(size_, length);
}

SimInode::Snapshot SimInode::BeginSync() const {
  Snapshot snapshot{.size = size_, .pages = {}};
  for (uint64_t index : dirty_) snapshot.pages.emplace_back(index, pages_.at(index).now);
  return snapshot;
}

void SimInode::Sync(const Snapshot& snapshot) {
  for (const auto& [index, block] : snapshot.pages) {
    auto it = pages_.find(index);
    if (it == pages_.end() || !it->second.dirty || it->second.doomed) continue;
    Page& page = it->second;
    // Written again meanwhile: that part is volatile still.
    page.dirty = page.now != block;
    page.durable = page.dirty ? block : nullptr;
    if (!page.dirty) dirty_.erase(index);
  }
  durable_size_ = snapshot.size;
}

void SimInode::DoomSome(Dice& dice) {
  for (uint64_t index : dirty_) pages_[index].doomed = dice.Chance(0.5);
}

SimInode::BlockPtr SimInode::Mix(const BlockPtr& old_block, const BlockPtr& new_block, Dice& dice,
                                 double survival) {
  auto block = std::make_shared<Block>(ContentOf(old_block));
  const Block& fresh = ContentOf(new_block);
  for (size_t at = 0; at < kPageBytes; at += kSectorBytes) {
    if (dice.Chance(survival)) std::copy_n(fresh.begin() + at, kSectorBytes, block->begin() + at);
  }
  return block;
}

void SimInode::LosePower(Dice& dice, double survival) {
  for (uint64_t index : std::exchange(dirty_, {})) {
    Page& page = pages_[index];
    if (page.doomed || !dice.Chance(survival)) {
      page.now = page.durable;
    } else if (dice.Chance(0.25)) {
      page.now = Mix(page.durable, page.now, dice, survival);
    }
    page.before = page.now;
    page.durable = nullptr;
    page.dirty = page.doomed = false;
  }
  if (!dice.Chance(survival)) size_ = durable_size_;
  durable_size_ = size_;
  reserved_pages_ = std::min(reserved_pages_, (size_ + kPageBytes - 1) / kPageBytes);
  pages_.erase(pages_.lower_bound((size_ + kPageBytes - 1) / kPageBytes), pages_.end());
}

uint64_t SimInode::pages_in_use() const {
  uint64_t beyond = 0;
  for (auto it = pages_.lower_bound(reserved_pages_); it != pages_.end(); ++it) {
    beyond += it->second.now != nullptr;
  }
  return reserved_pages_ + beyond;
}

uint64_t SimInode::PagesToAdd(uint64_t offset, uint64_t bytes) const {
  uint64_t add = 0;
  const uint64_t end = (offset + bytes + kPageBytes - 1) / kPageBytes;
  for (uint64_t i = std::max(offset / kPageBytes, reserved_pages_); i < end; ++i) {
    auto page = pages_.find(i);
    add += page == pages_.end() || page->second.now == nullptr;
  }
  return add;
}

}  // namespace ember::sim
