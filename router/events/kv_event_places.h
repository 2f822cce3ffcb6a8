// KvEventPlaces: where the blocks of sparse events belong. vLLM leaves blocks that it doesn't keep
// (windows, recurrent states) out of an event's hashes, but not out of its tokens. A hash stands
// for all tokens before it, whatever the cache group: an event of the same batch that tells of
// another group's blocks without gaps tells how many tokens that are. Used by the decoder alone.
#pragma once

#include <vector>

#include "router/events/kv_event.h"

namespace ember::router {

class KvEventPlaces {
 public:
  // An event with a hash for each of its blocks. `hashes` and `parent` (nothing: the start) as they
  // are encoded; views into the payload.
  void SeeWhole(const KvStored& event, ByteSpan hashes, ByteSpan parent);
  // The batch's event number `event`, that has fewer hashes than blocks.
  void SeeSparse(size_t event, ByteSpan hashes, ByteSpan parent);
  // Gives the batch's sparse events their places, as far as they can be known.
  void Place(KvEventBatch& batch) const;

 private:
  struct Seen {
    size_t event = 0;
    uint32_t block_size = 0;
    ByteSpan hashes;
    ByteSpan parent;
    std::vector<KvExtra> extras;
  };

  std::vector<Seen> whole_;
  std::vector<Seen> sparse_;
};

}  // namespace ember::router
