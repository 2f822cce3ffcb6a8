#include "tests/sim/store_user.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ember::sim {

using kv::testing::KeyOf;
using kv::testing::TestSegment;

StoreUser::StoreUser(SimLoop* loop, StoreModel* model, StoreUserOptions options)
    : loop_(loop),
      model_(model),
      options_(std::move(options)),
      dice_(loop->simulation().dice()),
      connections_(options_.shards.size()) {}

uint64_t StoreUser::Number(size_t shard) {
  const uint64_t shards = options_.shards.size();
  return dice_.Below(model_->keys / shards) * shards + shard;
}

std::vector<uint64_t> StoreUser::Numbers(size_t shard, size_t most) {
  std::vector<uint64_t> numbers;
  for (size_t n = dice_.Between(1, most); n > 0; --n) numbers.push_back(Number(shard));
  return numbers;
}

io::Task<void> StoreUser::Run(const bool* stop) {
  for (int i = 0; i < options_.operations && !*stop; ++i) {
    const size_t shard = dice_.Below(options_.shards.size());
    std::unique_ptr<Connection>& connection = connections_[shard];
    if (connection == nullptr) {
      auto dialed = co_await Connection::Dial(
          *loop_,
          {.endpoint = options_.shards[shard], .client_name = "user", .expected_node_id = "s1"});
      if (!dialed.ok()) {
        co_await loop_->Sleep(milliseconds(50));
        continue;
      }
      connection = *std::move(dialed);
    }
    connection->SetDeadline(loop_->Now() + options_.patience);
    const Status status = co_await Operate(*connection, shard);
    connection->ClearDeadline();
    if (!status.ok()) ++model_->broken;
    if (!connection->usable() || dice_.Chance(0.02)) connection.reset();
  }
  connections_.clear();
}

io::Task<Status> StoreUser::Operate(Connection& connection, size_t shard) {
  switch (dice_.Below(10)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return Put(connection, shard);
    case 4:
    case 5:
      return Match(connection, shard);
    case 6:
      return ReportFalsely(connection, shard);
    default:
      return Get(connection, Numbers(shard, 8), {}, {});
  }
}

io::Task<Status> StoreUser::Put(Connection& connection, size_t shard) {
  wire::Reserve reserve{.ack = options_.ack};
  std::vector<uint64_t> numbers = Numbers(shard, 4);
  std::vector<TestSegment> segments;
  for (uint64_t number : numbers) {
    segments.push_back(model_->Make(number, dice_.Below(StoreModel::kVariants)));
    reserve.headers.push_back(segments.back().encoded_header);
  }
  auto reserved = co_await connection.Call<wire::ReserveReply>(wire::FrameType::kReserve, reserve,
                                                               wire::FrameType::kReserveReply);
  if (!reserved.ok()) co_return reserved.status();
  EXPECT_EQ(reserved->entries.size(), numbers.size());
  wire::Commit commit{.tokens = {}, .ack = options_.ack};
  std::vector<uint64_t> committed_numbers;
  std::vector<bool> whole;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const wire::ReserveEntry& entry = reserved->entries[i];
    if (entry.have) EXPECT_TRUE(model_->offered.contains(numbers[i]));
    if (entry.level == AckLevel::kDisk) model_->durable.insert(numbers[i]);
    if (entry.have || entry.code != StatusCode::kOk) continue;
    if (dice_.Chance(0.02)) {  // gone in the middle
      connection.Close();
      co_return CancelledError("the user went");
    }
    if (dice_.Chance(0.02)) co_await loop_->Sleep(seconds(dice_.Between(1, 40)));
    if (dice_.Chance(0.05)) {
      const Bytes meta = Encode(wire::Abort{{entry.token}});
      EMBER_CO_RETURN_IF_ERROR(
          co_await connection.Send(wire::FrameType::kAbort, connection.NextRequestId(), meta));
      continue;
    }
    Bytes payload = segments[i].payload;
    bool good = true;
    if (dice_.Chance(0.05)) {
      good = false;
      payload[dice_.Below(payload.size())] ^= std::byte{4};
    } else if (dice_.Chance(0.05)) {
      good = false;
      payload.resize(dice_.Below(payload.size()));
    }
    EMBER_CO_RETURN_IF_ERROR(co_await SendPayload(connection, entry.token, payload));
    commit.tokens.push_back(entry.token);
    committed_numbers.push_back(numbers[i]);
    whole.push_back(good);
    if (good) model_->offered.insert(numbers[i]);
  }
  if (commit.tokens.empty()) co_return OkStatus();
  auto committed = co_await connection.Call<wire::CommitReply>(wire::FrameType::kCommit, commit,
                                                               wire::FrameType::kCommitReply);
  if (!committed.ok()) co_return committed.status();
  EXPECT_EQ(committed->entries.size(), commit.tokens.size());
  for (size_t i = 0; i < whole.size(); ++i) {
    const StatusCode code = committed->entries[i].code;
    if (!whole[i]) EXPECT_NE(code, StatusCode::kOk) << "a bad payload was taken";
    // Else only its deadline, while the user slept, can have been in the way.
    if (whole[i]) EXPECT_TRUE(code == StatusCode::kOk || code == StatusCode::kNotFound);
    model_->stored += code == StatusCode::kOk;
    if (committed->entries[i].level == AckLevel::kDisk) {
      EXPECT_EQ(code, StatusCode::kOk);
      model_->durable.insert(committed_numbers[i]);
    }
  }
  co_return OkStatus();
}

// In up to three pieces.
io::Task<Status> StoreUser::SendPayload(Connection& connection, const wire::AttemptToken& token,
                                        ByteSpan payload) {
  for (uint64_t offset = 0; offset < payload.size();) {
    const uint64_t left = payload.size() - offset;
    const uint64_t n = dice_.Chance(0.5) ? left : dice_.Between(left / 3 + 1, left);
    const Bytes meta = Encode(wire::Write{token, offset});
    EMBER_CO_RETURN_IF_ERROR(co_await connection.Send(
        wire::FrameType::kWrite, connection.NextRequestId(), meta, payload.subspan(offset, n)));
    offset += n;
  }
  co_return OkStatus();
}

io::Task<Status> StoreUser::Match(Connection& connection, size_t shard) {
  wire::Match match;
  const std::vector<uint64_t> numbers = Numbers(shard, 8);
  for (uint64_t number : numbers) match.keys.push_back(KeyOf(number));
  const auto lease = milliseconds(dice_.Chance(0.5) ? dice_.Between(1, 3000) : 0);
  match.lease_ms = static_cast<uint32_t>(lease.count());
  const TimePoint asked = loop_->Now();
  auto reply = co_await connection.Call<wire::MatchReply>(wire::FrameType::kMatch, match,
                                                          wire::FrameType::kMatchReply);
  if (!reply.ok()) co_return reply.status();
  EXPECT_EQ(reply->entries.size(), numbers.size());
  std::vector<Leased> leased;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const wire::MatchEntry& entry = reply->entries[i];
    if (entry.miss != MissReason::kNone) continue;
    EXPECT_TRUE(model_->offered.contains(numbers[i]));
    EXPECT_EQ(entry.payload_length, model_->SizeOf(numbers[i]));
    leased.push_back({numbers[i], entry.generation});
  }
  if (reply->lease_id == 0) co_return OkStatus();
  if (dice_.Chance(0.7)) {
    std::vector<uint64_t> wanted;
    for (const Leased& l : leased) wanted.push_back(l.number);
    EMBER_CO_RETURN_IF_ERROR(co_await Get(connection, wanted, leased, asked + lease));
  }
  if (dice_.Chance(0.5)) co_return OkStatus();  // forgotten
  const Bytes meta = Encode(wire::Release{reply->lease_id});
  co_return co_await connection.Send(wire::FrameType::kRelease, connection.NextRequestId(), meta);
}

io::Task<Status> StoreUser::Get(Connection& connection, std::vector<uint64_t> numbers,
                                std::vector<Leased> leased, TimePoint lease_end) {
  wire::Get get;
  std::vector<bool> durable;  // before the question
  for (uint64_t number : numbers) {
    durable.push_back(model_->durable.contains(number));
    wire::GetItem item{.key = KeyOf(number)};
    if (dice_.Chance(0.5)) {
      item.offset = dice_.Below(model_->SizeOf(number));
      item.length = dice_.Below(model_->SizeOf(number) - item.offset + 1);
    }
    get.items.push_back(item);
  }
  const uint64_t id = connection.NextRequestId();
  const Bytes meta = Encode(get);
  EMBER_CO_RETURN_IF_ERROR(co_await connection.Send(wire::FrameType::kGet, id, meta));
  for (size_t i = 0; i < numbers.size(); ++i) {
    auto reply = co_await connection.ReadReply(wire::FrameType::kGetReply, id);
    if (!reply.ok()) co_return reply.status();
    auto decoded = wire::Decode<wire::GetReply>(reply->meta);
    EXPECT_TRUE(decoded.ok() && decoded->index == i) << "replies come in order";
    if (!decoded.ok()) co_return decoded.status();
    Bytes payload(reply->header.payload_length);
    if (!payload.empty()) EMBER_CO_RETURN_IF_ERROR(co_await connection.ReadPayload(payload));
    const bool hit = decoded->miss == MissReason::kNone;
    ++(hit ? model_->hits : model_->misses);
    if (!hit && decoded->miss != MissReason::kBusy) {
      EXPECT_FALSE(durable[i]) << "segment " << numbers[i]
                               << " was acknowledged on disk and is lost";
    }
    if (hit) {
      const wire::GetItem& item = get.items[i];
      const uint64_t rest = model_->SizeOf(numbers[i]) - item.offset;
      EXPECT_EQ(payload.size(), item.length == 0 ? rest : item.length);
      model_->Check(numbers[i], decoded->header, item.offset, payload);
    }
    if (i < leased.size() && loop_->Now() < lease_end) {
      // One that is on disk needs room in memory.
      EXPECT_TRUE(hit || decoded->miss == MissReason::kBusy) << "a leased segment was missed";
      auto header = DecodeSegmentHeader(decoded->header);
      if (hit && header.ok()) EXPECT_EQ(header->generation, leased[i].generation);
    }
  }
  co_return OkStatus();
}

io::Task<Status> StoreUser::ReportFalsely(Connection& connection, size_t shard) {
  const uint64_t number = Number(shard);
  const Bytes meta =
      Encode(wire::ReportCorrupt{KeyOf(number), {number, dice_.Below(StoreModel::kVariants)}});
  co_return co_await connection.Send(wire::FrameType::kReportCorrupt, connection.NextRequestId(),
                                     meta);
}

}  // namespace ember::sim
