#include "tests/sim/sim_tier.h"

#include "kvstore/disk/data_directory.h"
#include "kvstore/engine/lru_policy.h"

namespace ember::sim {
namespace {

constexpr Duration kTierPatience = std::chrono::hours(1);

}  // namespace

SimTier::SimTier(std::shared_ptr<Simulation> simulation, std::shared_ptr<SimDisk> disk,
                 SimCatalog* catalog, const SimWallClock* wall_clock, SimTierOptions options)
    : simulation_(*simulation),
      loop_(simulation, {.address = options.address, .disk = std::move(disk)}),
      options_(std::move(options)),
      wall_clock_(wall_clock),
      catalog_(catalog->Mount()),
      engine_metrics_(&registry_, {}),
      disk_metrics_(&registry_, {}),
      arena_(*kv::Arena::Make(options_.memory_bytes, false)),
      engine_(std::make_unique<kv::ShardEngine>(
          options_.engine, arena_.get(), std::make_unique<kv::LruPolicy>(), &loop_, wall_clock_,
          &simulation_.dice(), &engine_metrics_)) {}

SimTier::~SimTier() { EMBER_CHECK(loop_.ended(), "a run is stopped before it dies"); }

Status SimTier::Start(const std::function<void()>& meanwhile) {
  Status status = InternalError("pending");
  io::Gate gate;
  gate.Spawn([](SimTier* self, Status* out) -> io::Task<void> { *out = co_await self->Open(); }(
                                                this, &status));
  if (meanwhile) meanwhile();
  EMBER_CHECK(simulation_.RunUntil([&] { return gate.running() == 0; }, kTierPatience),
              "the tier does not start");
  return status;
}

io::Task<Status> SimTier::Open() {
  EMBER_CO_RETURN_IF_ERROR(co_await kv::PrepareDirectory(&loop_.files(), options_.disk.directory,
                                                         options_.disk.identity));
  auto tier =
      co_await kv::DiskTier::Open(&loop_, engine_.get(), catalog_.get(), &simulation_.dice(),
                                  wall_clock_, &disk_metrics_, options_.disk);
  if (!tier.ok()) co_return tier.status();
  tier_ = *std::move(tier);
  co_return OkStatus();
}

void SimTier::Stop(Duration grace) {
  if (tier_ != nullptr) {
    io::Gate gate;
    gate.Spawn(tier_->Close(grace));
    EMBER_CHECK(simulation_.RunUntil([&] { return gate.running() == 0; }, kTierPatience),
                "the tier does not close");
    tier_.reset();
  }
  loop_.Stop();
  EMBER_CHECK(simulation_.RunUntil([&] { return loop_.ended(); }, kTierPatience),
              "the loop does not end");
}

}  // namespace ember::sim
