#include "router/fleet/fleet_file.h"

#include <sys/stat.h>

#include <fstream>
#include <utility>

#include "router/fleet/fleet_list.h"

namespace ember::router {

std::optional<FleetFile::Look> FleetFile::LookAt() const {
  struct stat s {};
  if (::stat(path_.c_str(), &s) != 0) return {};
  return Look(s.st_dev, s.st_ino, s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

Status FleetFile::Load() {
  seen_ = applied_ = LookAt();
  if (!seen_) {
    membership_.SetTrouble(kFileSource, NotFoundError(path_ + ": not there"));
    return OkStatus();
  }
  const Status applied = Apply();
  const bool partly =
      applied.code() == StatusCode::kMismatch || applied.code() == StatusCode::kNoSpace;
  if (!partly) return applied;
  NoteTrouble(applied);
  return OkStatus();
}

void FleetFile::NoteTrouble(const Status& what) {
  membership_.SetTrouble(kFileSource, what);
  // What is wrong with the file only a change of it can mend; anything else (a key that can't be
  // read yet, an id that another source has) may pass.
  if (what.code() != StatusCode::kInvalid) applied_.reset();
}

Status FleetFile::Apply() {
  std::ifstream file(path_, std::ios::binary);
  std::string text(kMaxFleetBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || !file.is_open()) return UnavailableError(path_ + ": can't be read");
  Result<std::vector<ReplicaConfig>> replicas = ParseFleetList(text);
  if (!replicas.ok()) return replicas.status().WithContext(path_);
  for (ReplicaConfig& replica : *replicas) {
    if (Status key = replica.LoadKey(); !key.ok()) return key.WithContext(path_);
  }
  if (Status done = membership_.Replace(kFileSource, *std::move(replicas)); !done.ok()) {
    return done.WithContext(path_);
  }
  membership_.SetTrouble(kFileSource, OkStatus());
  return OkStatus();
}

void FleetFile::Follow(http::HttpLoop& loop) { loop.Spawn(Run(stop_)); }

boost::asio::awaitable<void> FleetFile::Run(StopSign stop) {
  while ((co_await http::SleepFor(interval_, stop.get())).ok()) {
    const std::optional<Look> look = LookAt();
    const bool settled = look == std::exchange(seen_, look);
    if (!settled || look == applied_) continue;
    applied_ = look;
    const Status applied = look ? Apply() : UnavailableError(path_ + ": not there any more");
    if (!applied.ok()) NoteTrouble(applied);
  }
}

}  // namespace ember::router
