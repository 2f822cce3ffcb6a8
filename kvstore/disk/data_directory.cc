#include "kvstore/disk/data_directory.h"

#include <algorithm>
#include <charconv>

namespace ember::kv {
namespace {

constexpr std::string_view kIdentityName = "IDENTITY";
constexpr std::string_view kNewIdentityName = "IDENTITY.new";
constexpr std::string_view kRegionPrefix = "region-";
constexpr size_t kRegionDigits = 8;
constexpr size_t kMaxIdentityBytes = 4096;

std::string Path(const std::string& directory, std::string_view name) {
  return directory + "/" + std::string(name);
}

std::string ParentOf(const std::string& directory) {
  const size_t slash = directory.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : directory.substr(0, slash);
}

// What may stand in a directory that is not ours yet: a mount point's own folder, and what a start
// that was cut short has left.
bool MayStandInNewDirectory(const io::FolderEntry& entry) {
  return entry.name == "lost+found" || entry.name == "LOCK" || entry.name == kNewIdentityName;
}

// By way of another name, so that there is a whole IDENTITY or none.
io::Task<Status> WriteIdentity(io::FileSystem* files, std::string directory, Identity identity) {
  const std::string text = EncodeIdentity(identity);
  const std::string temporary = Path(directory, kNewIdentityName);
  auto file = files->Open(temporary, {.create = true, .write = true});
  if (!file.ok()) co_return file.status();
  EMBER_CO_RETURN_IF_ERROR((*file)->Truncate(0));
  const ByteSpan bytes = AsBytes(text);
  EMBER_CO_RETURN_IF_ERROR(co_await (*file)->WriteAt(0, {&bytes, 1}));
  EMBER_CO_RETURN_IF_ERROR(co_await (*file)->Sync());
  EMBER_CO_RETURN_IF_ERROR(files->Rename(temporary, Path(directory, kIdentityName)));
  co_return files->SyncFolder(directory);
}

}  // namespace

std::string ShardFolder(const std::string& directory, uint32_t shard) {
  return directory + "/shard-" + std::to_string(shard);
}

std::string RegionPath(const std::string& directory, uint32_t shard, uint32_t region) {
  char name[kRegionDigits + 1];
  std::snprintf(name, sizeof name, "%08x", region);
  return Path(ShardFolder(directory, shard), std::string(kRegionPrefix) + name);
}

std::string PurgesPath(const std::string& directory, uint32_t shard) {
  return Path(ShardFolder(directory, shard), "purges");
}

std::string CatalogFolder(const std::string& directory) { return Path(directory, "catalog"); }

std::optional<uint32_t> RegionOfName(std::string_view name) {
  if (!name.starts_with(kRegionPrefix) || name.size() != kRegionPrefix.size() + kRegionDigits) {
    return std::nullopt;
  }
  uint32_t region = 0;
  const auto [end, error] =
      std::from_chars(name.data() + kRegionPrefix.size(), name.data() + name.size(), region, 16);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return region;
}

io::Task<Result<Bytes>> ReadWholeFile(io::FileSystem* files, std::string path, size_t max_bytes) {
  auto file = files->Open(path, {});
  if (!file.ok()) co_return file.status();
  Result<uint64_t> size = (*file)->Size();
  if (!size.ok()) co_return size.status();
  if (*size > max_bytes) co_return InvalidError(path + ": too large");
  Bytes bytes(*size);
  if (bytes.empty()) co_return bytes;
  Result<size_t> read = co_await (*file)->ReadAt(0, bytes);
  if (!read.ok()) co_return read.status();
  bytes.resize(*read);
  co_return bytes;
}

io::Task<Result<Identity>> ReadIdentity(io::FileSystem* files, std::string directory) {
  Result<Bytes> bytes =
      co_await ReadWholeFile(files, Path(directory, kIdentityName), kMaxIdentityBytes);
  if (!bytes.ok()) co_return bytes.status();
  Result<Identity> identity = DecodeIdentity(AsString(*bytes));
  if (!identity.ok()) co_return identity.status().WithContext(directory);
  co_return identity;
}

io::Task<Status> PrepareDirectory(io::FileSystem* files, std::string directory, Identity identity) {
  EMBER_CO_RETURN_IF_ERROR(files->MakeFolder(directory));
  Result<Identity> found = co_await ReadIdentity(files, directory);
  if (found.ok()) {
    EMBER_CO_RETURN_IF_ERROR(CheckIdentity(*found, identity, directory));
  } else if (found.status().code() != StatusCode::kNotFound) {
    co_return found.status();
  } else {
    Result<std::vector<io::FolderEntry>> entries = files->List(directory);
    if (!entries.ok()) co_return entries.status();
    if (!std::ranges::all_of(*entries, MayStandInNewDirectory)) {
      co_return MismatchError(directory +
                              " is not empty and has no IDENTITY of EmberKV: give an empty "
                              "directory, or one that does not exist yet");
    }
    EMBER_CO_RETURN_IF_ERROR(co_await WriteIdentity(files, directory, identity));
    // The directory's own name. A parent that may not be opened is not ours to care for.
    (void)files->SyncFolder(ParentOf(directory));
  }
  for (uint32_t shard = 0; shard < identity.shards; ++shard) {
    EMBER_CO_RETURN_IF_ERROR(files->MakeFolder(ShardFolder(directory, shard)));
  }
  co_return files->SyncFolder(directory);
}

}  // namespace ember::kv
