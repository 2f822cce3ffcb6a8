#include "client/store_client/mapped_segment.h"

namespace ember {

Status MappedSegment::Verify() const {
  if (Xxh3Of(payload_) == header_.checksum) return OkStatus();
  return CorruptError("the bytes in the shared memory are not, or no longer, this segment's");
}

}  // namespace ember
