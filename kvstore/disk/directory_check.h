// DirectoryCheck: reads a whole data directory that no process uses and says what is wrong with it.
// Changes nothing. ember-fsck and tests are its users.
//
// Damage is what should be whole: a footer, a record that the footer or the catalog lists, a purge.
// A record at the end of a region that was being written when the process was killed is `torn`: the
// next start drops it, so it is told but is no damage.
// Concurrency: the loop's thread only.
#pragma once

#include <functional>
#include <optional>

#include "client/io/loop.h"
#include "kvstore/disk/catalog.h"
#include "kvstore/disk/identity.h"

namespace ember::kv {

struct CheckFinding {
  std::string path;     // of the file, or of the catalog
  uint64_t offset = 0;  // in it
  std::string reason;
};

struct CheckReport {
  Identity identity;
  uint64_t regions_sealed = 0;
  uint64_t regions_open = 0;
  uint64_t regions_unused = 0;  // never written
  uint64_t region_bytes = 0;
  uint64_t records = 0;  // whole
  uint64_t record_bytes = 0;
  uint64_t torn = 0;
  uint64_t unlisted = 0;  // whole, but purged, expired, dropped, or not catalogued yet
  uint64_t purges = 0;
  uint64_t catalog_rows = 0;
  uint64_t damaged = 0;                // findings, all of them
  std::vector<CheckFinding> findings;  // the first ones
};

struct CheckOptions {
  bool payloads = true;  // else only heads, footers and the rest that is small
  // What the catalog says, or nothing when there is none to compare with.
  std::optional<std::map<uint32_t, CatalogContents>> catalog;
  // Bytes done, bytes in all.
  std::function<void(uint64_t, uint64_t)> progress;
  size_t max_findings = 1000;
};

// Errors: it can't be read, or is no data directory.
io::Task<Result<CheckReport>> CheckDirectory(io::FileSystem* files, std::string directory,
                                             CheckOptions options);

// What a new catalog of the directory says, read from the regions.
io::Task<Result<std::vector<CatalogBatch>>> CatalogFromRegions(io::FileSystem* files,
                                                               std::string directory);

}  // namespace ember::kv
