#include "client/store_client/put_call.h"

#include <map>

#include "client/store_client/segment_seal.h"
#include "proto/wire/limits.h"

namespace ember {
namespace {

// Large enough that the node has work while the next window is made, little enough to be in the
// cache still when it is sent after being hashed, and for small nodes to have room.
constexpr uint64_t kWindowBytes = 1 << 20;
constexpr size_t kWindowItems = 256;
constexpr size_t kWindowHeaderBytes = 64 << 10;
// Windows that are reserved and not written. A reservation must be small enough, and these few, to
// be taken by the kernel's buffers while the node is busy. Of large segments one: a small node has
// no room for more.
constexpr size_t kReservedAhead = 2;
constexpr uint64_t kLargeWindow = 8 << 20;
static_assert(kWindowItems <= wire::kMaxReservePerBatch);

std::string NameOf(const cluster::Connection& connection) {
  return "node " + connection.hello().node_id;
}

}  // namespace

PutCall::PutCall(CallContext& context, std::span<const PutRequest> requests,
                 const LayoutDigest& layout, TimePoint deadline, const PutOptions& options)
    : context_(context),
      requests_(requests),
      layout_(layout),
      deadline_(deadline),
      options_(options),
      headers_(requests.size()),
      refused_(requests.size()),
      had_(requests.size()),
      owners_(requests.size()),
      outcomes_(requests.size()) {
  for (uint32_t i = 0; i < requests.size(); ++i) {
    outcomes_[i].status = CheckPut(requests_[i]);
    refused_[i] = !outcomes_[i].status.ok();
  }
}

const Bytes& PutCall::HeaderOf(uint32_t i) {
  if (!headers_[i].empty()) return headers_[i];
  return headers_[i] = SealedHeader(requests_[i], layout_, context_.options.name,
                                    context_.options.tenant, random_);
}

std::vector<PutOutcome> PutCall::Run() {
  if (context_.shared_loop.crowded()) {
    for (uint32_t i = 0; i < requests_.size(); ++i) {
      if (!refused_[i]) (void)HeaderOf(i);
    }
  }
  const Status status = io::RunOnLoop<Status>(context_.shared_loop, [this] { return PushAll(); });
  for (size_t i = 0; i < outcomes_.size(); ++i) {
    PutOutcome& outcome = outcomes_[i];
    if (refused_[i]) continue;
    if (!status.ok() && outcome.copies == 0) outcome.status = status;
    outcome.was_there = owners_[i] > 0 && had_[i] == owners_[i];
    if (owners_[i] > 0 && outcome.copies == owners_[i]) outcome.status = OkStatus();
  }
  return std::move(outcomes_);
}

io::Task<Status> PutCall::PushAll() {
  Result<std::shared_ptr<const Cluster>> cluster = co_await context_.membership.Get(deadline_);
  if (!cluster.ok()) co_return cluster.status();
  cluster_ = *std::move(cluster);
  OwnerList owners(cluster_->view, context_.options.copies);
  std::map<size_t, Items> shares;
  for (uint32_t i = 0; i < requests_.size(); ++i) {
    if (refused_[i]) continue;
    const std::vector<size_t>& of = owners.Of(requests_[i].ref);
    if (of.empty()) co_return UnavailableError("the view has no owners");
    owners_[i] = static_cast<uint32_t>(of.size());
    for (size_t member : of) shares[member].push_back(i);
  }
  io::Gate gate;
  for (auto& [member, items] : shares) {
    gate.Spawn(Push(cluster_->nodes[member], std::move(items)));
  }
  co_await gate.Close();
  co_return OkStatus();
}

io::Task<void> PutCall::Push(std::shared_ptr<cluster::NodePeers> node, Items items) {
  if (const Status status = co_await node->Learn(deadline_); !status.ok()) {
    for (uint32_t i : items) Refuse(i, status);
    co_return;
  }
  io::Gate gate;
  for (ShardShare& share :
       ShareByShard(*node, std::move(items),
                    [this](uint32_t i) -> const SegmentRef& { return requests_[i].ref; })) {
    gate.Spawn(PushTo(std::move(share)));
  }
  co_await gate.Close();
}

io::Task<void> PutCall::PushTo(ShardShare share) {
  std::vector<Window> windows = Cut(share.items);
  const Status status = co_await share.peer->Exchange(
      cluster::Lane::kPush, deadline_,
      [&](cluster::Connection& connection) { return PushOn(connection, &windows); });
  if (status.ok()) co_return;
  for (const Window& window : windows) {
    if (window.settled) continue;
    for (uint32_t i : window.items) Refuse(i, status);
  }
}

std::vector<PutCall::Window> PutCall::Cut(const Items& items) const {
  std::vector<Window> windows;
  size_t header_bytes = 0;
  for (uint32_t i : items) {
    const PutRequest& request = requests_[i];
    const size_t header =
        request.tokens.size() * sizeof(TokenId) + request.layer_offsets.size() * sizeof(uint64_t);
    if (windows.empty() || windows.back().bytes + request.payload.size() > kWindowBytes ||
        header_bytes + header > kWindowHeaderBytes || windows.back().items.size() == kWindowItems) {
      windows.emplace_back();
      header_bytes = 0;
    }
    windows.back().items.push_back(i);
    windows.back().bytes += request.payload.size();
    header_bytes += header;
  }
  return windows;
}

// Again on another connection when the first was lost: windows that are settled are left out.
io::Task<Status> PutCall::PushOn(cluster::Connection& connection, std::vector<Window>* windows) {
  Flight flight;
  for (Window& window : *windows) window.reservations.clear();
  for (;;) {
    Result<bool> more = co_await Step(connection, windows, &flight);
    // What is still to come would be taken for another request's answer.
    if (!more.ok()) {
      co_return flight.open.empty() ? more.status() : connection.Break(more.status());
    }
    if (!*more) co_return OkStatus();
  }
}

// Does the next thing on the connection: asks ahead, writes what may be written, or waits for an
// answer. False when all is done.
io::Task<Result<bool>> PutCall::Step(cluster::Connection& connection, std::vector<Window>* windows,
                                     Flight* flight) {
  const size_t count = windows->size();
  while (flight->reserved < count && (*windows)[flight->reserved].settled) ++flight->reserved;
  while (flight->written < count && (*windows)[flight->written].settled) ++flight->written;
  // A node that refuses the first window as a whole is not asked for another.
  const bool first = flight->written == 0 && (*windows)[0].reservations.empty();
  const size_t ahead = flight->reserved - std::min(flight->reserved, flight->written);
  const bool one =
      first || (flight->reserved < count && (*windows)[flight->reserved].bytes > kLargeWindow);
  if (flight->reserved < count && ahead < (one ? 1 : kReservedAhead)) {
    const size_t number = flight->reserved++;
    flight->open.push_back({connection.NextRequestId(), number, false});
    EMBER_CO_RETURN_IF_ERROR(
        co_await Reserve(connection, (*windows)[number], flight->open.back().request_id));
    co_return true;
  }
  if (flight->written < flight->reserved && !(*windows)[flight->written].reservations.empty()) {
    const size_t number = flight->written++;
    flight->open.push_back({connection.NextRequestId(), number, true});
    EMBER_CO_RETURN_IF_ERROR(
        co_await Write(connection, (*windows)[number], flight->open.back().request_id));
    co_return true;
  }
  if (flight->open.empty()) co_return false;
  const Flight::Question question = flight->open.front();
  flight->open.pop_front();
  EMBER_CO_RETURN_IF_ERROR(co_await ReadAnswer(connection, question, &(*windows)[question.window]));
  co_return true;
}

io::Task<Status> PutCall::Reserve(cluster::Connection& connection, const Window& window,
                                  uint64_t request_id) {
  wire::Reserve reserve{.headers = {}, .ack = options_.ack};
  for (uint32_t i : window.items) reserve.headers.push_back(HeaderOf(i));
  const Bytes meta = Encode(reserve);
  co_return co_await connection.Send(wire::FrameType::kReserve, request_id, meta);
}

io::Task<Status> PutCall::Write(cluster::Connection& connection, const Window& window,
                                uint64_t commit_id) {
  constexpr size_t kPerCall = io::kMaxGatherParts / 2 - 1;
  for (size_t begin = 0; begin < window.to_send.size(); begin += kPerCall) {
    const size_t count = std::min(kPerCall, window.to_send.size() - begin);
    std::vector<Bytes> heads(count + 1);
    std::vector<ByteSpan> parts;
    for (size_t k = 0; k < count; ++k) {
      const ByteSpan payload = requests_[window.to_send[begin + k]].payload;
      wire::AppendFrameHead(wire::FrameType::kWrite, connection.NextRequestId(),
                            Encode(wire::Write{.token = window.tokens[begin + k]}), payload.size(),
                            &heads[k]);
      parts.push_back(heads[k]);
      parts.push_back(payload);
      context_.metrics.bytes_pushed.Add(payload.size());
    }
    if (begin + count == window.to_send.size()) {
      wire::AppendFrameHead(wire::FrameType::kCommit, commit_id,
                            Encode(wire::Commit{window.tokens, options_.ack}), 0, &heads[count]);
      parts.push_back(heads[count]);
    }
    EMBER_CO_RETURN_IF_ERROR(co_await connection.SendParts(parts));
  }
  co_return OkStatus();
}

io::Task<Status> PutCall::ReadAnswer(cluster::Connection& connection,
                                     const Flight::Question& question, Window* window) {
  using wire::FrameType;
  if (question.commit) {
    Result<wire::CommitReply> reply = co_await connection.ReadMessage<wire::CommitReply>(
        FrameType::kCommitReply, question.request_id);
    co_return reply.ok() ? OnCommitted(connection, *reply, window) : reply.status();
  }
  Result<wire::ReserveReply> reply = co_await connection.ReadMessage<wire::ReserveReply>(
      FrameType::kReserveReply, question.request_id);
  co_return reply.ok() ? OnReserved(connection, *reply, window) : reply.status();
}

Status PutCall::OnReserved(cluster::Connection& connection, const wire::ReserveReply& reply,
                           Window* window) {
  if (reply.entries.size() != window->items.size()) {
    return connection.Break(UnavailableError("a reserve reply of another length"));
  }
  window->reservations = reply.entries;
  window->to_send.clear();
  window->tokens.clear();
  for (size_t k = 0; k < window->items.size(); ++k) {
    const wire::ReserveEntry& entry = reply.entries[k];
    if (entry.have || entry.code != StatusCode::kOk) continue;
    window->to_send.push_back(window->items[k]);
    window->tokens.push_back(entry.token);
  }
  if (window->to_send.empty()) Settle(connection, window);
  return OkStatus();
}

Status PutCall::OnCommitted(cluster::Connection& connection, const wire::CommitReply& reply,
                            Window* window) {
  if (reply.entries.size() != window->to_send.size()) {
    return connection.Break(UnavailableError("a commit reply of another length"));
  }
  for (size_t k = 0; k < window->to_send.size(); ++k) {
    const uint32_t i = window->to_send[k];
    const auto& [code, level] = reply.entries[k];
    if (code == StatusCode::kOk) {
      ++outcomes_[i].copies;
      outcomes_[i].disk_copies += level == AckLevel::kDisk;
    } else {
      Refuse(i, Status(code, NameOf(connection) + " refused the commit"));
    }
  }
  Settle(connection, window);
  return OkStatus();
}

// What the reservation alone decided counts only now, for it may be made again on another
// connection.
void PutCall::Settle(const cluster::Connection& connection, Window* window) {
  window->settled = true;
  for (size_t k = 0; k < window->items.size(); ++k) {
    const uint32_t i = window->items[k];
    const wire::ReserveEntry& entry = window->reservations[k];
    if (entry.have) {
      ++outcomes_[i].copies;
      outcomes_[i].disk_copies += entry.level == AckLevel::kDisk;
      ++had_[i];
    } else if (entry.code != StatusCode::kOk) {
      Refuse(i, Status(entry.code, NameOf(connection) + " refused the reservation"));
    }
  }
}

void PutCall::Refuse(uint32_t i, const Status& status) {
  if (outcomes_[i].status.ok()) outcomes_[i].status = status;
}

}  // namespace ember
