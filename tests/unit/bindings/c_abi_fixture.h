// CAbiTest: a client of libember, used through its header alone, and a real node in this process.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "client/bindings/c/ember.h"
#include "kvstore/node.h"
#include "tests/unit/kvstore/memory_catalog.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::testing {

inline constexpr uint32_t kTimeoutMs = 10'000;

inline ember_identity Identity(const char* salt) {
  ember_identity id{};
  id.engine = "test";
  id.salt = salt;
  id.tokens_per_block = 16;
  id.layers = 2;
  id.kv_heads = 2;
  id.head_size = 8;
  id.key_type = id.value_type = "f16";
  id.order = "test";
  return id;
}

class CAbiTest : public ::testing::Test {
 protected:
  CAbiTest() {
    folder_ = MakeTempFolder();
    config_.listen.port = 0;
    config_.memory_bytes = 64 << 20;
    config_.max_segment_bytes = 4 << 20;
  }
  ~CAbiTest() override { std::filesystem::remove_all(folder_); }

  void SetUp() override {
    node_ = *kv::Node::Start(
        config_, [](const std::string&, std::string*) -> Result<std::unique_ptr<kv::Catalog>> {
          return std::unique_ptr<kv::Catalog>(std::make_unique<kv::testing::MemoryCatalog>());
        });
    address_ = node_->data_address();
    ember_options options{};
    options.stores = address_.c_str();
    options.copies = 1;
    ASSERT_EQ(ember_client_create(&options, &client_), EMBER_OK) << ember_last_error();
    ASSERT_EQ(MakeChain("salt", &chain_), EMBER_OK) << ember_last_error();
    ember_chain_layout(chain_, layout_);
    segments_.resize(ember_chain_segment_count(chain_));
    ASSERT_EQ(ember_chain_segments(chain_, 0, segments_.size(), segments_.data()), EMBER_OK);
  }
  void TearDown() override {
    ember_chain_destroy(chain_);
    ember_client_destroy(client_);
  }
  ember_code MakeChain(const char* salt, ember_chain** chain) {
    if (tokens_.empty()) {
      for (int i = 0; i < 64 * 8 + 5; ++i) tokens_.push_back(i * 7);
    }
    const ember_identity id = Identity(salt);
    const ember_code code = ember_chain_create(&id, chain);
    return code != EMBER_OK ? code
                            : ember_chain_append(*chain, tokens_.data(), tokens_.size(), &taken_);
  }
  // A function of the key.
  static std::vector<uint8_t> Payload(const ember_segment& segment, size_t bytes) {
    std::vector<uint8_t> payload(bytes);
    for (size_t i = 0; i < bytes; ++i)
      payload[i] = static_cast<uint8_t>(segment.hash[i % 16] + i / 16);
    return payload;
  }
  std::vector<ember_put_item> PutAll(ember_client* client, size_t bytes,
                                     ember_ack ack = EMBER_ACK_MEMORY) {
    std::vector<ember_put_item> items(segments_.size());
    payloads_.clear();
    for (size_t i = 0; i < items.size(); ++i) {
      payloads_.push_back(Payload(segments_[i], bytes));
      items[i].segment = segments_[i];
      items[i].tokens = &tokens_[i * 64];
      items[i].token_count = 64;
      items[i].payload = payloads_[i].data();
      items[i].payload_bytes = bytes;
    }
    size_t stored = 0;
    EXPECT_EQ(ember_put(client, items.data(), items.size(), layout_, ack, kTimeoutMs, &stored),
              EMBER_OK)
        << ember_last_error();
    EXPECT_EQ(stored, items.size());
    return items;
  }
  size_t GetAll(ember_client* client, size_t bytes, size_t* wrong) {
    std::vector<ember_get_item> items(segments_.size());
    std::vector<std::vector<uint8_t>> buffers(items.size(), std::vector<uint8_t>(bytes));
    for (size_t i = 0; i < items.size(); ++i) {
      items[i].segment = segments_[i];
      items[i].tokens = &tokens_[i * 64];
      items[i].token_count = 64;
      items[i].buffer = buffers[i].data();
      items[i].buffer_bytes = bytes;
    }
    size_t usable = 0;
    EXPECT_EQ(ember_get(client, items.data(), items.size(), layout_, kTimeoutMs, &usable),
              EMBER_OK);
    for (size_t i = 0; i < items.size(); ++i) {
      *wrong += items[i].miss == EMBER_PRESENT && buffers[i] != Payload(segments_[i], bytes);
    }
    return usable;
  }

  uint64_t Leases() { return node_->GetStatus(seconds(10))->total.leases; }

  std::string folder_;  // of this test alone
  kv::NodeConfig config_;
  std::unique_ptr<kv::Node> node_;
  std::string address_;
  ember_client* client_ = nullptr;
  ember_chain* chain_ = nullptr;
  uint8_t layout_[16] = {};
  std::vector<int32_t> tokens_;
  size_t taken_ = 0;
  std::vector<ember_segment> segments_;
  std::vector<std::vector<uint8_t>> payloads_;
};

}  // namespace ember::testing
