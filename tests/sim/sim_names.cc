// The names of a SimDisk.

#include <algorithm>

#include "tests/sim/sim_disk.h"

namespace ember::sim {
namespace {

// The root is the empty name.
std::string Clean(std::string path) {
  while (!path.empty() && path.back() == '/') path.pop_back();
  return path;
}

std::string ParentOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

Status Missing(std::string_view what, const std::string& path) {
  return NotFoundError(std::string(what) + " " + path + ": No such file or directory");
}

Status Refused(std::string_view what, const std::string& path, std::string_view reason) {
  return UnavailableError(std::string(what) + " " + path + ": " + std::string(reason));
}

}  // namespace

bool SimDisk::HasFolder(const std::string& path) const {
  if (path.empty()) return true;
  auto it = tree_.find(path);
  return it != tree_.end() && it->second.inode == nullptr;
}

bool SimDisk::IsEmptyFolder(const std::string& path) const {
  auto next = tree_.lower_bound(path + "/");
  return next == tree_.end() || !next->first.starts_with(path + "/");
}

void SimDisk::Apply(const NameChange& change, Tree* tree) {
  if (!change.from.empty()) tree->erase(change.from);
  if (!change.to.empty()) (*tree)[change.to] = change.node;
}

void SimDisk::Change(NameChange change) {
  // The name that comes is counted first, so that a rename keeps its file.
  if (!change.to.empty()) {
    if (change.node.inode != nullptr) ++change.node.inode->users;
    if (auto it = tree_.find(change.to); it != tree_.end() && it->second.inode != nullptr) {
      --it->second.inode->users;
    }
  }
  if (auto it = tree_.find(change.from); it != tree_.end() && it->second.inode != nullptr) {
    --it->second.inode->users;
  }
  Apply(change, &tree_);
  changes_.push_back(std::move(change));
}

Result<std::shared_ptr<SimInode>> SimDisk::Open(const std::string& path, io::OpenOptions options) {
  auto it = tree_.find(path);
  if (it != tree_.end()) {
    if (it->second.inode == nullptr) return Refused("open", path, "Is a directory");
    return it->second.inode;
  }
  if (!options.create || !HasFolder(ParentOf(path))) return Missing("open", path);
  auto inode = std::make_shared<SimInode>();
  inodes_.push_back(inode);
  Change({.from = "", .to = path, .node = {inode}});
  return inode;
}

Status SimDisk::MakeFolder(const std::string& raw) {
  const std::string path = Clean(raw);
  if (HasFolder(path)) return OkStatus();
  if (tree_.contains(path)) return Refused("make folder", path, "File exists");
  EMBER_RETURN_IF_ERROR(MakeFolder(ParentOf(path)));
  Change({.from = "", .to = path, .node = {}});
  return OkStatus();
}

Status SimDisk::Remove(const std::string& raw) {
  const std::string path = Clean(raw);
  auto it = tree_.find(path);
  if (it == tree_.end()) return Missing("remove", path);
  if (it->second.inode == nullptr && !IsEmptyFolder(path)) {
    return Refused("remove", path, "Directory not empty");
  }
  Change({.from = path, .to = "", .node = {}});
  return OkStatus();
}

Status SimDisk::Rename(const std::string& from, const std::string& to) {
  auto it = tree_.find(from);
  if (it == tree_.end() || !HasFolder(ParentOf(to))) return Missing("rename", from);
  if (it->second.inode == nullptr || HasFolder(to)) {
    return Refused("rename", from, "only files are renamed here");
  }
  Change({.from = from, .to = to, .node = it->second});
  return OkStatus();
}

Status SimDisk::SyncFolder(const std::string& raw) {
  const std::string path = Clean(raw);
  if (!HasFolder(path)) return Missing("sync", path);
  std::vector<NameChange> later;
  for (NameChange& change : changes_) {
    const bool here = (!change.from.empty() && ParentOf(change.from) == path) ||
                      (!change.to.empty() && ParentOf(change.to) == path);
    if (here) {
      Apply(change, &durable_tree_);
    } else {
      later.push_back(std::move(change));
    }
  }
  changes_ = std::move(later);
  return OkStatus();
}

Result<std::vector<io::FolderEntry>> SimDisk::List(const std::string& raw) {
  const std::string path = Clean(raw);
  if (!HasFolder(path)) return Missing("list", path);
  std::vector<io::FolderEntry> entries;
  for (auto it = tree_.lower_bound(path + "/");
       it != tree_.end() && it->first.starts_with(path + "/"); ++it) {
    const std::string name = it->first.substr(path.size() + 1);
    if (name.find('/') == std::string::npos) entries.push_back({name, it->second.inode == nullptr});
  }
  std::ranges::sort(entries, {}, &io::FolderEntry::name);
  return entries;
}

Result<io::DiskSpace> SimDisk::FreeBytes(const std::string& raw) {
  const std::string path = Clean(raw);
  if (!HasFolder(path) && !tree_.contains(path)) return Missing("space of", path);
  const uint64_t used = std::min(used_bytes(), faults.capacity);
  return io::DiskSpace{.free_bytes = faults.capacity - used, .total_bytes = faults.capacity};
}

}  // namespace ember::sim
