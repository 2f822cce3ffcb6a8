// FakeAgent: a real gRPC server that says what the test tells it to.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "proto/rpc/agent.grpc.pb.h"

namespace ember::router {

class FakeAgent final : public rpc::Agent::Service {
 public:
  using TokenizeAnswer =
      std::function<grpc::Status(const rpc::TokenizeRequest&, rpc::TokenizeReply*)>;

  // Port 0 takes a free one. Every stream starts with `snapshot`.
  explicit FakeAgent(rpc::Snapshot snapshot, int port = 0);
  ~FakeAgent() override { Stop(); }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }
  int watches() const { return watches_.load(); }
  // Sends this to who watches, with the next number, or `skip` numbers later.
  void Push(rpc::AgentEvent event, uint64_t skip = 0);
  void Hold(uint32_t slot, std::string hashes, uint64_t skip = 0);
  // Ends the streams; the server goes on.
  void CutStreams();
  void Stop();

  TokenizeAnswer tokenize;
  std::function<grpc::Status(const rpc::PrefetchRequest&, rpc::PrefetchReply*)> prefetch;
  std::function<grpc::Status(const rpc::LongestPrefixRequest&, rpc::LongestPrefixReply*)> longest;

  grpc::Status Watch(grpc::ServerContext* context, const rpc::WatchRequest*,
                     grpc::ServerWriter<rpc::AgentEvent>* writer) override;
  grpc::Status Tokenize(grpc::ServerContext*, const rpc::TokenizeRequest* request,
                        rpc::TokenizeReply* reply) override {
    return tokenize(*request, reply);
  }
  grpc::Status Prefetch(grpc::ServerContext*, const rpc::PrefetchRequest* request,
                        rpc::PrefetchReply* reply) override {
    return prefetch(*request, reply);
  }
  grpc::Status LongestPrefix(grpc::ServerContext*, const rpc::LongestPrefixRequest* request,
                             rpc::LongestPrefixReply* reply) override {
    return longest(*request, reply);
  }

 private:
  const rpc::Snapshot snapshot_;
  int port_ = 0;
  std::atomic<int> watches_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<rpc::AgentEvent> events_;
  uint64_t sequence_ = 1;
  uint64_t cuts_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// `count` hashes of the chain numbered by `seed`.
std::string Hashes(uint8_t seed, uint32_t count);
rpc::Snapshot SnapshotOf(const std::string& id, uint8_t ns = 7);

}  // namespace ember::router
