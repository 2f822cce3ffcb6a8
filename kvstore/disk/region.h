// Region: one large file of a shard that records are appended to, and that is evicted as a whole.
//
// free -> open (appending) -> sealing (its last writes end) -> sealed (footer written) -> evicted:
// open again as another use. Written off: the disk refused a write or sync; what is in it can be
// read, nothing more is appended, and it is evicted in its turn.
#pragma once

#include <memory>
#include <set>
#include <vector>

#include "client/io/file.h"
#include "kvstore/disk/catalog.h"

namespace ember::kv {

struct Region {
  enum class State { kFree, kOpen, kSealing, kSealed, kWrittenOff };

  uint32_t id = 0;
  uint64_t length = 0;  // of the file
  std::unique_ptr<io::File> file;
  State state = State::kFree;
  uint64_t generation = 0;
  uint64_t sequence = 0;

  uint64_t end = 0;    // where the next record goes
  size_t records = 0;  // placed in this use
  size_t writes = 0;   // in flight
  // Records placed whose bytes are not known to be durable; the first bounds what the catalog
  // may claim.
  std::set<uint64_t> unfinished;
  std::vector<PlacedRecord> unsynced;  // of those, written
  bool sync_failed = false;  // in this use: what it was for is lost, whatever later ones say

  // Whether a record of so many bytes fits, with a footer that lists it.
  bool HasRoom(uint64_t record_bytes) const {
    return end + record_bytes + FooterBytes(records + 1) + kBlockBytes <= length;
  }
  // Sealed, to the catalog, means that its rows are all: not before the last of them is there,
  // though the footer's sync may end before that record's own.
  CatalogRegion Row() const {
    return {.generation = generation,
            .sequence = sequence,
            .catalogued = unfinished.empty() ? end : *unfinished.begin(),
            .sealed = state == State::kSealed && unfinished.empty()};
  }
};

}  // namespace ember::kv
