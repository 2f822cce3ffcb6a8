#include "client/grpc_client/grpc_node.h"

#include <grpcpp/grpcpp.h>

namespace ember {
namespace {

constexpr Duration kNoteTimeout = seconds(1);  // of what no caller waits for

std::shared_ptr<grpc::Channel> ChannelTo(const io::Endpoint& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // nodes are neighbours
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  return grpc::CreateCustomChannel(endpoint.ToString(), grpc::InsecureChannelCredentials(),
                                   arguments);
}

Status FromGrpc(const grpc::Status& status) {
  const std::string& message = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return OkStatus();
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return DeadlineError(message);
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return BusyError(message);
    case grpc::StatusCode::INVALID_ARGUMENT:
      return InvalidError(message);
    case grpc::StatusCode::CANCELLED:
      return CancelledError(message);
    default:
      return UnavailableError(message);
  }
}

}  // namespace

// One call from its start to its end, known to Cancel.
class GrpcNode::Call {
 public:
  Call(GrpcNode* node, TimePoint deadline) : node_(node) {
    const auto left = std::chrono::duration_cast<std::chrono::system_clock::duration>(
        deadline - std::chrono::steady_clock::now());
    context.set_deadline(std::chrono::system_clock::now() + left);
    const std::lock_guard lock(node_->mutex_);
    node_->running_.insert(&context);
    if (node_->cancelled_) context.TryCancel();
  }
  ~Call() {
    const std::lock_guard lock(node_->mutex_);
    node_->running_.erase(&context);
  }
  Call(const Call&) = delete;

  grpc::ClientContext context;

 private:
  GrpcNode* const node_;
};

GrpcNode::GrpcNode(io::Endpoint endpoint)
    : endpoint_(std::move(endpoint)),
      control_(rpc::StoreControl::NewStub(ChannelTo(endpoint_))),
      data_(rpc::StoreData::NewStub(ChannelTo(endpoint_))) {}

void GrpcNode::Cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : running_) context->TryCancel();
}

Result<rpc::StoreStatus> GrpcNode::GetStatus(TimePoint deadline) {
  Call call(this, deadline);
  rpc::StoreStatus reply;
  const grpc::Status status = control_->GetStatus(&call.context, {}, &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

Result<rpc::MatchSegmentsReply> GrpcNode::Match(const rpc::MatchSegmentsRequest& request,
                                                TimePoint deadline) {
  Call call(this, deadline);
  rpc::MatchSegmentsReply reply;
  const grpc::Status status = data_->Match(&call.context, request, &reply);
  if (!status.ok()) return FromGrpc(status);
  if (reply.segments_size() != request.names_size()) {
    return UnavailableError("a match reply of another length");
  }
  return reply;
}

Status GrpcNode::Get(const rpc::GetSegmentsRequest& request, TimePoint deadline,
                     const std::function<Status(const rpc::GetPiece&)>& take) {
  Call call(this, deadline);
  const auto reader = data_->Get(&call.context, request);
  rpc::GetPiece piece;
  Status taken;
  while (taken.ok() && reader->Read(&piece)) taken = take(piece);
  if (!taken.ok()) call.context.TryCancel();
  const grpc::Status end = reader->Finish();
  return taken.ok() ? FromGrpc(end) : taken;
}

Result<rpc::PutSegmentsReply> GrpcNode::Put(
    TimePoint deadline,
    const std::function<void(const std::function<bool(const rpc::PutPiece&)>&)>& feed) {
  Call call(this, deadline);
  rpc::PutSegmentsReply reply;
  const auto writer = data_->Put(&call.context, &reply);
  feed([&](const rpc::PutPiece& piece) { return writer->Write(piece); });
  writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

Status GrpcNode::Release(const rpc::ReleaseLeasesRequest& request) {
  Call call(this, std::chrono::steady_clock::now() + kNoteTimeout);
  rpc::ReleaseLeasesReply reply;
  return FromGrpc(data_->Release(&call.context, request, &reply));
}

void GrpcNode::ReportCorrupt(const rpc::ReportCorruptRequest& request) {
  Call call(this, std::chrono::steady_clock::now() + kNoteTimeout);
  rpc::ReportCorruptReply reply;
  // Lost when the node can't be reached; the next reader reports again.
  (void)data_->ReportCorrupt(&call.context, request, &reply);
}

}  // namespace ember
