// The engine against a naive model: random operations of several owners under a fake clock.
#include <map>
#include <set>

#include "tests/unit/kvstore/engine_fixture.h"

namespace ember::kv::testing {
namespace {

constexpr uint64_t kKeys = 60;
constexpr OwnerId kOwners = 4;
constexpr Duration kTtl = seconds(60);

BlockKey Key(uint64_t number) { return KeyOf(number, number % 3); }
std::string Tenant(uint64_t number) { return "tenant" + std::to_string(number % 4); }

class RandomRun {
 public:
  RandomRun(uint64_t seed, std::string_view policy)
      : random_(seed),
        f_(1 << 20,
           {.max_segment_bytes = 200000,
            .max_attempts = 8,
            .max_leases = 6,
            .ttl = kTtl,
            .sweep_extents = 3},
           policy) {}

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      Step();
      ASSERT_LE(f_.arena->used(), f_.arena->capacity());
      ASSERT_LE(f_.engine.attempts(), 8u);
      ASSERT_LE(f_.engine.leases(), 6u);
      ASSERT_LE(f_.engine.reserved_bytes(), f_.arena->used());
      for (const Held& held : held_) {
        ASSERT_TRUE(IsPayloadOf(held.number, held.pin.payload(), 2)) << "pinned bytes changed";
      }
      if (::testing::Test::HasFatalFailure()) return;
    }
    Finish();
  }

 private:
  struct Open {
    OwnerId owner;
    AttemptToken token;
    TestSegment segment;
    uint64_t number;
    uint64_t written = 0;
    TimePoint deadline;
    TimePoint expiry;
  };
  struct Held {
    uint64_t number;
    Pin pin;
  };

  uint64_t Pick(uint64_t n) { return random_.Next() % n; }
  OwnerId Owner() { return 1 + Pick(kOwners); }

  void Step() {
    if (Pick(100) == 0) return Purge();
    switch (Pick(10)) {
      case 0:
      case 1:
        return Reserve();
      case 2:
      case 3:
        return Write();
      case 4:
        return Commit();
      case 5:
        return Get();
      case 6:
        return Match();
      case 7:
        return Unpin();
      case 8:
        return Pass();
      case 9:
        return Pick(8) == 0 ? Disconnect() : Abort();
    }
  }

  void Reserve() {
    const uint64_t number = Pick(kKeys);
    TestSegment segment = SegmentOf(number, number % 3, Tenant(number), SizeOf(number), Pick(2));
    const OwnerId owner = Owner();
    auto r = f_.engine.Reserve(owner, segment.encoded_header);
    if (r.have) {
      ASSERT_TRUE(MayBeThere(number)) << "have, but nobody committed it";
    } else if (r.code == StatusCode::kOk) {
      open_.push_back({owner, r.token, std::move(segment), number, 0,
                       f_.clock.Now() + f_.engine.options().attempt_deadline,
                       f_.clock.Now() + kTtl});
    }
  }
  void Write() {
    if (open_.empty()) return;
    Open& open = open_[Pick(open_.size())];
    const uint64_t left = open.segment.payload.size() - open.written;
    const uint64_t n = Pick(3) == 0 ? left : Pick(left + 1);
    const StatusCode code = f_.Write(open.owner, open.token, open.segment, open.written, n);
    ASSERT_EQ(code, StatusCode::kOk);
    open.written += n;
  }
  void Commit() {
    if (open_.empty()) return;
    const size_t i = Pick(open_.size());
    const Open& open = open_[i];
    const bool whole = open.written == open.segment.payload.size();
    ASSERT_EQ(f_.engine.Commit(open.owner, open.token),
              whole ? StatusCode::kOk : StatusCode::kInvalid);
    if (whole) {
      ever_.insert(open.number);
      TimePoint& until = until_[open.number];
      until = std::max(until, open.expiry);
    }
    open_.erase(open_.begin() + i);
  }
  void Abort() {
    if (open_.empty()) return;
    const size_t i = Pick(open_.size());
    f_.engine.Abort(open_[i].owner, open_[i].token);
    open_.erase(open_.begin() + i);
  }
  void Get() {
    const uint64_t number = Pick(kKeys);
    auto found = f_.engine.Get(Key(number));
    if (found.miss != MissReason::kNone) {
      ASSERT_EQ(found.miss == MissReason::kNeverStored, !ever_.contains(number));
      return;
    }
    ASSERT_TRUE(MayBeThere(number)) << "present, but not committed, expired or purged";
    ASSERT_EQ(found.pin.payload().size(), SizeOf(number));
    ASSERT_TRUE(IsPayloadOf(number, found.pin.payload(), 2));
    if (held_.size() < 4) held_.push_back({number, std::move(found.pin)});
  }
  void Match() {
    std::vector<BlockKey> keys;
    const uint64_t first = Pick(kKeys);
    for (uint64_t i = first; i < std::min(kKeys, first + 4); ++i) keys.push_back(Key(i));
    auto matched = f_.engine.Match(Owner(), keys, milliseconds(Pick(3000)));
    if (matched.lease_id != 0 && Pick(2) == 0) f_.engine.Release(matched.lease_id);
  }
  void Unpin() {
    if (!held_.empty()) held_.erase(held_.begin() + Pick(held_.size()));
  }
  void Pass() {
    f_.clock.Advance(milliseconds(Pick(4000)));
    f_.engine.ExpireDue();
    std::erase_if(open_, [&](const Open& open) { return open.deadline <= f_.clock.Now(); });
  }
  void Purge() {
    const uint64_t which = Pick(9);
    const PurgeScope scope = which < 3   ? PurgeScope::OfNamespace(NamespaceOf(which))
                             : which < 8 ? PurgeScope::OfTenant(Tenant(which))
                                         : PurgeScope::Everything();
    f_.engine.Purge(scope, ++epoch_);
    const auto covered = [&](uint64_t number) {
      return scope.Covers(Key(number).ns, TenantHash(Tenant(number)));
    };
    for (const Open& open : open_) {
      if (!covered(open.number)) continue;
      ASSERT_EQ(f_.engine.Commit(open.owner, open.token), StatusCode::kNotFound);
    }
    std::erase_if(open_, [&](const Open& open) { return covered(open.number); });
    for (uint64_t number = 0; number < kKeys; ++number) {
      if (!covered(number)) continue;
      until_.erase(number);
      ASSERT_NE(f_.engine.Get(Key(number)).miss, MissReason::kNone) << "purged, but there";
    }
  }
  bool MayBeThere(uint64_t number) const {
    auto it = until_.find(number);
    return it != until_.end() && it->second > f_.clock.Now();
  }
  void Disconnect() {
    const OwnerId owner = Owner();
    f_.engine.Disconnect(owner);
    std::erase_if(open_, [&](const Open& open) { return open.owner == owner; });
  }
  // Sizes from one byte to a fifth of the memory.
  static uint64_t SizeOf(uint64_t number) { return 1 + number * number * 50; }

  void Finish() {
    held_.clear();
    for (OwnerId owner = 1; owner <= kOwners; ++owner) f_.engine.Disconnect(owner);
    EXPECT_EQ(f_.engine.attempts(), 0u);
    EXPECT_EQ(f_.engine.leases(), 0u);
    EXPECT_EQ(f_.engine.pinned(), 0u);
    EXPECT_EQ(f_.engine.reserved_bytes(), 0u);
    uint64_t stored = 0;
    for (uint64_t i = 0; i < kKeys; ++i) {
      auto found = f_.engine.Get(Key(i));
      if (found.miss != MissReason::kNone) continue;
      EXPECT_TRUE(IsPayloadOf(i, found.pin.payload(), 2));
      stored += f_.arena->RoundedLength(found.pin.payload().size() + found.pin.header().size());
    }
    EXPECT_EQ(stored, f_.arena->used()) << "memory that belongs to no segment";
  }

  SeededRandom random_;
  EngineFixture f_;
  std::vector<Open> open_;
  std::vector<Held> held_;
  std::set<uint64_t> ever_;              // committed
  std::map<uint64_t, TimePoint> until_;  // when what was committed since the last purge ends
  uint64_t epoch_ = 0;
};

class EngineRandomTest : public ::testing::TestWithParam<std::tuple<std::string_view, uint64_t>> {};

TEST_P(EngineRandomTest, AgreesWithTheModel) {
  RandomRun(std::get<1>(GetParam()), std::get<0>(GetParam())).Run(4000);
}

INSTANTIATE_TEST_SUITE_P(Seeds, EngineRandomTest,
                         ::testing::Combine(::testing::ValuesIn(EvictionPolicyNames()),
                                            ::testing::Range<uint64_t>(1, 7)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace ember::kv::testing
