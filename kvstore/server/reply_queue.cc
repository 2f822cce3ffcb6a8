#include "kvstore/server/reply_queue.h"

#include <algorithm>
#include <array>

namespace ember::kv {
namespace {

constexpr size_t kFullPayload = 1 << 20;
constexpr size_t kFullHeads = 64 << 10;
// Of one WriteAll: the peer must take this much within the stall timeout.
constexpr size_t kWritePiece = 1 << 20;

}  // namespace

void ReplyQueue::Add(wire::FrameType type, uint64_t request_id, ByteSpan meta, ByteSpan payload,
                     Pin pin) {
  wire::AppendFrameHead(type, request_id, meta, payload.size(), &heads_);
  if (payload.empty()) return;
  parts_.push_back({heads_.size(), payload});
  pins_.push_back(std::move(pin));
  payload_bytes_ += payload.size();
}

bool ReplyQueue::full() const {
  return payload_bytes_ >= kFullPayload || heads_.size() >= kFullHeads;
}

std::vector<ByteSpan> ReplyQueue::GatherList() const {
  std::vector<ByteSpan> list;
  list.reserve(2 * parts_.size() + 1);
  size_t begin = 0;
  for (const Part& part : parts_) {
    list.push_back(ByteSpan(heads_).subspan(begin, part.heads_end - begin));
    list.push_back(part.payload);
    begin = part.heads_end;
  }
  if (begin < heads_.size()) list.push_back(ByteSpan(heads_).subspan(begin));
  return list;
}

io::Task<Status> ReplyQueue::Flush() {
  if (heads_.empty()) co_return OkStatus();
  std::vector<ByteSpan> list = GatherList();
  for (size_t next = 0; next < list.size();) {
    std::array<ByteSpan, io::kMaxGatherParts> piece;
    size_t count = 0;
    for (size_t room = kWritePiece; room > 0 && count < piece.size() && next < list.size();) {
      const size_t n = std::min(room, list[next].size());
      piece[count++] = list[next].first(n);
      list[next] = list[next].subspan(n);
      room -= n;
      if (list[next].empty()) ++next;
    }
    watch_->Arm(context_->options.stall_timeout);
    EMBER_CO_RETURN_IF_ERROR(co_await stream_->WriteAll({piece.data(), count}));
  }
  watch_->Disarm();
  context_->metrics->bytes_out.Add(payload_bytes_);
  heads_.clear();
  parts_.clear();
  pins_.clear();
  payload_bytes_ = 0;
  co_return OkStatus();
}

}  // namespace ember::kv
