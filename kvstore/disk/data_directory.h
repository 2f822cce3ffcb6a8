// DataDirectory: names and identity of a node's folder on disk:
//
//   IDENTITY                      whose it is; see identity.h
//   LOCK                          held by the process that uses it; see directory_lock.h
//   shard-N/region-XXXXXXXX       the segments of shard N
//   shard-N/purges                the purges of shard N; see purge_journal.h
//   catalog/                      RocksDB; may be lost
//
// Concurrency: the loop's thread only.
#pragma once

#include <optional>
#include <string>

#include "client/io/file_system.h"
#include "kvstore/disk/identity.h"

namespace ember::kv {

std::string ShardFolder(const std::string& directory, uint32_t shard);
std::string RegionPath(const std::string& directory, uint32_t shard, uint32_t region);
std::string PurgesPath(const std::string& directory, uint32_t shard);
std::string CatalogFolder(const std::string& directory);
// Nothing when the name is not that of a region file.
std::optional<uint32_t> RegionOfName(std::string_view name);

// Makes the directory `identity`'s if it is empty or isn't there, else checks that it is; makes the
// shards' folders. kMismatch: it is another's, of a newer format, or something else altogether;
// the message says what to do. kCorrupt: its IDENTITY is damaged. Others: the system's reason.
io::Task<Status> PrepareDirectory(io::FileSystem* files, std::string directory, Identity identity);
// kNotFound when there is no IDENTITY.
io::Task<Result<Identity>> ReadIdentity(io::FileSystem* files, std::string directory);

// All of a small file. kInvalid above `max_bytes`.
io::Task<Result<Bytes>> ReadWholeFile(io::FileSystem* files, std::string path, size_t max_bytes);

}  // namespace ember::kv
