#include "client/store_client/match_call.h"

#include <map>
#include <numeric>

#include "proto/wire/limits.h"

namespace ember {

MatchCall::MatchCall(CallContext& context, std::span<const SegmentRef> segments, TimePoint deadline,
                     const MatchOptions& options)
    : context_(context),
      segments_(segments.begin(), segments.end()),
      deadline_(deadline),
      options_(options),
      open_(segments.size()),
      undecided_(segments.size()),
      call_(&context.shared_loop) {
  result_.segments.resize(segments.size());
}

MatchResult MatchCall::Run() {
  context_.shared_loop.Wait(call_, [this] {
    if (!context_.Spawn(Begin())) Finish();
  });
  return std::move(result_);
}

io::Task<void> MatchCall::Begin() {
  const auto self = shared_from_this();
  Result<std::shared_ptr<const Cluster>> cluster = co_await context_.membership.Get(deadline_);
  if (cluster.ok()) {
    cluster_ = *std::move(cluster);
    AskOwners();
  } else {
    for (SegmentMatch& segment : result_.segments) segment.miss = MissReasonOf(cluster.status());
    Finish();
  }
}

void MatchCall::AskOwners() {
  OwnerList owners(cluster_->view, context_.options.copies);
  std::map<size_t, Question> questions;
  for (uint32_t i = 0; i < segments_.size(); ++i) {
    const std::vector<size_t>& of = owners.Of(segments_[i]);
    open_[i] = static_cast<uint32_t>(of.size());
    for (size_t rank = 0; rank < of.size(); ++rank) {
      questions[of[rank]].segments.push_back(i);
      questions[of[rank]].ranks.push_back(static_cast<uint8_t>(rank));
    }
  }
  // A view whose members all have weight 0 owns nothing.
  if (questions.empty()) {
    for (SegmentMatch& segment : result_.segments) segment.miss = MissReason::kLostNode;
    return Finish();
  }
  for (auto& [member, question] : questions) {
    context_.Spawn(
        AskNode(cluster_->nodes[member], std::make_shared<const Question>(std::move(question))));
  }
}

io::Task<void> MatchCall::AskNode(std::shared_ptr<cluster::NodePeers> node,
                                  std::shared_ptr<const Question> question) {
  const auto self = shared_from_this();
  if (const Status status = co_await node->Learn(deadline_); !status.ok()) {
    for (uint32_t segment : question->segments) Note(segment, MissReasonOf(status), 0);
    co_return;
  }
  std::vector<uint32_t> places(question->segments.size());
  std::iota(places.begin(), places.end(), 0u);
  for (ShardShare& share :
       ShareByShard(*node, std::move(places), [&](uint32_t place) -> const SegmentRef& {
         return segments_[question->segments[place]];
       })) {
    if (!context_.Spawn(AskShard(question, share))) {
      for (uint32_t place : share.items) {
        Note(question->segments[place], MissReason::kLostNode, 0);
      }
    }
  }
}

io::Task<void> MatchCall::AskShard(std::shared_ptr<const Question> question, ShardShare share) {
  const auto self = shared_from_this();
  size_t answered = 0;
  const Status status = co_await share.peer->Exchange(
      cluster::Lane::kLoad, deadline_, [&](cluster::Connection& connection) {
        return AskOn(connection, *question, share, &answered);
      });
  for (; answered < share.items.size(); ++answered) {
    Note(question->segments[share.items[answered]], MissReasonOf(status), 0);
  }
}

io::Task<Status> MatchCall::AskOn(cluster::Connection& connection, const Question& question,
                                  const ShardShare& share, size_t* answered) {
  const bool choice = context_.options.copies > 1 && cluster_->view.members.size() > 1;
  while (*answered < share.items.size()) {
    const size_t count = std::min(share.items.size() - *answered, size_t{wire::kMaxKeysPerBatch});
    wire::Match match{.keys = {}, .lease_ms = LeaseMs(options_.lease)};
    match.keys.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      match.keys.push_back(segments_[question.segments[share.items[*answered + i]]].key);
    }
    Result<wire::MatchReply> reply = co_await connection.Call<wire::MatchReply>(
        wire::FrameType::kMatch, match, wire::FrameType::kMatchReply);
    if (!reply.ok()) co_return reply.status();
    if (reply->entries.size() != count) {
      co_return connection.Break(UnavailableError("a match reply of another length"));
    }
    TakeLease(share.peer, reply->lease_id);
    for (const wire::MatchEntry& entry : reply->entries) {
      const uint32_t place = share.items[*answered];
      const uint32_t segment = question.segments[place];
      const bool present = entry.miss == MissReason::kNone;
      if (choice) context_.hints.Note(segments_[segment].key, question.ranks[place], present);
      Note(segment, MissReasonAt(*share.peer, entry.miss), entry.payload_length);
      ++*answered;
    }
  }
  co_return OkStatus();
}

void MatchCall::TakeLease(const std::shared_ptr<cluster::Peer>& peer, uint64_t lease_id) {
  if (lease_id == 0) return;
  if (finished_) return context_.returns->Add(peer, lease_id);  // nobody would
  leases_.push_back({peer, lease_id});
}

void MatchCall::Note(uint32_t segment, MissReason miss, uint64_t payload_bytes) {
  if (finished_ || open_[segment] == 0) return;
  SegmentMatch& match = result_.segments[segment];
  --open_[segment];
  if (miss == MissReason::kNone) {
    open_[segment] = 0;
    match = {MissReason::kNone, payload_bytes};
  } else {
    match.miss = MoreTelling(match.miss, miss);
  }
  if (open_[segment] == 0 && --undecided_ == 0) Finish();
}

void MatchCall::Finish() {
  if (std::exchange(finished_, true)) return;
  // Shut down before every owner was asked.
  for (size_t i = 0; i < segments_.size(); ++i) {
    SegmentMatch& match = result_.segments[i];
    if (cluster_ == nullptr && match.miss == MissReason::kNone) match.miss = MissReason::kLostNode;
  }
  while (result_.usable < segments_.size() &&
         result_.segments[result_.usable].miss == MissReason::kNone) {
    ++result_.usable;
  }
  if (!leases_.empty()) {
    result_.lease = Lease([returns = context_.returns, leases = std::move(leases_)] {
      for (const ShardLease& lease : leases) returns->Add(lease.peer, lease.id);
    });
  }
  call_.Finish();
}

}  // namespace ember
