// libember's ranges, leases, reads in place and levels of acknowledgement, against a real node.
#include <time.h>

#include <cstring>

#include "tests/unit/bindings/c_abi_fixture.h"
#include "tests/unit/support/eventually.h"

namespace ember::testing {
namespace {

constexpr size_t kBytes = 100'000;
constexpr uint32_t kLeaseMs = 60'000;

TEST_F(CAbiTest, ARangeIsThoseBytes) {
  PutAll(client_, kBytes);
  std::vector<uint8_t> buffer(kBytes);
  ember_get_item item{};
  item.segment = segments_[0];
  item.tokens = tokens_.data();
  item.token_count = 64;
  item.buffer = buffer.data();
  item.is_range = 1;
  const auto get = [&](uint64_t offset, size_t bytes) {
    item.offset = offset;
    item.buffer_bytes = bytes;
    size_t usable = 0;
    EXPECT_EQ(ember_get(client_, &item, 1, layout_, kTimeoutMs, &usable), EMBER_OK);
    EXPECT_EQ(usable, item.miss == EMBER_PRESENT ? 1u : 0u);
    return static_cast<ember_miss>(item.miss);
  };
  for (const auto& [offset, bytes] : std::vector<std::pair<uint64_t, size_t>>{
           {0, 1}, {kBytes - 1, 1}, {5, 70'000}, {0, kBytes}}) {
    EXPECT_EQ(get(offset, bytes), EMBER_PRESENT);
    EXPECT_EQ(std::memcmp(buffer.data(), payloads_[0].data() + offset, bytes), 0) << offset;
  }
  EXPECT_EQ(get(1, kBytes), EMBER_LAYOUT_DIFFERS);
  EXPECT_EQ(get(UINT64_MAX, 1), EMBER_LAYOUT_DIFFERS);
}

TEST_F(CAbiTest, ALeaseIsHeldUntilItIsReleased) {
  std::vector<ember_presence> found(segments_.size());
  size_t usable = 0;
  ember_lease* lease = nullptr;
  const auto match = [&] {
    return ember_match_lease(client_, segments_.data(), segments_.size(), kTimeoutMs, kLeaseMs,
                             found.data(), &usable, &lease);
  };
  ASSERT_EQ(match(), EMBER_OK);
  EXPECT_EQ(lease, nullptr) << "nothing is there";
  EXPECT_EQ(found[0].miss, EMBER_NEVER_STORED);
  PutAll(client_, kBytes);
  ASSERT_EQ(match(), EMBER_OK);
  EXPECT_EQ(usable, segments_.size());
  ASSERT_NE(lease, nullptr);
  EXPECT_EQ(Leases(), 1u);
  ember_lease_release(lease);
  EXPECT_TRUE(Eventually([&] { return Leases() == 0; }));
  ASSERT_EQ(match(), EMBER_OK);
  ember_client_destroy(std::exchange(client_, nullptr));
  ember_lease_release(lease);  // it may outlive its client
}

TEST_F(CAbiTest, WithoutADiskNothingIsAcknowledgedFromIt) {
  for (const ember_put_item& item : PutAll(client_, kBytes, EMBER_ACK_DISK)) {
    EXPECT_EQ(item.copies, 1u);
    EXPECT_EQ(item.disk_copies, 0u);
  }
}

TEST_F(CAbiTest, NodesAreListedAsTheClientSeesThem) {
  ember_node node{};
  size_t count = 0;
  ASSERT_EQ(ember_nodes(client_, &node, 1, &count), EMBER_OK);
  EXPECT_EQ(count, 1u);
  EXPECT_STREQ(node.id, "s1");
  EXPECT_EQ(node.address, address_);
  EXPECT_EQ(node.reachable, 1);
  EXPECT_STREQ(node.last_error, "");
  node_.reset();
  // Which connections have noticed by now is not ours to say.
  EXPECT_TRUE(Eventually(
      [&] { return ember_nodes(client_, &node, 1, &count) == EMBER_OK && node.reachable == 0; }));
  EXPECT_STRNE(node.last_error, "");
  count = 0;
  ASSERT_EQ(ember_nodes(client_, nullptr, 0, &count), EMBER_OK);
  EXPECT_EQ(count, 1u) << "how many there are, whatever the room";
}

class CAbiDiskTest : public CAbiTest {
 protected:
  CAbiDiskTest() {
    config_.disk = kv::DiskConfig{.directory = folder_ + "/data",
                                  .capacity_bytes = 256 << 20,
                                  .policy = kv::WritePolicy::kDemotion};
  }
};

TEST_F(CAbiDiskTest, TheLevelOfAPutIsKept) {
  EXPECT_EQ(PutAll(client_, kBytes)[0].disk_copies, 0u);
  for (const ember_put_item& item : PutAll(client_, kBytes, EMBER_ACK_DISK)) {
    EXPECT_EQ(item.copies, 1u);
    EXPECT_EQ(item.disk_copies, 1u);
    EXPECT_EQ(item.was_there, 1);
  }
}

class CAbiSharedMemoryTest : public CAbiTest {
 protected:
  CAbiSharedMemoryTest() {
    config_.memory_bytes = 16 << 20;
    config_.shm_dir = folder_;
  }

  ember_code GetInPlace(ember_client* client, std::vector<ember_in_place_item>* items,
                        size_t* usable) {
    *items = std::vector<ember_in_place_item>(segments_.size());
    for (size_t i = 0; i < items->size(); ++i) {
      (*items)[i].segment = segments_[i];
      (*items)[i].tokens = &tokens_[i * 64];
      (*items)[i].token_count = 64;
    }
    return ember_get_in_place(client, items->data(), items->size(), layout_, kTimeoutMs, kLeaseMs,
                              usable);
  }
};

TEST_F(CAbiSharedMemoryTest, SegmentsAreReadWhereTheyLie) {
  std::vector<ember_in_place_item> items;
  size_t usable = 9;
  EXPECT_EQ(GetInPlace(client_, &items, &usable), EMBER_OK);
  EXPECT_EQ(usable, 0u);
  EXPECT_EQ(items[0].miss, EMBER_NEVER_STORED);
  EXPECT_EQ(items[0].mapped, nullptr);
  PutAll(client_, kBytes);
  ASSERT_EQ(GetInPlace(client_, &items, &usable), EMBER_OK) << ember_last_error();
  EXPECT_EQ(usable, segments_.size());
  EXPECT_EQ(Leases(), 1u);
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const uint64_t now_ns = static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSERT_NE(items[i].mapped, nullptr);
    ASSERT_EQ(items[i].payload_bytes, kBytes);
    EXPECT_EQ(std::memcmp(items[i].payload, payloads_[i].data(), kBytes), 0) << i;
    EXPECT_GT(items[i].deadline_ns, now_ns);
    EXPECT_LE(items[i].deadline_ns, now_ns + uint64_t{kLeaseMs} * 1'000'000);
    EXPECT_EQ(ember_mapped_verify(items[i].mapped), EMBER_OK);
  }
  for (const ember_in_place_item& item : items) ember_mapped_release(item.mapped);
  EXPECT_TRUE(Eventually([&] { return Leases() == 0; }));
}

TEST_F(CAbiSharedMemoryTest, APlaceThatIsReusedIsCorrupt) {
  PutAll(client_, kBytes);
  std::vector<ember_in_place_item> items(1);
  items[0].segment = segments_[0];
  items[0].tokens = tokens_.data();
  items[0].token_count = 64;
  size_t usable = 0;
  ASSERT_EQ(ember_get_in_place(client_, items.data(), 1, layout_, kTimeoutMs, 1, &usable),
            EMBER_OK);
  ASSERT_EQ(usable, 1u);
  EXPECT_TRUE(Eventually([&] { return Leases() == 0; })) << "its millisecond is over";
  int salt = 0;
  EXPECT_TRUE(Eventually([&] {
    ember_chain_destroy(std::exchange(chain_, nullptr));
    EXPECT_EQ(MakeChain(std::to_string(salt++).c_str(), &chain_), EMBER_OK);
    EXPECT_EQ(ember_chain_segments(chain_, 0, segments_.size(), segments_.data()), EMBER_OK);
    PutAll(client_, kBytes);
    return ember_mapped_verify(items[0].mapped) == EMBER_CORRUPT;
  }));
  ember_mapped_release(items[0].mapped);
}

TEST_F(CAbiSharedMemoryTest, WhoMapsNothingIsToldSo) {
  ember_options options{};
  options.stores = address_.c_str();
  options.copies = 1;
  options.no_shared_memory = 1;
  ember_client* client = nullptr;
  ASSERT_EQ(ember_client_create(&options, &client), EMBER_OK);
  PutAll(client, kBytes);
  std::vector<ember_in_place_item> items;
  size_t usable = 9;
  EXPECT_EQ(GetInPlace(client, &items, &usable), EMBER_UNAVAILABLE);
  EXPECT_STRNE(ember_last_error(), "");
  EXPECT_EQ(usable, 0u);
  EXPECT_EQ(items[0].miss, EMBER_LOST_NODE);
  EXPECT_EQ(items[0].mapped, nullptr);
  size_t wrong = 0;
  EXPECT_EQ(GetAll(client, kBytes, &wrong), segments_.size()) << "sent all the same";
  ember_client_destroy(client);
}

}  // namespace
}  // namespace ember::testing
