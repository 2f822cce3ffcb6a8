#include "tests/sim/sim_disk.h"

#include <algorithm>

namespace ember::sim {
namespace {

uint64_t PageOf(uint64_t offset) { return offset / kPageBytes; }

Status ErrorOf(std::string_view what, const std::string& path, std::string_view reason) {
  return UnavailableError(std::string(what) + " " + path + ": " + std::string(reason));
}

Status FullError(std::string_view what, const std::string& path) {
  return NoSpaceError(std::string(what) + " " + path + ": No space left on device");
}

}  // namespace

SimDisk::SimDisk(Simulation* simulation, std::shared_ptr<DiskMap> map)
    : simulation_(simulation),
      map_(map != nullptr ? std::move(map) : std::make_shared<DiskMap>()) {}

// ---- faults

bool SimDisk::Throw(DiskFault fault, const std::string& path, uint64_t offset, uint64_t bytes,
                    uint64_t* hit) {
  Dice& dice = simulation_->dice();
  if (!dice.Chance(faults[fault])) return false;
  *hit = offset + (bytes > 0 ? dice.Below(bytes) : 0);
  return !faults.spared[static_cast<size_t>(map_->At(path, *hit))];
}

void SimDisk::Count(DiskFault fault, const std::string& path, uint64_t offset) {
  injected.Add(fault, map_->At(path, offset));
}

Duration SimDisk::Latency(const std::string& path, uint64_t offset, uint64_t bytes) {
  Dice& dice = simulation_->dice();
  constexpr double kBytesPerNanosecond = 2;
  Duration latency =
      dice.Between(faults.latency_min, faults.latency_max) +
      Duration(static_cast<int64_t>(static_cast<double>(bytes) / kBytesPerNanosecond));
  if (uint64_t hit = 0; Throw(DiskFault::kSlow, path, offset, bytes, &hit)) {
    Count(DiskFault::kSlow, path, hit);
    latency += dice.Between(Duration(0), faults.slow_max);
  }
  return latency;
}

// ---- bytes

Result<size_t> SimDisk::Read(SimInode& inode, const std::string& path, uint64_t offset,
                             MutableByteSpan out) {
  const uint64_t size = inode.size();
  const size_t n = offset >= size ? 0 : std::min<uint64_t>(out.size(), size - offset);
  if (n == 0) return n;
  out = out.first(n);
  Dice& dice = simulation_->dice();
  uint64_t hit = 0;
  if (Throw(DiskFault::kReadError, path, offset, n, &hit)) {
    Count(DiskFault::kReadError, path, hit);
    return ErrorOf("read", path, "Input/output error");
  }
  if (Throw(DiskFault::kBitFlip, path, offset, n, &hit)) {
    Count(DiskFault::kBitFlip, path, hit);
    inode.FlipBit(hit, static_cast<uint8_t>(dice.Below(8)));
  }
  inode.Read(offset, out);
  if (Throw(DiskFault::kStaleRead, path, offset, n, &hit)) {
    // The page that was hit.
    const uint64_t begin = std::max(offset, PageOf(hit) * kPageBytes);
    const uint64_t end = std::min(offset + n, (PageOf(hit) + 1) * kPageBytes);
    if (inode.ReadStale(begin, out.subspan(begin - offset, end - begin))) {
      Count(DiskFault::kStaleRead, path, hit);
    }
  }
  if (Throw(DiskFault::kMisdirectedRead, path, offset, n, &hit)) {
    const uint64_t elsewhere = dice.Below(PageOf(size - n) + 1) * kPageBytes + offset % kPageBytes;
    if (elsewhere != offset && elsewhere + n <= size) {
      Count(DiskFault::kMisdirectedRead, path, hit);
      inode.Read(elsewhere, out);
    }
  }
  return n;
}

Status SimDisk::Write(SimInode& inode, const std::string& path, uint64_t offset, ByteSpan bytes) {
  map_->Written(path, offset, bytes);
  if (bytes.empty()) return OkStatus();
  const uint64_t add = inode.PagesToAdd(offset, bytes.size());
  if (add > 0 && used_bytes() + add * kPageBytes > faults.capacity) return FullError("write", path);
  bool done = false;
  const Status status = WriteFaulty(inode, path, offset, bytes, &done);
  if (!done) inode.Write(offset, bytes);
  return status;
}

// At most one of the faults of a write.
Status SimDisk::WriteFaulty(SimInode& inode, const std::string& path, uint64_t offset,
                            ByteSpan bytes, bool* done) {
  Dice& dice = simulation_->dice();
  uint64_t hit = 0;
  // Up to a sector's edge.
  const auto first_part = [&] {
    const uint64_t end = hit / kSectorBytes * kSectorBytes;
    return end <= offset ? ByteSpan() : bytes.first(end - offset);
  };
  *done = true;
  if (Throw(DiskFault::kNoSpace, path, offset, bytes.size(), &hit)) {
    Count(DiskFault::kNoSpace, path, hit);
    return FullError("write", path);
  }
  if (Throw(DiskFault::kWriteError, path, offset, bytes.size(), &hit)) {
    Count(DiskFault::kWriteError, path, hit);
    if (const ByteSpan part = first_part(); !part.empty()) inode.Write(offset, part);
    return ErrorOf("write", path, "Input/output error");
  }
  if (Throw(DiskFault::kTornWrite, path, offset, bytes.size(), &hit)) {
    Count(DiskFault::kTornWrite, path, hit);
    if (const ByteSpan part = first_part(); !part.empty()) inode.Write(offset, part);
    return OkStatus();
  }
  if (Throw(DiskFault::kLostWrite, path, offset, bytes.size(), &hit)) {
    Count(DiskFault::kLostWrite, path, hit);
    return OkStatus();
  }
  if (Throw(DiskFault::kMisdirectedWrite, path, offset, bytes.size(), &hit) &&
      inode.size() > bytes.size()) {
    const uint64_t elsewhere = dice.Below(PageOf(inode.size() - bytes.size()) + 1) * kPageBytes;
    Count(DiskFault::kMisdirectedWrite, path, hit);
    inode.Write(elsewhere, bytes);
    return OkStatus();
  }
  *done = false;
  return OkStatus();
}

Status SimDisk::Sync(SimInode& inode, const SimInode::Snapshot& snapshot, const std::string& path) {
  if (uint64_t hit = 0; Throw(DiskFault::kSyncError, path, 0, inode.size(), &hit)) {
    Count(DiskFault::kSyncError, path, hit);
    inode.DoomSome(simulation_->dice());
    return ErrorOf("sync", path, "Input/output error");
  }
  inode.Sync(snapshot);
  return OkStatus();
}

Status SimDisk::Reserve(SimInode& inode, const std::string& path, uint64_t length) {
  const uint64_t pages = (length + kPageBytes - 1) / kPageBytes;
  const uint64_t add = pages - std::min(pages, inode.pages_in_use());
  if (used_bytes() + add * kPageBytes > faults.capacity) return FullError("allocate", path);
  inode.Reserve(length);
  return OkStatus();
}

SimDisk::PendingWrites::iterator SimDisk::BeginWrite(PendingWrite write) {
  pending_.push_front(std::move(write));
  return pending_.begin();
}

uint64_t SimDisk::used_bytes() const {
  uint64_t pages = 0;
  for (const auto& weak : inodes_) {
    const auto inode = weak.lock();
    if (inode != nullptr && inode->users > 0) pages += inode->pages_in_use();
  }
  return pages * kPageBytes;
}

void SimDisk::SettlePending(double survival) {
  for (const PendingWrite& write : pending_) {
    uint64_t offset = write.offset;
    for (ByteSpan part : write.parts) {
      for (; !part.empty(); part = part.subspan(std::min(part.size(), kPageBytes))) {
        const ByteSpan piece = part.first(std::min(part.size(), kPageBytes));
        if (simulation_->dice().Chance(survival)) write.inode->Write(offset, piece);
        offset += piece.size();
      }
    }
  }
}

void SimDisk::EndProcess() {
  ++losses_;
  SettlePending(0.5);
}

void SimDisk::LosePower() {
  Dice& dice = simulation_->dice();
  ++losses_;
  // From "the cache was just written back" to "it never was".
  const double survival = std::array{0.0, 0.1, 0.5, 0.9, 1.0}[dice.Below(5)];
  SettlePending(survival);
  std::erase_if(inodes_, [](const auto& inode) { return inode.expired(); });
  for (const auto& weak : inodes_) {
    if (const auto inode = weak.lock()) inode->LosePower(dice, survival);
  }
  const size_t kept = dice.Below(changes_.size() + 1);
  for (size_t i = 0; i < kept; ++i) Apply(changes_[i], &durable_tree_);
  changes_.clear();
  for (auto& [path, node] : tree_) {
    if (node.inode != nullptr) --node.inode->users;
  }
  tree_.clear();
  for (const auto& [path, node] : durable_tree_) {  // folders come before what is in them
    if (HasFolder(path.substr(0, path.rfind('/')))) tree_.emplace(path, node);
  }
  durable_tree_ = tree_;
  for (auto& [path, node] : tree_) {
    if (node.inode != nullptr) ++node.inode->users;
  }
}

bool SimDisk::FlipBit(const std::string& path, uint64_t offset, uint8_t bit) {
  auto it = tree_.find(path);
  if (it == tree_.end() || it->second.inode == nullptr || offset >= it->second.inode->size()) {
    return false;
  }
  it->second.inode->FlipBit(offset, bit);
  return true;
}

Bytes SimDisk::Content(const std::string& path) const {
  auto it = tree_.find(path);
  if (it == tree_.end() || it->second.inode == nullptr) return {};
  Bytes bytes(it->second.inode->size());
  it->second.inode->Read(0, bytes);
  return bytes;
}

}  // namespace ember::sim
