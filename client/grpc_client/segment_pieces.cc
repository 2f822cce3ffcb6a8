#include "client/grpc_client/segment_pieces.h"

#include <algorithm>

#include "client/store_client/segment_seal.h"

namespace ember {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

}  // namespace

std::string NameBytes(const SegmentRef& ref) {
  std::string name(AsString(ref.key.ns.bytes));
  name += AsString(ref.key.hash.bytes);
  name += AsString(ref.placement.bytes);
  return name;
}

std::string GenerationBytes(const GenerationId& generation) {
  std::string bytes(16, '\0');
  std::memcpy(bytes.data(), &generation.high, 8);
  std::memcpy(bytes.data() + 8, &generation.low, 8);
  return bytes;
}

bool SendPieces(ByteSpan header, ByteSpan payload,
                const std::function<bool(const rpc::PutPiece&)>& write) {
  rpc::PutPiece piece;
  piece.set_header(std::string(AsString(header)));
  if (!write(piece)) return false;
  while (!payload.empty()) {
    const ByteSpan chunk = payload.first(std::min(payload.size(), kChunkBytes));
    payload = payload.subspan(chunk.size());
    piece.mutable_chunk()->assign(AsString(chunk));
    if (!write(piece)) return false;
  }
  return true;
}

Result<bool> PieceReceiver::Take(const rpc::GetPiece& piece, const GetRequest& request) {
  if (received_ == 0) {
    header_ = piece.header();
    miss_ = MissReasonFromWire(static_cast<uint8_t>(std::min(piece.miss(), 255u)));
  }
  const ByteSpan chunk = AsBytes(piece.chunk());
  if (!chunk.empty() && piece.offset() != request.offset.value_or(0) + received_) {
    return UnavailableError("a piece out of its order");
  }
  // A copy of another length than was matched can't be what the caller wants; it is taken to its
  // end and thrown away.
  if (miss_ == MissReason::kNone && received_ + chunk.size() <= request.buffer.size()) {
    std::ranges::copy(chunk, request.buffer.subspan(received_).begin());
  }
  received_ += chunk.size();
  return piece.last();
}

MissReason PieceReceiver::Verify(const GetRequest& request, SegmentHeader* header) {
  const uint64_t received = std::exchange(received_, 0);
  const std::string encoded = std::exchange(header_, {});
  if (miss_ != MissReason::kNone) return miss_;
  if (received != request.buffer.size()) return MissReason::kLayoutDiffers;
  const MissReason why = OpenHeader(AsBytes(encoded), request.ref, request.tokens, layout_, header);
  if (why != MissReason::kNone) return why;
  return IsIntact(request, *header) ? MissReason::kNone : MissReason::kCorrupt;
}

}  // namespace ember
