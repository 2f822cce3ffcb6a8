#include "tests/unit/router/fake_agent.h"

#include <cstring>

#include "proto/base/check.h"

namespace ember::router {

FakeAgent::FakeAgent(rpc::Snapshot snapshot, int port) : snapshot_(std::move(snapshot)) {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials(),
                           &port_);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  EMBER_CHECK(server_ != nullptr && port_ != 0, "the fake agent listens");
}

void FakeAgent::Push(rpc::AgentEvent event, uint64_t skip) {
  std::lock_guard lock(mutex_);
  sequence_ += 1 + skip;
  event.set_incarnation(99);
  event.set_sequence(sequence_);
  events_.push_back(std::move(event));
  changed_.notify_all();
}

void FakeAgent::Hold(uint32_t slot, std::string hashes, uint64_t skip) {
  rpc::AgentEvent event;
  event.mutable_change()->mutable_held()->set_slot(slot);
  event.mutable_change()->mutable_held()->set_block_hashes(std::move(hashes));
  Push(std::move(event), skip);
}

void FakeAgent::CutStreams() {
  std::lock_guard lock(mutex_);
  ++cuts_;
  changed_.notify_all();
}

void FakeAgent::Stop() {
  if (server_ == nullptr) return;
  CutStreams();
  server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  server_.reset();
}

grpc::Status FakeAgent::Watch(grpc::ServerContext* context, const rpc::WatchRequest*,
                              grpc::ServerWriter<rpc::AgentEvent>* writer) {
  std::unique_lock lock(mutex_);
  ++watches_;
  const uint64_t cuts = cuts_;
  rpc::AgentEvent event;
  event.set_incarnation(99);
  event.set_sequence(sequence_);
  *event.mutable_snapshot() = snapshot_;
  events_.clear();
  while (writer->Write(event)) {
    while (events_.empty() && cuts == cuts_ && !context->IsCancelled()) {
      changed_.wait_for(lock, std::chrono::milliseconds(20));
    }
    if (cuts != cuts_) return grpc::Status::OK;
    if (context->IsCancelled()) return grpc::Status::CANCELLED;
    event = std::move(events_.front());
    events_.pop_front();
  }
  return grpc::Status::CANCELLED;
}

std::string Hashes(uint8_t seed, uint32_t count) {
  std::string out;
  for (uint32_t i = 0; i < count; ++i) {
    std::string hash(16, '\0');
    hash[0] = static_cast<char>(seed);
    std::memcpy(&hash[4], &i, sizeof i);
    out += hash;
  }
  return out;
}

rpc::Snapshot SnapshotOf(const std::string& id, uint8_t ns) {
  rpc::Snapshot snapshot;
  snapshot.set_replica_id(id);
  snapshot.set_namespace_id(std::string(16, static_cast<char>(ns)));
  snapshot.set_tokens_per_block(16);
  snapshot.set_model("m");
  snapshot.mutable_report()->set_healthy(true);
  snapshot.mutable_report()->set_slots_total(2);
  snapshot.mutable_report()->set_prefill_linear_ms(5);
  return snapshot;
}

}  // namespace ember::router
