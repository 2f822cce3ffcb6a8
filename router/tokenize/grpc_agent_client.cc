#include "router/tokenize/grpc_agent_client.h"

#include <grpcpp/grpcpp.h>

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <map>
#include <thread>

#include "proto/rpc/agent.grpc.pb.h"
#include "router/fleet/agent_message.h"

namespace ember::router {
namespace {

namespace asio = boost::asio;

constexpr size_t kThreads = 4;  // tokenizing at once; each call ends by its deadline

struct Call {
  grpc::ClientContext context;
  rpc::TokenizeRequest request;
  rpc::TokenizeReply reply;
};

// A call under way that holds no thread; it frees itself when it is answered.
class PendingCall {
 public:
  virtual ~PendingCall() = default;
  virtual void OnAnswered() = 0;
};

template <typename Reply>
struct UnaryCall final : PendingCall {
  void OnAnswered() override { done(*this); }
  grpc::ClientContext context;
  Reply reply;
  grpc::Status status;
  std::shared_ptr<rpc::Agent::Stub> stub;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
  std::function<void(const UnaryCall&)> done;
};

void SetDeadline(Duration deadline, grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() +
                        std::chrono::duration_cast<microseconds>(deadline));
}

std::string_view NameOf(rpc::PrefetchReply::Outcome outcome) {
  switch (outcome) {
    case rpc::PrefetchReply::ACCEPTED:
      return "accepted";
    case rpc::PrefetchReply::ALREADY_THERE:
      return "already_there";
    case rpc::PrefetchReply::NO_ROOM:
      return "no_room";
    case rpc::PrefetchReply::NOTHING:
      return "nothing";
    default:
      return "unknown";
  }
}

StatusCode CodeOf(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::UNIMPLEMENTED:
      return StatusCode::kInvalid;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return StatusCode::kDeadline;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return StatusCode::kBusy;
    case grpc::StatusCode::CANCELLED:
      return StatusCode::kCancelled;
    case grpc::StatusCode::UNAVAILABLE:
      return StatusCode::kUnavailable;
    default:
      return StatusCode::kInternal;
  }
}

Result<TokenizedPrompt> ReadPrompt(const rpc::TokenizeReply& reply) {
  auto ns = ReadNamespace(reply.namespace_id());
  if (!ns.ok()) return ns.status();
  if (!ns->has_value()) return UnavailableError("the engine's identity is not known yet");
  Result<BlockChain> chain = ReadChain(reply.block_hashes());
  if (!chain.ok()) return chain.status();
  return TokenizedPrompt{
      .token_count = reply.token_count(), .ns = **ns, .chain = *std::move(chain)};
}

// The value that `read` makes of the reply to a call that `begin` begins: on its way when the
// coroutine is first suspended.
template <typename Reply, typename Value, typename Begin>
asio::awaitable<Result<Value>> Ask(std::shared_ptr<rpc::Agent::Stub> stub, Duration deadline,
                                   Begin begin, Value (*read)(const Reply&)) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto start = [&](auto handler) {
    auto call = std::make_unique<UnaryCall<Reply>>();
    SetDeadline(deadline, &call->context);
    call->stub = stub;
    // std::function copies what it holds, and a handler can't be copied.
    const auto kept = std::make_shared<decltype(handler)>(std::move(handler));
    call->done = [executor, kept, read](const UnaryCall<Reply>& answered) {
      const grpc::Status& status = answered.status;
      Result<Value> value = status.ok()
                                ? Result<Value>(read(answered.reply))
                                : Status(CodeOf(status.error_code()), status.error_message());
      asio::post(executor, [kept, value = std::move(value)]() mutable {
        std::move (*kept)(std::move(value));
      });
    };
    call->reader = begin(*stub, &call->context);
    UnaryCall<Reply>* const tag = call.release();  // answer_thread's from here on
    tag->reader->Finish(&tag->reply, &tag->status, static_cast<PendingCall*>(tag));
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(Result<Value>)>(
      std::move(start), asio::use_awaitable);
}

std::string_view OutcomeOf(const rpc::PrefetchReply& reply) { return NameOf(reply.outcome()); }

LongestPrefix PrefixOf(const rpc::LongestPrefixReply& reply) {
  return {.local_blocks = reply.local_blocks(), .store_blocks = reply.store_blocks()};
}

}  // namespace

struct GrpcAgentClient::Impl {
  std::map<ReplicaNumber, std::shared_ptr<rpc::Agent::Stub>> stubs;  // of those with an agent
  // Blocking calls on threads of our own: the callback API's shared queue can abort the process
  // when its last channel goes (gRPC 1.51: a poller's unref after the queue's destruction).
  asio::thread_pool threads{kThreads};
  // These hold no thread while they are under way: one agent that hangs keeps no other from its
  // own.
  grpc::CompletionQueue answers;
  std::thread answer_thread{[this] {
    void* tag = nullptr;
    for (bool ok = false; answers.Next(&tag, &ok);) {
      const std::unique_ptr<PendingCall> call(static_cast<PendingCall*>(tag));
      call->OnAnswered();
    }
  }};
  ~Impl() {
    threads.join();
    answers.Shutdown();
    answer_thread.join();
  }
  asio::awaitable<grpc::Status> Send(ReplicaNumber replica, std::shared_ptr<Call> call);
};

GrpcAgentClient::GrpcAgentClient() : impl_(std::make_unique<Impl>()) {}

GrpcAgentClient::~GrpcAgentClient() = default;

void GrpcAgentClient::OnAdded(const Endpoint& endpoint) {
  const std::string& address = endpoint.config.grpc;
  if (address.empty()) return;
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // agents are neighbours
  impl_->stubs[endpoint.members.front()] = rpc::Agent::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

void GrpcAgentClient::OnRemoved(const Endpoint& endpoint) {
  impl_->stubs.erase(endpoint.members.front());
}

bool GrpcAgentClient::CanAsk(ReplicaNumber replica) const { return impl_->stubs.contains(replica); }

asio::awaitable<grpc::Status> GrpcAgentClient::Impl::Send(ReplicaNumber replica,
                                                          std::shared_ptr<Call> call) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  auto start = [&](auto handler) {
    asio::post(threads, [stub = stubs.at(replica), call, executor,
                         handler = std::move(handler)]() mutable {
      grpc::Status status = stub->Tokenize(&call->context, call->request, &call->reply);
      asio::post(executor, [handler = std::move(handler), status = std::move(status)]() mutable {
        std::move(handler)(std::move(status));
      });
    });
  };
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(grpc::Status)>(
      std::move(start), asio::use_awaitable);
}

asio::awaitable<Result<TokenizedPrompt>> GrpcAgentClient::Tokenize(ReplicaNumber replica,
                                                                   std::string_view path,
                                                                   std::string_view body,
                                                                   Duration deadline) {
  auto call = std::make_shared<Call>();
  SetDeadline(deadline, &call->context);
  call->request.set_path(std::string(path));
  call->request.set_body(std::string(body));
  const grpc::Status status = co_await impl_->Send(replica, call);
  if (!status.ok()) co_return Status(CodeOf(status.error_code()), status.error_message());
  co_return ReadPrompt(call->reply);
}

asio::awaitable<Result<std::string_view>> GrpcAgentClient::Prefetch(ReplicaNumber replica,
                                                                    PrefetchHint hint,
                                                                    Duration deadline) {
  rpc::PrefetchRequest request;
  request.set_path(std::move(hint.path));
  request.set_body(std::move(hint.body));
  request.mutable_token_ids()->Add(hint.tokens.begin(), hint.tokens.end());
  request.set_tokens(hint.wanted);
  const auto begin = [&](rpc::Agent::Stub& stub, grpc::ClientContext* context) {
    return stub.AsyncPrefetch(context, request, &impl_->answers);
  };
  co_return co_await Ask(impl_->stubs.at(replica), deadline, begin, OutcomeOf);
}

asio::awaitable<Result<LongestPrefix>> GrpcAgentClient::AskLongestPrefix(ReplicaNumber replica,
                                                                         BlockChain chain,
                                                                         Duration deadline) {
  rpc::LongestPrefixRequest request;
  for (const BlockHash& block : chain)
    request.mutable_block_hashes()->append(AsString(block.bytes));
  const auto begin = [&](rpc::Agent::Stub& stub, grpc::ClientContext* context) {
    return stub.AsyncLongestPrefix(context, request, &impl_->answers);
  };
  co_return co_await Ask(impl_->stubs.at(replica), deadline, begin, PrefixOf);
}

}  // namespace ember::router
