// StoreFixture: a real ember-store with a data directory of the test's own, and a client.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/crash/data_folder.h"
#include "tests/crash/store_process.h"
#include "tests/unit/store_client/oracle.h"
#include "tests/unit/support/eventually.h"
#include "tests/unit/support/temp_folder.h"

namespace ember::testing {

class StoreFixture {
 public:
  // `flags` beside those of the data directory.
  explicit StoreFixture(std::vector<std::string> flags)
      : folder_(MakeTempFolder()), data_(folder_ + "/data"), flags_(std::move(flags)) {
    flags_.push_back("--data=" + data_.path());
    node_ = MakeNode(0);
  }
  ~StoreFixture() {
    node_.reset();
    if (::testing::Test::HasFailure()) {
      std::fprintf(stderr, "data directory and log kept: %s\n", folder_.c_str());
    } else {
      std::filesystem::remove_all(folder_);
    }
  }

  // Another process on the same directory, at another address.
  std::unique_ptr<StoreProcess> MakeNode(int slot) const {
    return std::make_unique<StoreProcess>(EMBER_STORE_PROGRAM, flags_, folder_ + "/node.log", slot);
  }
  StoreProcess& node() { return *node_; }
  const DataFolder& data() const { return data_; }

  // Milliseconds until it was ready.
  double Start() { return Start(*node_); }
  static double Start(StoreProcess& node) {
    const TimePoint begin = SteadyClock().Now();
    node.Start();
    EXPECT_TRUE(node.WaitUntilReady()) << node.LogTail(20);
    return ToMilliseconds(SteadyClock().Now() - begin);
  }

  std::unique_ptr<StoreClient> Connect() const { return Connect(*node_); }
  static std::unique_ptr<StoreClient> Connect(const StoreProcess& node,
                                              const std::string& tenant = "") {
    StoreClientOptions options;
    options.seeds = {node.data()};
    options.tenant = tenant;
    options.copies = 1;
    options.back_off_min = milliseconds(2);
    options.back_off_max = milliseconds(20);
    Result<std::unique_ptr<StoreClient>> client = StoreClient::Create(std::move(options));
    EXPECT_TRUE(client.ok());
    return *std::move(client);
  }

  bool EventuallyMetric(const std::string& name, double value, const std::string& labels = "") {
    return Eventually([&] { return node_->Metric(name, labels) == value; }, seconds(30));
  }

 private:
  const std::string folder_;
  const DataFolder data_;
  std::vector<std::string> flags_;
  std::unique_ptr<StoreProcess> node_;
};

// Of a load, one segment after the other: how many arrived, and how many of them were wrong.
struct Reuse {
  size_t asked = 0;
  size_t hits = 0;
  size_t wrong = 0;

  void Add(const Oracle& oracle, StoreClient& client) {
    asked += oracle.size();
    for (size_t first = 0; first < oracle.size();) {
      const Oracle::Load load = oracle.GetFrom(client, first, seconds(30));
      hits += load.result.usable;
      wrong += load.wrong;
      first += load.result.usable + 1;
    }
  }
};

}  // namespace ember::testing
