// libember through its header alone, against a real node; and that its numbers are ours.
#include <cstring>
#include <thread>

#include "tests/unit/bindings/c_abi_fixture.h"

namespace ember::testing {
namespace {

TEST_F(CAbiTest, WhatWasPutIsMatchedAndLoaded) {
  EXPECT_EQ(segments_.size(), 8u);
  EXPECT_EQ(taken_, 64u * 8) << "the last five tokens are less than a block";
  EXPECT_EQ(ember_chain_tokens_per_segment(chain_), 64u);
  std::vector<ember_presence> found(segments_.size());
  size_t usable = 99;
  ASSERT_EQ(
      ember_match(client_, segments_.data(), segments_.size(), kTimeoutMs, found.data(), &usable),
      EMBER_OK);
  EXPECT_EQ(usable, 0u);
  EXPECT_EQ(found[0].miss, EMBER_NEVER_STORED);
  for (const ember_put_item& item : PutAll(client_, 100'000)) {
    EXPECT_EQ(item.copies, 1u);
    EXPECT_EQ(item.was_there, 0);
    EXPECT_EQ(item.code, EMBER_OK);
  }
  EXPECT_EQ(PutAll(client_, 100'000)[0].was_there, 1);
  ASSERT_EQ(
      ember_match(client_, segments_.data(), segments_.size(), kTimeoutMs, found.data(), &usable),
      EMBER_OK);
  EXPECT_EQ(usable, 8u);
  EXPECT_EQ(found[7].payload_bytes, 100'000u);
  size_t wrong = 0;
  EXPECT_EQ(GetAll(client_, 100'000, &wrong), 8u);
  EXPECT_EQ(wrong, 0u);
}

// Another salt, another name for everything: nobody reads another tenant's blocks.
TEST_F(CAbiTest, IdentityDecidesTheNames) {
  ember_chain* other = nullptr;
  ember_chain* same = nullptr;
  ASSERT_EQ(MakeChain("another salt", &other), EMBER_OK);
  ASSERT_EQ(MakeChain("salt", &same), EMBER_OK);
  ember_segment a{}, b{};
  ASSERT_EQ(ember_chain_segments(other, 0, 1, &a), EMBER_OK);
  ASSERT_EQ(ember_chain_segments(same, 0, 1, &b), EMBER_OK);
  EXPECT_NE(std::memcmp(&a, &segments_[0], sizeof a), 0);
  EXPECT_EQ(std::memcmp(&b, &segments_[0], sizeof b), 0);
  EXPECT_EQ(ember_chain_segments(same, 7, 2, &a), EMBER_INVALID);
  EXPECT_STRNE(ember_last_error(), "");
  EXPECT_EQ(ember_chain_segments(same, SIZE_MAX, 2, &a), EMBER_INVALID);
  ember_chain_destroy(other);
  ember_chain_destroy(same);
}

TEST_F(CAbiTest, ManyThreadsShareAClient) {
  PutAll(client_, 20'000);
  std::atomic<size_t> wrong = 0, loaded = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        size_t bad = 0;
        loaded += GetAll(client_, 20'000, &bad);
        wrong += bad;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(loaded, 8u * 20 * 8);
}

TEST_F(CAbiTest, ANodeThatIsGoneIsAMissNotAnError) {
  PutAll(client_, 1000);
  node_.reset();
  size_t wrong = 0;
  EXPECT_EQ(GetAll(client_, 1000, &wrong), 0u);
  std::vector<ember_put_item> items(1);
  const auto payload = Payload(segments_[0], 10);
  items[0].segment = segments_[0];
  items[0].payload = payload.data();
  items[0].payload_bytes = payload.size();
  size_t stored = 9;
  EXPECT_NE(ember_put(client_, items.data(), 1, layout_, EMBER_ACK_MEMORY, kTimeoutMs, &stored),
            EMBER_OK);
  EXPECT_EQ(stored, 0u);
  EXPECT_STRNE(ember_last_error(), "");
  EXPECT_NE(items[0].code, EMBER_OK);
}

TEST_F(CAbiTest, MistakesAreSaidNotPunished) {
  ember_client* client = client_;
  EXPECT_EQ(ember_client_create(nullptr, &client), EMBER_INVALID);
  ember_options options{};
  EXPECT_EQ(ember_client_create(&options, &client), EMBER_INVALID) << "no stores";
  EXPECT_EQ(client, nullptr);
  options.stores = "127.0.0.1:1,nonsense";
  EXPECT_EQ(ember_client_create(&options, &client), EMBER_INVALID);
  EXPECT_NE(std::string(ember_last_error()).find("nonsense"), std::string::npos)
      << ember_last_error();
  options.stores = "127.0.0.1:1";
  options.io = "abacus";
  EXPECT_EQ(ember_client_create(&options, &client), EMBER_INVALID);
  options.io = nullptr;
  options.copies = 99;
  EXPECT_EQ(ember_client_create(&options, &client), EMBER_INVALID);
  ember_chain* chain = nullptr;
  ember_identity id = Identity("s");
  id.layers = 0;
  EXPECT_EQ(ember_chain_create(&id, &chain), EMBER_INVALID);
  id = Identity("s");
  id.group = 9;
  EXPECT_EQ(ember_chain_create(&id, &chain), EMBER_INVALID);
  EXPECT_EQ(ember_chain_append(chain_, nullptr, 1, nullptr), EMBER_INVALID);
  size_t usable = 0;
  EXPECT_EQ(ember_match(client_, nullptr, 1, 1, nullptr, &usable), EMBER_INVALID);
  ember_get_item item{};
  item.buffer_bytes = 1;
  EXPECT_EQ(ember_get(client_, &item, 1, layout_, 1, &usable), EMBER_INVALID);
  item.buffer_bytes = 0;
  item.is_range = 1;
  EXPECT_EQ(ember_get(client_, &item, 1, layout_, 1, &usable), EMBER_INVALID) << "no bytes";
  EXPECT_EQ(ember_put(client_, nullptr, 0, layout_, 2, 1, nullptr), EMBER_INVALID);
  ember_lease* lease = nullptr;
  EXPECT_EQ(ember_match_lease(client_, nullptr, 0, 1, 1, nullptr, &usable, nullptr), EMBER_INVALID);
  EXPECT_EQ(ember_match_lease(client_, nullptr, 1, 1, 1, nullptr, &usable, &lease), EMBER_INVALID);
  EXPECT_EQ(ember_get_in_place(client_, nullptr, 1, layout_, 1, 1, &usable), EMBER_INVALID);
  EXPECT_EQ(ember_nodes(client_, nullptr, 1, &usable), EMBER_INVALID);
  EXPECT_EQ(ember_mapped_verify(nullptr), EMBER_INVALID);
  EXPECT_EQ(ember_match(client_, nullptr, 0, kTimeoutMs, nullptr, &usable), EMBER_OK)
      << "nothing is fine";
  EXPECT_STREQ(ember_last_error(), "");
  ember_client_destroy(nullptr);
  ember_chain_destroy(nullptr);
  ember_lease_release(nullptr);
  ember_mapped_release(nullptr);
}

TEST(CAbi, NumbersAndNamesAreOurs) {
  EXPECT_STREQ(ember_version(), EMBER_VERSION);
  EXPECT_EQ(ember_abi_version(), EMBER_ABI_VERSION);
  EXPECT_EQ(EMBER_ACK_MEMORY, static_cast<int>(AckLevel::kMemory));
  EXPECT_EQ(EMBER_ACK_DISK, static_cast<int>(AckLevel::kDisk));
  for (int i = 0; i <= EMBER_INTERNAL; ++i) {
    EXPECT_EQ(StatusCodeFromWire(static_cast<uint32_t>(i)), static_cast<StatusCode>(i));
    EXPECT_EQ(ember_code_name(static_cast<ember_code>(i)),
              StatusCodeName(static_cast<StatusCode>(i)));
  }
  EXPECT_STREQ(ember_code_name(EMBER_BUSY), "busy");
  EXPECT_STREQ(ember_code_name(EMBER_NO_SPACE), "no_space");
  EXPECT_STREQ(ember_code_name(static_cast<ember_code>(11)), "unknown");
  EXPECT_EQ(EMBER_EXPIRED + 1u, kMissReasonCount) << "a reason that the header lacks";
  for (size_t i = 0; i < kMissReasonCount; ++i) {
    EXPECT_EQ(ember_miss_name(static_cast<ember_miss>(i)),
              MissReasonName(static_cast<MissReason>(i)));
  }
  EXPECT_STREQ(ember_miss_name(EMBER_PURGED), "purged");
  EXPECT_STREQ(ember_miss_name(EMBER_EXPIRED), "expired");
}

}  // namespace
}  // namespace ember::testing
