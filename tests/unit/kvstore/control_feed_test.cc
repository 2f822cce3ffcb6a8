// The feed and purges over gRPC: what a consumer knows becomes what the node holds (P5).
#include <map>
#include <mutex>
#include <thread>

#include "client/feed/feed_reader.h"
#include "client/feed/feed_tracker.h"
#include "client/store_client/store_client.h"
#include "kvstore/server/feed_readers.h"
#include "proto/rpc/store.grpc.pb.h"
#include "tests/unit/kvstore/control_fixture.h"

namespace ember::kv::testing {
namespace {

using Held = std::map<BlockKey, GenerationId>;

// Keeps what it is told, as client/feed/README.md says.
class Picture final : public FeedListener {
 public:
  void OnSnapshot(uint32_t shard, uint32_t shard_count) override {
    const std::lock_guard lock(mutex_);
    ++snapshots_;
    current_.erase(shard);
    shards_[shard].clear();
    shards_.erase(shards_.lower_bound(shard_count), shards_.end());
  }
  void OnStored(uint32_t shard, const FeedItem& item) override {
    const std::lock_guard lock(mutex_);
    shards_[shard][item.key] = item.generation;
  }
  void OnRemoved(uint32_t shard, const FeedItem& item, std::string_view reason) override {
    const std::lock_guard lock(mutex_);
    shards_[shard].erase(item.key);
    ++removed_[std::string(reason)];
  }
  void OnPurged(uint32_t, const PurgeScope&, uint64_t epoch) override {
    const std::lock_guard lock(mutex_);
    epoch_ = epoch;
  }
  void OnCurrent(uint32_t shard) override {
    const std::lock_guard lock(mutex_);
    current_[shard] = true;
  }
  void OnLost(const Status&) override {
    const std::lock_guard lock(mutex_);
    ++losses_;
    current_.clear();
  }

  template <typename F>
  auto Read(F read) const {
    const std::lock_guard lock(mutex_);
    return read();
  }
  Held all() const {
    const std::lock_guard lock(mutex_);
    Held all;
    for (const auto& [shard, held] : shards_) all.insert(held.begin(), held.end());
    return all;
  }
  size_t current() const {
    return Read([this] { return current_.size(); });
  }
  size_t losses() const {
    return Read([this] { return losses_; });
  }
  size_t snapshots() const {
    return Read([this] { return snapshots_; });
  }
  uint64_t epoch() const {
    return Read([this] { return epoch_; });
  }
  size_t removed(const std::string& reason) const {
    return Read([&] { return removed_.count(reason) ? removed_.at(reason) : 0; });
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint32_t, Held> shards_;
  std::map<uint32_t, bool> current_;
  std::map<std::string, size_t> removed_;
  size_t losses_ = 0, snapshots_ = 0;
  uint64_t epoch_ = 0;
};

class ControlFeedTest : public ControlFixture {
 protected:
  void SetUp() override {
    ControlFixture::SetUp();
    client_ = *StoreClient::Create({.seeds = {config_.listen},
                                    .tenant = "acme",
                                    .copies = 1,
                                    .back_off_max = milliseconds(100)});
  }
  bool Put(uint64_t number, size_t bytes = 2000) {
    const TestSegment segment = MakeSegment(number, bytes);
    const PutRequest request{.ref = RefOf(number),
                             .tokens = segment.header.tokens,
                             .payload = segment.payload,
                             .layer_offsets = {}};
    return client_->Put({&request, 1}, segment.header.layout, seconds(10))[0].copies > 0;
  }
  // A dump of the publisher.
  Held Truth() {
    Held truth;
    for (const ShardDoor& door : node_->doors()) {
      const auto part = AskShard<Held>(door, seconds(20), [](ShardEngine& engine) {
        Held held;
        uint64_t cursor = 0;
        do {
          cursor = engine.VisitStored(
              cursor, 1000, [&](const BlockKey& key, const GenerationId& g) { held[key] = g; });
        } while (cursor != 0);
        return Result<Held>(std::move(held));
      });
      truth.insert(part->begin(), part->end());
    }
    return truth;
  }
  bool BecomesTrue(const Picture& picture) {
    return Eventually([&] { return picture.current() == 2 && picture.all() == Truth(); });
  }
  grpc::Status Purge(const rpc::PurgeRequest& request, rpc::PurgeReply* reply) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return rpc::StoreControl::NewStub(Channel())->Purge(&context, request, reply);
  }

  std::unique_ptr<StoreClient> client_;
};

TEST_F(ControlFeedTest, AReaderSeesWhatIsThereWhatComesAndWhatGoes) {
  for (uint64_t i = 0; i < 50; ++i) Put(i);
  Picture picture;
  FeedReader reader(address(), picture);
  EXPECT_TRUE(BecomesTrue(picture));
  EXPECT_EQ(picture.all().size(), 50u);
  for (uint64_t i = 100; i < 150; ++i) Put(i, 1 << 20);  // more than fits
  EXPECT_TRUE(BecomesTrue(picture));
  EXPECT_GT(picture.removed("evicted"), 0u);
  EXPECT_EQ(picture.snapshots(), 2u) << "one of each shard";
  EXPECT_EQ(picture.losses(), 0u);
}

// P5: the node dies and comes back several times while it is written to; the consumer loses events,
// and its picture converges to a dump of the publisher all the same.
TEST_F(ControlFeedTest, ThePictureConvergesWhateverIsLost) {
  Picture picture;
  FeedReader reader(address(), picture);
  std::atomic<bool> done = false;
  std::atomic<uint64_t> puts = 0;
  std::vector<std::thread> writers;
  for (uint64_t w = 0; w < 2; ++w) {
    writers.emplace_back([&, w] {
      for (uint64_t i = 0; !done; ++i) {
        puts += Put(w << 32 | i, 20'000);
      }
    });
  }
  for (int kill = 0; kill < 3; ++kill) {
    const uint64_t before = puts;
    EXPECT_TRUE(Eventually([&] { return puts > before + 300 && picture.current() == 2; }));
    StopNode();
    EXPECT_TRUE(Eventually([&] { return picture.losses() > static_cast<size_t>(kill); }));
    StartNode();
  }
  const uint64_t before = puts;
  EXPECT_TRUE(Eventually([&] { return puts > before + 300; }));
  done = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(BecomesTrue(picture));
  EXPECT_GT(picture.all().size(), 100u);
  EXPECT_GE(picture.snapshots(), 8u) << "after each restart one of each shard";
}

// A reader that opens the stream and never reads: puts go on, the node's memory for it is bounded
// by the transport's window, and another reader is served.
TEST_F(ControlFeedTest, AFrozenReaderHoldsUpNobody) {
  auto stub = rpc::StoreControl::NewStub(Channel());
  grpc::ClientContext context;
  const auto frozen = stub->Watch(&context, rpc::FeedRequest());
  frozen->WaitForInitialMetadata();
  for (uint64_t i = 0; i < 3000; ++i) Put(i, 100);
  Picture picture;
  FeedReader reader(address(), picture);
  EXPECT_TRUE(BecomesTrue(picture));
  EXPECT_EQ(picture.all().size(), 3000u);
  context.TryCancel();
  (void)frozen->Finish();
}

TEST_F(ControlFeedTest, OneReaderTooManyIsToldSo) {
  auto stub = rpc::StoreControl::NewStub(Channel());
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<rpc::FeedBatch>>> streams;
  rpc::FeedBatch batch;
  for (size_t i = 0; i < FeedReaders::kMaxReaders; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    SetDeadline(contexts.back().get());
    streams.push_back(stub->Watch(contexts.back().get(), rpc::FeedRequest()));
    ASSERT_TRUE(streams.back()->Read(&batch)) << i;
  }
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto refused = stub->Watch(&context, rpc::FeedRequest());
  EXPECT_FALSE(refused->Read(&batch));
  EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  for (auto& one : contexts) one->TryCancel();
  for (auto& stream : streams) (void)stream->Finish();
  Picture picture;
  FeedReader reader(address(), picture);
  EXPECT_TRUE(BecomesTrue(picture)) << "places are given back";
}

TEST_F(ControlFeedTest, APurgeTakesItsScopeAndIsToldToReaders) {
  Picture picture;
  FeedReader reader(address(), picture);
  for (uint64_t i = 0; i < 30; ++i) Put(i);
  EXPECT_TRUE(BecomesTrue(picture));
  rpc::PurgeRequest request;
  rpc::PurgeReply reply;
  request.set_tenant("somebody else");
  ASSERT_TRUE(Purge(request, &reply).ok());
  EXPECT_EQ(reply.segments(), 0u);
  EXPECT_FALSE(reply.durable());
  const uint64_t epoch = reply.epoch();
  request.set_tenant("acme");
  ASSERT_TRUE(Purge(request, &reply).ok());
  EXPECT_EQ(reply.segments(), 30u);
  EXPECT_EQ(reply.epoch(), epoch + 1);
  EXPECT_TRUE(Eventually([&] { return picture.epoch() == epoch + 1 && picture.all().empty(); }));
  EXPECT_EQ(picture.removed("purged"), 30u);
  const SegmentRef ref = RefOf(3);
  EXPECT_EQ(client_->Match({&ref, 1}, seconds(10)).segments[0].miss, MissReason::kPurged);
}

TEST_F(ControlFeedTest, APurgeOfNothingInParticularIsRefused) {
  rpc::PurgeReply reply;
  rpc::PurgeRequest nothing, not_everything, short_id, no_tenant, long_tenant;
  not_everything.set_everything(false);
  short_id.set_namespace_id("15 bytes only..");
  no_tenant.set_tenant("");
  long_tenant.set_tenant(std::string(kMaxNameBytes + 1, 'x'));
  for (const auto& request : {nothing, not_everything, short_id, no_tenant, long_tenant}) {
    const grpc::Status status = Purge(request, &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_FALSE(status.error_message().empty());
  }
}

// What a hostile or broken node sends: nothing of a bad batch reaches the listener.
TEST(FeedTracker, BelievesNothing) {
  Picture picture;
  FeedTracker tracker(picture);
  const auto entry = [](rpc::FeedEntry* e, char c) {
    e->set_key(std::string(32, c));
    e->set_generation(std::string(16, c));
  };
  rpc::FeedBatch snapshot;
  snapshot.set_shard_count(1);
  snapshot.set_log(5);
  snapshot.mutable_snapshot()->set_begins(true);
  snapshot.mutable_snapshot()->set_ends(true);
  snapshot.mutable_snapshot()->set_sequence(10);
  entry(snapshot.mutable_snapshot()->add_entries(), 'a');
  ASSERT_TRUE(tracker.Take(snapshot).ok());
  rpc::FeedBatch events;
  events.set_shard_count(1);
  events.set_log(5);
  events.mutable_events()->set_first_sequence(11);
  entry(events.mutable_events()->add_events()->mutable_stored(), 'b');
  events.mutable_events()->add_events();  // of a kind that is not known here
  ASSERT_TRUE(tracker.Take(events).ok());
  ASSERT_EQ(tracker.Resume().resume_size(), 1);
  EXPECT_EQ(tracker.Resume().resume(0).sequence(), 12u);
  EXPECT_EQ(picture.all().size(), 2u);

  const auto refused = [&](rpc::FeedBatch batch) {
    const size_t known = picture.all().size();
    EXPECT_FALSE(tracker.Take(batch).ok());
    EXPECT_EQ(picture.all().size(), known);
    EXPECT_EQ(tracker.Resume().resume_size(), 0) << "begins anew";
    ASSERT_TRUE(tracker.Take(snapshot).ok());
  };
  EXPECT_FALSE(tracker.Take(rpc::FeedBatch()).ok());
  rpc::FeedBatch wrong = snapshot;
  wrong.set_shard(1);
  EXPECT_FALSE(tracker.Take(wrong).ok()) << "no such shard";
  refused(events);  // 11 again is right after the snapshot; a repeat is a skip
  wrong = snapshot;
  wrong.mutable_snapshot()->mutable_entries(0)->set_key("short");
  refused(wrong);
  wrong = events;
  wrong.mutable_events()->mutable_events(0)->mutable_stored()->set_generation("short");
  refused(wrong);
  wrong = events;
  wrong.set_log(6);
  refused(wrong);
  wrong = events;
  wrong.mutable_events()->set_first_sequence(13);
  refused(wrong);
  wrong = events;
  wrong.mutable_events()->add_events()->mutable_purged();
  refused(wrong);
}

}  // namespace
}  // namespace ember::kv::testing
