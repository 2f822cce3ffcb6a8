// Segments as the pieces that gRPC carries: made by the writer, put together and verified by the
// reader. No network; one thread at a time.
#pragma once

#include <functional>

#include "client/store_client/store_client.h"
#include "proto/base/random.h"
#include "proto/rpc/store_data.pb.h"

namespace ember {

// 48 bytes: namespace, block hash, placement group's hash.
std::string NameBytes(const SegmentRef& ref);
std::string GenerationBytes(const GenerationId& generation);

// False: `write` wanted no more.
bool SendPieces(ByteSpan header, ByteSpan payload,
                const std::function<bool(const rpc::PutPiece&)>& write);

// One item of a get after the other, from pieces that are not believed.
class PieceReceiver {
 public:
  explicit PieceReceiver(const LayoutDigest& layout) : layout_(layout) {}

  // The next piece of `request`: true when it was the last. kUnavailable: it doesn't fit what was
  // sent before; the stream can't be trusted any more.
  Result<bool> Take(const rpc::GetPiece& piece, const GetRequest& request);
  // Of an item whose last piece was taken: kNone when the right bytes are in its buffer. The header
  // is set whenever it could be read.
  MissReason Verify(const GetRequest& request, SegmentHeader* header);

 private:
  const LayoutDigest layout_;
  MissReason miss_ = MissReason::kNone;
  std::string header_;
  uint64_t received_ = 0;
};

}  // namespace ember
