// LoadThread: puts, gets, matches and purges segments of its own key range through the real client,
// while the node is killed and comes back, and compares every answer with the expected state.
//
// Run on a thread of its own; VerifyAll when that has ended.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <shared_mutex>

#include "proto/base/random.h"
#include "tests/crash/key_range.h"
#include "tests/crash/purge_client.h"
#include "tests/crash/variant.h"
#include "tests/crash/verdicts.h"

namespace ember::testing {

// What the threads of one data directory share.
struct LoadShared {
  const Variant variant;
  Lives* lives = nullptr;
  Verdicts* verdicts = nullptr;
  io::Endpoint data;
  std::string grpc_address;
  std::atomic<uint64_t> steps{0};      // done by all
  std::atomic<uint64_t> put_bytes{0};  // of all puts that were begun
  std::atomic<bool> stopping{false};
  // Held alone by who purges everything.
  std::shared_mutex keys;
  std::vector<KeyRange*> ranges;
};

class LoadThread {
 public:
  LoadThread(LoadShared* shared, std::string name, uint64_t seed);

  // Until shared->stopping.
  void Run();
  // Reads all of the range; the node is up and left alone. What must be there is asked for again
  // while the node says that it is busy.
  void VerifyAll();

 private:
  struct Outcome {
    bool hit = false;
    MissReason miss = MissReason::kNone;
  };

  void Step();
  void Survey();
  void Put(OwnedChain* chain, AckLevel level);
  void PutNew();
  void PutAgain();
  void PurgeSome();
  void Purge(const PurgeClient::Scope& scope, std::span<KeyRange* const> ranges);
  void AskForWhatNeverWas();
  std::unique_ptr<StoreClient> Connect() const;
  // True when every answer was certain.
  bool Get(OwnedChain* chain, StoreClient& client);
  void GetSome();
  void MatchAll();
  // True when the answer was certain.
  bool Judge(const OwnedChain& chain, size_t segment, Moment begin, const Outcome& outcome);
  void Broken(const OwnedChain& chain, size_t segment, const std::string& what);

  uint64_t Draw(uint64_t below) { return random_.Next() % below; }

  LoadShared* const shared_;
  const std::string name_;
  SeededRandom random_;
  KeyRange range_;
  const std::unique_ptr<StoreClient> client_;  // through all lives of the node
  // Of this life: it has not seen an earlier one, so it takes "never stored" for an answer, where
  // the other says that the node has lost its memory lately.
  std::unique_ptr<StoreClient> fresh_client_;
  PurgeClient purge_client_;
  uint32_t surveyed_ = 0;    // the life that Survey was last done in
  uint64_t life_bytes_ = 0;  // put in this life
};

}  // namespace ember::testing
