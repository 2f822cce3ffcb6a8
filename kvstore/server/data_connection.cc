#include "kvstore/server/data_connection.h"

#include <algorithm>

namespace ember::kv {
namespace {

// A piece of payload is hashed right after it arrived: small enough to be in the cache still.
constexpr size_t kReceivePiece = 256 << 10;
// How much a peer that broke the protocol may still send while it reads why it is being closed.
constexpr uint64_t kFarewellBytes = 1 << 20;

// How far ahead of the reply segments are read from disk, at most.
constexpr size_t kPrefetchKeys = 64;
// In items of a reply: looked at so often whether more may be read ahead. While the reply is sent
// the disk must not run dry.
constexpr size_t kPrefetchEvery = 4;

double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

std::vector<AttemptToken> Tokens(const std::vector<wire::AttemptToken>& tokens) {
  std::vector<AttemptToken> out;
  for (const auto& t : tokens) out.push_back({t.high, t.low});
  return out;
}

// A name from outside, fit for a log line.
std::string Printable(std::string_view name) {
  std::string out(name.substr(0, 64));
  std::ranges::replace_if(
      out, [](char c) { return c < ' ' || c > '~' || c == '"'; }, '?');
  return out;
}

// The peer is there and should hear about it.
bool WorthTelling(StatusCode code) {
  return code == StatusCode::kInvalid || code == StatusCode::kMismatch || code == StatusCode::kBusy;
}

}  // namespace

DataConnection::DataConnection(ServerContext* context, OwnerId id,
                               std::unique_ptr<io::Stream> stream)
    : context_(context),
      id_(id),
      stream_(std::move(stream)),
      watch_(context->loop),
      reader_(context, stream_.get(), &watch_),
      replies_(context, stream_.get(), &watch_),
      peer_(stream_->peer_name()) {}

io::Task<Status> DataConnection::Run() {
  Status why = co_await Serve();
  context_->engine->Disconnect(id_);
  if (timed_out_) {
    context_->metrics->timeouts.Add();
    why = DeadlineError("the peer was too slow");
  } else if (WorthTelling(why.code())) {
    context_->metrics->protocol_errors.Add();
    co_await SayFarewell(why);
  }
  stream_->Close();
  co_return why;
}

void DataConnection::Finish() {
  finishing_ = true;
  if (reader_.idle()) stream_->Close();
}

void DataConnection::Sweep(TimePoint now) {
  if (!watch_.Due(now)) return;
  timed_out_ = true;
  stream_->Close();
}

io::Task<Status> DataConnection::Serve() {
  EMBER_CO_RETURN_IF_ERROR(co_await Handshake());
  for (;;) {
    if (!reader_.HasWholeFrame() || replies_.full()) {
      EMBER_CO_RETURN_IF_ERROR(co_await replies_.Flush());
      if (finishing_) co_return CancelledError("the server stops");
    }
    Result<Frame> frame = co_await reader_.Next();
    if (!frame.ok()) co_return frame.status();
    EMBER_CO_RETURN_IF_ERROR(co_await Handle(*frame));
    watch_.Unlimit();
  }
}

io::Task<Status> DataConnection::Handshake() {
  watch_.Limit(context_->options.hello_timeout);
  Result<Frame> frame = co_await reader_.Next();
  if (!frame.ok()) co_return frame.status();
  if (frame->header.type != wire::FrameType::kHello || frame->header.payload_length != 0) {
    co_return InvalidError("the first frame must be a hello");
  }
  Result<wire::Hello> hello = wire::Decode<wire::Hello>(frame->meta);
  if (!hello.ok()) co_return hello.status();
  peer_ += " (" + Printable(hello->client_name) + ")";
  if (hello->min_version > wire::kProtocolVersion || hello->max_version < wire::kProtocolVersion) {
    co_return MismatchError("this node speaks protocol version " +
                            std::to_string(wire::kProtocolVersion));
  }
  const DataServerOptions& options = context_->options;
  if (!hello->expected_node_id.empty() && hello->expected_node_id != options.node_id) {
    co_return MismatchError("this node is " + options.node_id);
  }
  const wire::HelloReply reply{.version = wire::kProtocolVersion,
                               .node_id = options.node_id,
                               .incarnation = options.incarnation,
                               .max_payload_bytes = context_->engine->options().max_segment_bytes,
                               .view_number = options.view_number,
                               .members = options.members,
                               .shard_ports = context_->shard_ports,
                               .shard = options.shard,
                               .shm_path = options.shm_path};
  replies_.Add(wire::FrameType::kHelloReply, frame->header.request_id, Encode(reply));
  watch_.Unlimit();
  co_return OkStatus();
}

io::Task<Status> DataConnection::Handle(const Frame& frame) {
  using wire::FrameType;
  const FrameType type = frame.header.type;
  if (type == FrameType::kWrite) co_return co_await HandleWrite(frame);
  if (frame.header.payload_length != 0) {
    co_return InvalidError("a payload on a frame that has none");
  }
  watch_.Unlimit();  // the request has arrived; its answer may take as long as the peer reads on
  switch (type) {
    case FrameType::kMatch:
      co_return HandleMatch(frame);
    case FrameType::kReserve:
      co_return co_await HandleReserve(frame);
    case FrameType::kCommit:
      co_return co_await HandleCommit(frame);
    case FrameType::kAbort:
      co_return HandleAbort(frame);
    case FrameType::kRelease:
      co_return HandleRelease(frame);
    case FrameType::kGet:
      co_return co_await HandleGet(frame);
    case FrameType::kReportCorrupt:
      co_return HandleReportCorrupt(frame);
    case FrameType::kPing:
      replies_.Add(FrameType::kPong, frame.header.request_id, {});
      co_return OkStatus();
    default:
      co_return InvalidError("frame type " + std::to_string(static_cast<uint16_t>(type)) +
                             " is not a request");
  }
}

Status DataConnection::HandleMatch(const Frame& frame) {
  const TimePoint start = context_->loop->Now();
  Result<wire::Match> match = wire::Decode<wire::Match>(frame.meta);
  if (!match.ok()) return match.status();
  const auto lease = milliseconds(std::min(match->lease_ms, wire::kMaxLeaseMs));
  ShardEngine::Matched matched = context_->engine->Match(id_, match->keys, lease);
  wire::MatchReply reply{.lease_id = matched.lease_id, .entries = {}};
  reply.entries.reserve(matched.keys.size());
  for (const auto& key : matched.keys) {
    reply.entries.push_back({key.miss, key.payload_length, key.generation, Tier::kMemory});
  }
  replies_.Add(wire::FrameType::kMatchReply, frame.header.request_id, Encode(reply));
  context_->metrics->match_seconds.Observe(Seconds(context_->loop->Now() - start));
  return OkStatus();
}

io::Task<Status> DataConnection::HandleReserve(const Frame& frame) {
  const uint64_t request_id = frame.header.request_id;
  Result<wire::Reserve> reserve = wire::Decode<wire::Reserve>(frame.meta);
  if (!reserve.ok()) co_return reserve.status();
  reserved_at_ = context_->loop->Now();
  const auto deadline = context_->engine->options().attempt_deadline;
  wire::ReserveReply reply;
  reply.deadline_ms = static_cast<uint32_t>(ToMilliseconds(deadline));
  reply.entries.reserve(reserve->headers.size());
  PersistList stored;
  for (const Bytes& header : reserve->headers) {
    const ShardEngine::Reservation r = context_->engine->Reserve(id_, header);
    if (r.have) stored.Add(r.key, reply.entries.size());
    reply.entries.push_back({r.code, r.have, {r.token.high, r.token.low}, AckLevel::kMemory});
  }
  if (reserve->ack == AckLevel::kDisk) {
    const Status status = co_await Persist(
        std::move(stored), [&](size_t i) { reply.entries[i].level = AckLevel::kDisk; });
    EMBER_CO_RETURN_IF_ERROR(status);
  }
  replies_.Add(wire::FrameType::kReserveReply, request_id, Encode(reply));
  co_return OkStatus();
}

// Until all of it is on disk or can't be; `durable` hears the places of what is.
io::Task<Status> DataConnection::Persist(PersistList list,
                                         const std::function<void(size_t)>& durable) {
  if (context_->disk == nullptr || list.keys.empty()) co_return OkStatus();
  // Who waits for an earlier answer must not wait for the disk too.
  EMBER_CO_RETURN_IF_ERROR(co_await replies_.Flush());
  const std::vector<StatusCode> codes = co_await context_->disk->Persist(std::move(list.keys));
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == StatusCode::kOk) durable(list.places[i]);
  }
  co_return OkStatus();
}

io::Task<Status> DataConnection::HandleWrite(const Frame& frame) {
  Result<wire::Write> write = wire::Decode<wire::Write>(frame.meta);
  if (!write.ok()) co_return write.status();
  // Who waits for an earlier answer must not wait for this payload too.
  EMBER_CO_RETURN_IF_ERROR(co_await replies_.Flush());
  uint64_t left = frame.header.payload_length;
  context_->metrics->bytes_in.Add(left);
  {
    const AttemptToken token{write->token.high, write->token.low};
    Result<WriteGrant> grant = context_->engine->BeginWrite(id_, token, write->offset, left);
    if (grant.ok()) {
      EMBER_CO_RETURN_IF_ERROR(co_await ReceiveInto(&*grant));
      left = grant->remaining().size();
    }
  }
  context_->metrics->discarded_bytes.Add(left);
  co_return co_await reader_.DiscardPayload(left);
}

// Until all of the payload is there, or nobody wants the rest.
io::Task<Status> DataConnection::ReceiveInto(WriteGrant* grant) {
  while (!grant->remaining().empty() && !grant->expired()) {
    const size_t piece = std::min(grant->remaining().size(), kReceivePiece);
    Result<size_t> read = co_await reader_.ReadPayload(grant->remaining().first(piece));
    if (!read.ok()) co_return read.status();
    grant->Advance(*read);
  }
  co_return OkStatus();
}

io::Task<Status> DataConnection::HandleCommit(const Frame& frame) {
  const uint64_t request_id = frame.header.request_id;
  Result<wire::Commit> commit = wire::Decode<wire::Commit>(frame.meta);
  if (!commit.ok()) co_return commit.status();
  wire::CommitReply reply;
  PersistList published;
  for (const AttemptToken& token : Tokens(commit->tokens)) {
    const std::optional<BlockKey> key = context_->engine->KeyOf(id_, token);
    const StatusCode code = context_->engine->Commit(id_, token);
    if (code == StatusCode::kOk) published.Add(*key, reply.entries.size());
    reply.entries.push_back({code, AckLevel::kMemory});
  }
  if (commit->ack == AckLevel::kDisk) {
    const Status status = co_await Persist(
        std::move(published), [&](size_t i) { reply.entries[i].level = AckLevel::kDisk; });
    EMBER_CO_RETURN_IF_ERROR(status);
  }
  replies_.Add(wire::FrameType::kCommitReply, request_id, Encode(reply));
  context_->metrics->put_seconds.Observe(Seconds(context_->loop->Now() - reserved_at_));
  co_return OkStatus();
}

Status DataConnection::HandleAbort(const Frame& frame) {
  Result<wire::Abort> abort = wire::Decode<wire::Abort>(frame.meta);
  if (!abort.ok()) return abort.status();
  for (const AttemptToken& token : Tokens(abort->tokens)) context_->engine->Abort(id_, token);
  return OkStatus();
}

Status DataConnection::HandleRelease(const Frame& frame) {
  Result<wire::Release> release = wire::Decode<wire::Release>(frame.meta);
  if (!release.ok()) return release.status();
  context_->engine->Release(release->lease_id);
  return OkStatus();
}

Status DataConnection::HandleReportCorrupt(const Frame& frame) {
  Result<wire::ReportCorrupt> report = wire::Decode<wire::ReportCorrupt>(frame.meta);
  if (!report.ok()) return report.status();
  context_->engine->ReportCorrupt(report->key, report->generation);
  return OkStatus();
}

// Each item is looked up when its turn comes, so a slow reader pins little at a time.
io::Task<Status> DataConnection::HandleGet(const Frame& frame) {
  const TimePoint start = context_->loop->Now();
  const uint64_t request_id = frame.header.request_id;
  Result<wire::Get> get = wire::Decode<wire::Get>(frame.meta);
  if (!get.ok()) co_return get.status();
  InPlace in_place{milliseconds(std::min(get->in_place_lease_ms, wire::kMaxLeaseMs))};
  const bool shared = in_place.duration > Duration::zero() && !context_->options.shm_path.empty();
  bool disk_used = false;
  for (uint32_t i = 0; i < get->items.size(); ++i) {
    ShardEngine::Found found = context_->engine->Get(get->items[i].key);
    if (found.on_disk || (disk_used && i % kPrefetchEvery == 0)) {
      PrefetchFrom(std::span(get->items).subspan(i));
    }
    if (found.on_disk) {
      disk_used = true;
      // What is ready need not wait for the disk.
      EMBER_CO_RETURN_IF_ERROR(co_await replies_.Flush());
      found = co_await context_->disk->Load(get->items[i].key);
    }
    AddGetReply(request_id, i, get->items[i], std::move(found), shared ? &in_place : nullptr);
    if (replies_.full()) EMBER_CO_RETURN_IF_ERROR(co_await replies_.Flush());
  }
  context_->metrics->get_seconds.Observe(Seconds(context_->loop->Now() - start));
  co_return OkStatus();
}

void DataConnection::PrefetchFrom(std::span<const wire::GetItem> items) {
  std::array<BlockKey, kPrefetchKeys> keys;
  const size_t count = std::min(keys.size(), items.size());
  for (size_t i = 0; i < count; ++i) keys[i] = items[i].key;
  context_->disk->Prefetch(std::span(keys).first(count));
}

void DataConnection::AddGetReply(uint64_t request_id, uint32_t index, const wire::GetItem& item,
                                 ShardEngine::Found found, InPlace* in_place) {
  wire::GetReply reply{.index = index, .miss = found.miss, .header = {}, .offset = item.offset};
  ByteSpan payload = found.pin.held() ? found.pin.payload() : ByteSpan();
  // Who asks for bytes past the end has another layout in mind.
  if (found.pin.held() &&
      (item.offset > payload.size() || item.length > payload.size() - item.offset)) {
    reply.miss = MissReason::kLayoutDiffers;
  }
  if (reply.miss != MissReason::kNone) {
    replies_.Add(wire::FrameType::kGetReply, request_id, Encode(reply));
    return;
  }
  payload = payload.subspan(item.offset, item.length == 0 ? std::dynamic_extent : item.length);
  reply.header.assign(found.pin.header().begin(), found.pin.header().end());
  if (in_place != nullptr &&
      context_->engine->AddToLease(found.pin, in_place->duration, &in_place->lease_id)) {
    reply.lease_id = in_place->lease_id;
    reply.place = {found.pin.offset() + item.offset, payload.size()};
    replies_.Add(wire::FrameType::kGetReply, request_id, Encode(reply));
    context_->metrics->shm_gets.Add();
    context_->metrics->shm_bytes.Add(payload.size());
    return;
  }
  replies_.Add(wire::FrameType::kGetReply, request_id, Encode(reply), payload,
               std::move(found.pin));
}

// Says why, and gives the peer a moment to read it: closing with unread input would reset the
// connection, and the reason might be lost.
io::Task<void> DataConnection::SayFarewell(const Status& why) {
  watch_.Unlimit();
  watch_.Limit(context_->options.farewell_timeout);
  const wire::ErrorReply error{why.code(), std::string(why.message())};
  replies_.Add(wire::FrameType::kError, 0, Encode(error));
  if ((co_await replies_.Flush()).ok()) co_await reader_.Drain(kFarewellBytes);
}

}  // namespace ember::kv
