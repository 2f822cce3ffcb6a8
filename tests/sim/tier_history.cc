#include "tests/sim/tier_history.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ember::sim {
namespace {

constexpr Duration kHistoryPatience = std::chrono::hours(2);

}  // namespace

TierHistory::TierHistory(uint64_t seed, TierHistoryOptions options)
    : options_(options),
      simulation_(std::make_shared<Simulation>(seed)),
      disk_(std::make_shared<SimDisk>(simulation_.get(), std::make_shared<KvDiskMap>())),
      catalog_(simulation_.get(), &disk_->injected),
      wall_clock_(simulation_.get()),
      model_(&wall_clock_, options.numbers, options.max_payload) {
  Dice& dice = simulation_->dice();
  tier_options_.memory_bytes = options.memory_bytes;
  kv::DiskOptions& disk = tier_options_.disk;
  disk.directory = "/data";
  disk.identity = {.cluster = "c", .node = "s1", .shards = 1};
  disk.region_bytes = 256 << 10;
  disk.capacity_bytes = disk.region_bytes * dice.Between(3, 10);
  disk.policy = std::array{kv::WritePolicy::kThrough, kv::WritePolicy::kSecondUse,
                           kv::WritePolicy::kDemotion}[dice.Below(3)];
  disk.sync_interval = milliseconds(dice.Between(5, 200));
  disk.retry_interval = milliseconds(100);
  disk.scrub_bytes_per_second = dice.Chance(0.5) ? 16 << 20 : 0;
  disk.scrub_interval = milliseconds(500);
  disk.min_free_bytes = 0;
}

TierHistory::~TierHistory() = default;

TierHistory::Totals& TierHistory::Totals::operator+=(const Totals& more) {
  for (auto count :
       {&Totals::hits, &Totals::disk_hits, &Totals::puts, &Totals::durable, &Totals::found_bad,
        &Totals::purges, &Totals::purged, &Totals::acknowledged_at_starts, &Totals::kills,
        &Totals::power_cuts, &Totals::power_cuts_at_start, &Totals::power_cuts_in_purges}) {
    this->*count += more.*count;
  }
  return *this;
}

void TierHistory::Await(io::Gate& gate, std::string_view what) {
  EMBER_CHECK(simulation_->RunUntil([&] { return gate.running() == 0; }, kHistoryPatience),
              what.data());
}

void TierHistory::Run(RunEnd end) {
  model_.BeginRun(std::exchange(died_, false));
  SimTier run(simulation_, disk_, &catalog_, &wall_clock_, tier_options_);
  run.engine().SetObserver(&model_);
  EMBER_CHECK(
      run.engine().SetTtl(kv::testing::NamespaceOf(TierModel::kShortLived), TierModel::kTtl).ok(),
      "a time to live");
  const uint64_t acknowledged = model_.acknowledged();
  const Status started = run.Start([&] {
    if (end == RunEnd::kPowerCutAtStart) Die(&run, end);
  });
  EXPECT_TRUE(started.ok() || died_) << started.ToString();
  if (started.ok() && !died_) {
    CheckSpace(&run);
    io::Gate gate;
    gate.Spawn(CheckAll(&run));
    Await(gate, "the check hangs");
    totals_.acknowledged_at_starts += acknowledged;
    // What is there may have come from a cache that was never written back.
    if (simulation_->dice().Chance(0.5)) {
      gate.Spawn(Persist(&run, model_.AllNumbers()));
      Await(gate, "durability hangs");
    }

    io::Gate users;
    for (int i = 0; i < options_.users; ++i) {
      users.Spawn(User(&run, static_cast<kv::OwnerId>(i + 1), options_.operations));
    }
    if (end != RunEnd::kOrderly) Die(&run, end);
    Await(users, "a user hangs");
    if (!died_) CheckReleased(&run);
  }
  run.Stop(died_ ? Duration::zero() : seconds(100));
  totals_.found_bad += run.disk_metrics().corruptions.value();
  totals_.disk_hits += run.disk_metrics().hits.value();
  totals_.purged = model_.purged();
}

void TierHistory::Die(SimTier* run, RunEnd end) {
  Dice& dice = simulation_->dice();
  if (end == RunEnd::kPowerCutAtStart) {
    simulation_->RunFor(dice.Between(microseconds(0), milliseconds(3)));
    ++totals_.power_cuts_at_start;
  } else if (dice.Chance(0.4) &&
             simulation_->RunUntil([&] { return purging_ > 0; }, milliseconds(150))) {
    simulation_->RunFor(dice.Between(microseconds(0), microseconds(500)));
  } else {
    simulation_->RunFor(dice.Between(microseconds(0), milliseconds(dice.Chance(0.3) ? 1 : 150)));
  }
  died_ = true;
  run->engine().SetObserver(nullptr);
  if (end == RunEnd::kKill) {
    ++totals_.kills;
    disk_->EndProcess();
    return catalog_.EndProcess();
  }
  ++totals_.power_cuts;
  totals_.power_cuts_in_purges += purging_ > 0;
  disk_->LosePower();
  catalog_.LosePower();
}

// ---- users

io::Task<void> TierHistory::User(SimTier* run, kv::OwnerId owner, int operations) {
  Dice& dice = simulation_->dice();
  for (int i = 0; i < operations && !died_; ++i) {
    co_await Operate(run, owner);
    if (died_) break;
    run->engine().ExpireDue();
    co_await run->loop().Sleep(dice.Chance(0.02) ? dice.Between(seconds(0), seconds(5))
                                                 : dice.Between(Duration(0), milliseconds(4)));
  }
  run->engine().Disconnect(owner);
}

io::Task<void> TierHistory::Operate(SimTier* run, kv::OwnerId owner) {
  Dice& dice = simulation_->dice();
  if (dice.Chance(options_.purge)) return Purge(run);
  switch (dice.Below(10)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return Put(run, owner, Number());
    case 4:
      return Persist(run, {Number(), Number(), Number()});
    case 5:
      Match(run, owner);
      return Get(run, Number(), /*may_be_busy=*/true);
    default:
      return Get(run, Number(), /*may_be_busy=*/true);
  }
}

io::Task<void> TierHistory::Put(SimTier* run, kv::OwnerId owner, uint64_t number) {
  kv::ShardEngine& engine = run->engine();
  Dice& dice = simulation_->dice();
  const kv::testing::TestSegment segment = model_.NewSegment(number);
  const auto reserved = engine.Reserve(owner, segment.encoded_header);
  if (reserved.have || reserved.code != StatusCode::kOk) co_return;
  if (dice.Chance(0.3)) co_await run->loop().Sleep(dice.Between(Duration(0), milliseconds(20)));
  if (auto grant = engine.BeginWrite(owner, reserved.token, 0, segment.payload.size());
      grant.ok()) {
    std::ranges::copy(segment.payload, grant->remaining().begin());
    grant->Advance(segment.payload.size());
  }
  if (engine.Commit(owner, reserved.token) != StatusCode::kOk) co_return;
  ++totals_.puts;
  if (dice.Chance(0.5)) co_await Persist(run, {number});
}

io::Task<void> TierHistory::Persist(SimTier* run, std::vector<uint64_t> numbers) {
  std::vector<BlockKey> keys;
  std::vector<uint64_t> departures;
  for (uint64_t number : numbers) {
    keys.push_back(model_.KeyOf(number));
    departures.push_back(model_.departures(number));
  }
  const std::vector<StatusCode> codes = co_await run->tier().Persist(keys);
  if (died_) co_return;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (codes[i] != StatusCode::kOk || model_.departures(numbers[i]) != departures[i]) continue;
    const kv::DiskEntry* entry = run->engine().disk().Find(keys[i]);
    EXPECT_NE(entry, nullptr) << "said to be durable, and not on disk";
    if (entry == nullptr) continue;
    model_.Acknowledged(numbers[i], entry->record.generation);
    ++totals_.durable;
  }
}

io::Task<void> TierHistory::Get(SimTier* run, uint64_t number, bool may_be_busy) {
  const BlockKey key = model_.KeyOf(number);
  kv::ShardEngine::Found found = run->engine().Get(key);
  if (found.on_disk) found = co_await run->tier().Load(key);
  if (died_) co_return;
  if (found.pin.held()) {
    ++totals_.hits;
    model_.CheckFound(number, found.pin.header(), found.pin.payload());
  } else if (!may_be_busy || found.miss != MissReason::kBusy) {
    model_.CheckMissed(number, found.miss);
  }
}

void TierHistory::Match(SimTier* run, kv::OwnerId owner) {
  Dice& dice = simulation_->dice();
  std::vector<BlockKey> keys;
  for (size_t n = dice.Between(1, 6); n > 0; --n) keys.push_back(model_.KeyOf(Number()));
  const auto matched = run->engine().Match(owner, keys, milliseconds(dice.Below(200)));
  if (dice.Chance(0.5)) run->tier().Prefetch(keys);
  if (dice.Chance(0.5)) run->engine().Release(matched.lease_id);
}

io::Task<void> TierHistory::Purge(SimTier* run) {
  const TierModel::Purge purge =
      model_.BeginPurge(model_.ScopeOf(Number(), simulation_->dice().Chance(0.3)),
                        run->engine().tombstones().epoch());
  run->engine().Purge(purge.scope, purge.epoch);
  ++purging_;
  const Status durable = co_await run->tier().RecordPurge(purge.scope, purge.epoch);
  --purging_;
  if (died_ || !durable.ok()) co_return;
  model_.EndPurge(purge);
  ++totals_.purges;
}

// ---- checks

// Twice: what is found bad the first time must be a miss then.
io::Task<void> TierHistory::CheckAll(SimTier* run) {
  for (int pass = 0; pass < 2; ++pass) {
    for (uint64_t number = 0; number < model_.numbers(); ++number) {
      co_await Get(run, number, /*may_be_busy=*/false);
    }
  }
}

void TierHistory::CheckReleased(SimTier* run) {
  kv::ShardEngine& engine = run->engine();
  EXPECT_TRUE(simulation_->RunUntil([&] { return engine.pinned() == 0; }, kHistoryPatience))
      << "something is pinned for ever";
  EXPECT_EQ(engine.attempts(), 0u);
  EXPECT_EQ(engine.leases(), 0u);
  EXPECT_EQ(engine.reserved_bytes(), 0u);
  // What a prefetch is reading has room and no name yet.
  EXPECT_TRUE(
      simulation_->RunUntil([&] { return run->arena().used() <= NamedBytes(run); }, seconds(100)))
      << "memory that belongs to no segment: " << run->arena().used() - NamedBytes(run);
}

// What the stored segments take in memory.
uint64_t TierHistory::NamedBytes(SimTier* run) {
  kv::ShardEngine& engine = run->engine();
  std::vector<BlockKey> keys;
  uint64_t cursor = 0;
  do {
    cursor = engine.VisitStored(
        cursor, 100, [&](const BlockKey& key, const GenerationId&) { keys.push_back(key); });
  } while (cursor != 0);
  uint64_t bytes = 0;
  for (const BlockKey& key : keys) {
    const std::optional<kv::Pin> pin = engine.PinStored(key);
    if (pin) bytes += run->arena().RoundedLength(pin->payload().size() + pin->header().size());
  }
  return bytes;
}

void TierHistory::CheckSpace(SimTier* run) {
  constexpr uint64_t kSmallFiles = 256 << 10;  // identity, journal and its successor
  const kv::DiskOptions& options = tier_options_.disk;
  EXPECT_LE(run->tier().total_bytes(), options.capacity_bytes);
  EXPECT_LE(disk_->used_bytes(), run->tier().total_bytes() + kSmallFiles)
      << "files that nobody knows";
}

}  // namespace ember::sim
