// SimDisk: one host's simulated disk: files and names in memory, a page cache that a loss of power
// takes away, and faults drawn from the simulation's dice.
//
// Operation: a write is volatile until Sync, a name until SyncFolder. LosePower keeps, tears or
// drops each page that wasn't synced, and of the names that weren't a first part, in order; what
// was mounted before fails from then on, and the host's loops mount it anew. Writes that were under
// way are there in part. EndProcess is the same for a process that dies alone: what it has written
// stays, durable or not. Concurrency: the simulation's thread. Life: outlives its mounts; the
// simulation outlives it.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/io/file_system.h"
#include "tests/sim/disk_faults.h"
#include "tests/sim/sim_inode.h"
#include "tests/sim/simulation.h"

namespace ember::sim {

class SimDisk {
 public:
  explicit SimDisk(Simulation* simulation, std::shared_ptr<DiskMap> map = nullptr);

  DiskFaults faults;
  DiskFaultCount injected;

  void LosePower();
  void EndProcess();
  // How often either happened: mounts of another number are dead.
  uint64_t losses() const { return losses_; }
  uint64_t used_bytes() const;
  // One bit of a file; false when nothing is there.
  bool FlipBit(const std::string& path, uint64_t offset, uint8_t bit);
  // Bytes of a file as they are now; empty when there is none.
  Bytes Content(const std::string& path) const;

  // The rest is for SimFileSystem and SimFile.
  struct PendingWrite {
    std::shared_ptr<SimInode> inode;
    uint64_t offset;
    std::span<const ByteSpan> parts;
  };
  using PendingWrites = std::list<PendingWrite>;

  Simulation* simulation() const { return simulation_; }
  Duration Latency(const std::string& path, uint64_t offset, uint64_t bytes);
  PendingWrites::iterator BeginWrite(PendingWrite write);
  void EndWrite(PendingWrites::iterator write) { pending_.erase(write); }

  Result<size_t> Read(SimInode& inode, const std::string& path, uint64_t offset,
                      MutableByteSpan out);
  Status Write(SimInode& inode, const std::string& path, uint64_t offset, ByteSpan bytes);
  Status Sync(SimInode& inode, const SimInode::Snapshot& snapshot, const std::string& path);
  Status Reserve(SimInode& inode, const std::string& path, uint64_t length);

  Result<std::shared_ptr<SimInode>> Open(const std::string& path, io::OpenOptions options);
  Status MakeFolder(const std::string& path);
  Status Remove(const std::string& path);
  Status Rename(const std::string& from, const std::string& to);
  Status SyncFolder(const std::string& path);
  Result<std::vector<io::FolderEntry>> List(const std::string& path);
  Result<io::DiskSpace> FreeBytes(const std::string& path);

 private:
  struct Node {
    std::shared_ptr<SimInode> inode;  // null: a folder
  };
  using Tree = std::map<std::string, Node>;
  // A change of names, not durable yet. `from` empty: `to` is new; `to` empty: `from` goes.
  struct NameChange {
    std::string from;
    std::string to;
    Node node;
  };

  // Whether this fault happens to this operation; `*hit` is the byte that it hits.
  bool Throw(DiskFault fault, const std::string& path, uint64_t offset, uint64_t bytes,
             uint64_t* hit);
  void Count(DiskFault fault, const std::string& path, uint64_t offset);
  bool HasFolder(const std::string& path) const;
  bool IsEmptyFolder(const std::string& path) const;
  void Change(NameChange change);
  // Of each page that is being written, whether it gets there.
  void SettlePending(double survival);
  static void Apply(const NameChange& change, Tree* tree);
  Status WriteFaulty(SimInode& inode, const std::string& path, uint64_t offset, ByteSpan bytes,
                     bool* done);

  Simulation* const simulation_;
  const std::shared_ptr<DiskMap> map_;
  Tree tree_;
  Tree durable_tree_;
  std::vector<NameChange> changes_;
  std::vector<std::weak_ptr<SimInode>> inodes_;
  PendingWrites pending_;
  uint64_t losses_ = 0;
};

}  // namespace ember::sim
