#include "client/store_client/match_call.h"

#include <map>

#include "proto/wire/limits.h"

namespace ember {

MatchCall::MatchCall(CallContext& context, std::span<const SegmentRef> segments, TimePoint deadline)
    : context_(context),
      segments_(segments.begin(), segments.end()),
      deadline_(deadline),
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
  for (auto& [member, question] : questions) context_.Spawn(Ask(member, std::move(question)));
}

io::Task<void> MatchCall::Ask(size_t member, Question question) {
  const auto self = shared_from_this();
  const std::shared_ptr<cluster::Peer> peer = cluster_->peers[member];
  size_t answered = 0;
  const Status status = co_await peer->Exchange(
      cluster::Lane::kLoad, deadline_, [&](cluster::Connection& connection) {
        return AskOn(connection, *peer, question, &answered);
      });
  for (; answered < question.segments.size(); ++answered) {
    Note(question.segments[answered], MissReasonOf(status), 0);
  }
}

io::Task<Status> MatchCall::AskOn(cluster::Connection& connection, const cluster::Peer& peer,
                                  const Question& question, size_t* answered) {
  while (*answered < question.segments.size()) {
    const size_t count =
        std::min(question.segments.size() - *answered, size_t{wire::kMaxKeysPerBatch});
    wire::Match match;
    for (size_t i = 0; i < count; ++i) {
      match.keys.push_back(segments_[question.segments[*answered + i]].key);
    }
    Result<wire::MatchReply> reply = co_await connection.Call<wire::MatchReply>(
        wire::FrameType::kMatch, match, wire::FrameType::kMatchReply);
    if (!reply.ok()) co_return reply.status();
    if (reply->entries.size() != count) {
      co_return connection.Break(UnavailableError("a match reply of another length"));
    }
    for (const wire::MatchEntry& entry : reply->entries) {
      const uint32_t segment = question.segments[*answered];
      context_.hints.Note(segments_[segment].key, question.ranks[*answered],
                          entry.miss == MissReason::kNone);
      Note(segment, MissReasonAt(peer, entry.miss), entry.payload_length);
      ++*answered;
    }
  }
  co_return OkStatus();
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
  call_.Finish();
}

}  // namespace ember
