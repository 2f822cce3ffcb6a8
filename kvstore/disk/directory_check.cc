#include "kvstore/disk/directory_check.h"

#include "kvstore/disk/data_directory.h"
#include "kvstore/disk/purge_record.h"
#include "kvstore/disk/record_scanner.h"
#include "kvstore/disk/region_loader.h"

namespace ember::kv {
namespace {

struct RegionPlace {
  uint32_t shard = 0;
  uint32_t region = 0;
  std::string path;
  uint64_t length = 0;
};

io::Task<Result<std::vector<RegionPlace>>> FindRegions(io::FileSystem* files, std::string directory,
                                                       uint32_t shards) {
  std::vector<RegionPlace> out;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    Result<std::vector<io::FolderEntry>> entries = files->List(ShardFolder(directory, shard));
    if (!entries.ok()) co_return entries.status();
    for (const io::FolderEntry& entry : *entries) {
      const std::optional<uint32_t> region = RegionOfName(entry.name);
      if (!region) continue;
      RegionPlace place{shard, *region, RegionPath(directory, shard, *region), 0};
      auto file = files->Open(place.path, {});
      if (!file.ok()) co_return file.status();
      Result<uint64_t> size = (*file)->Size();
      if (!size.ok()) co_return size.status();
      place.length = *size;
      out.push_back(std::move(place));
    }
  }
  co_return out;
}

class Check {
 public:
  Check(io::FileSystem* files, std::string directory, CheckOptions options)
      : files_(files), directory_(std::move(directory)), options_(std::move(options)) {}

  io::Task<Result<CheckReport>> Run() {
    Result<Identity> identity = co_await ReadIdentity(files_, directory_);
    if (!identity.ok()) co_return identity.status();
    report_.identity = *identity;
    Result<std::vector<RegionPlace>> places =
        co_await FindRegions(files_, directory_, identity->shards);
    if (!places.ok()) co_return places.status();
    for (const RegionPlace& place : *places) total_ += place.length;
    for (const RegionPlace& place : *places) {
      const Status read = co_await CheckRegion(place);
      if (!read.ok()) co_return read;
      done_ += place.length;
      Progress(done_);
    }
    ReportMissingFiles();
    for (uint32_t shard = 0; shard < identity->shards; ++shard) {
      const Status read = co_await CheckPurges(shard);
      if (!read.ok()) co_return read;
    }
    co_return std::move(report_);
  }

 private:
  void Add(const std::string& path, uint64_t offset, std::string reason) {
    ++report_.damaged;
    if (report_.findings.size() >= options_.max_findings) return;
    report_.findings.push_back({path, offset, std::move(reason)});
  }
  void Progress(uint64_t bytes) {
    if (options_.progress) options_.progress(bytes, total_);
  }

  // Null when the catalog doesn't know it, or is not asked. Once for each region.
  std::optional<CatalogContents::Region> TakeRow(uint32_t shard, uint32_t region) {
    if (!options_.catalog) return std::nullopt;
    auto& regions = (*options_.catalog)[shard].regions;
    auto it = regions.find(region);
    if (it == regions.end()) return std::nullopt;
    CatalogContents::Region row = std::move(it->second);
    regions.erase(it);
    report_.catalog_rows += row.records.size();
    return row;
  }

  void ReportMissingFiles() {
    if (!options_.catalog) return;
    for (const auto& [shard, contents] : *options_.catalog) {
      for (const auto& [region, row] : contents.regions) {
        report_.catalog_rows += row.records.size();
        if (row.records.empty()) continue;
        Add(RegionPath(directory_, shard, region), 0,
            "the file is gone, and with it " + std::to_string(row.records.size()) + " segments");
      }
    }
  }

  io::Task<Status> CheckRegion(const RegionPlace& place) {
    const std::optional<CatalogContents::Region> row = TakeRow(place.shard, place.region);
    auto file = files_->Open(place.path, {.direct = true});
    if (!file.ok()) co_return file.status();
    report_.region_bytes += place.length;
    // Without the catalog: what the region says of itself.
    Result<LoadedRegion> loaded = co_await LoadRegion(file->get(), place.shard, place.region,
                                                      report_.identity.Digest(), nullptr);
    if (!loaded.ok()) {
      if (loaded.status().code() == StatusCode::kNotFound) {
        ++report_.regions_unused;
      } else {
        Add(place.path, 0, std::string(loaded.status().message()));
      }
      co_return OkStatus();
    }
    ++(loaded->sealed ? report_.regions_sealed : report_.regions_open);
    if (loaded->sealed && loaded->source == LoadedRegion::Source::kScan) {
      Add(place.path, 0, "the footer is damaged");
    }
    std::map<uint64_t, SegmentRecord> listed;
    if (loaded->source == LoadedRegion::Source::kFooter) {
      for (const PlacedRecord& record : loaded->records) listed[record.offset] = record.segment;
    }
    if (row && row->row.generation == loaded->header.use.generation) {
      for (const PlacedRecord& record : row->records) listed[record.offset] = record.segment;
    }
    co_await CheckRecords(file->get(), place, *loaded, std::move(listed));
    co_return OkStatus();
  }

  io::Task<void> CheckRecords(io::File* file, const RegionPlace& place, const LoadedRegion& loaded,
                              std::map<uint64_t, SegmentRecord> listed) {
    BlockReader reader(file);
    const ScanOptions scan{.use = loaded.header.use,
                           .begin = kBlockBytes,
                           .end = place.length - kBlockBytes,
                           .check_payloads = options_.payloads};
    co_await ScanRecords(
        &reader, scan,
        [&](const RecordHead& head) {
          ++report_.records;
          report_.record_bytes += head.record_bytes();
          auto it = listed.find(head.offset);
          if (it == listed.end()) {
            ++report_.unlisted;
          } else if (it->second != head.segment) {
            Add(place.path, head.offset, "another segment than the one listed");
          }
          if (it != listed.end()) listed.erase(it);
          Progress(done_ + head.offset);
        },
        [&](uint64_t offset, const Status& why) {
          auto it = listed.find(offset);
          if (it != listed.end()) {
            Add(place.path, offset, std::string(why.message()));
            listed.erase(it);
          } else if (!loaded.sealed) {
            ++report_.torn;
          }
        });
    for (const auto& [offset, segment] : listed) {
      Add(place.path, offset, "a listed segment is not there");
    }
  }

  io::Task<Status> CheckPurges(uint32_t shard) {
    const std::string path = PurgesPath(directory_, shard);
    Result<Bytes> bytes = co_await ReadWholeFile(files_, path, kMaxPurgesBytes);
    if (bytes.status().code() == StatusCode::kNotFound) {
      if (report_.regions_sealed + report_.regions_open > 0) {
        Add(path, 0, "the journal of purges is missing: the next start drops all segments");
      }
      co_return OkStatus();
    }
    if (!bytes.ok()) co_return bytes.status();
    const PurgeList purges = DecodePurges(*bytes);
    report_.purges += purges.records.size();
    if (purges.damaged > 0) {
      Add(path, 0,
          std::to_string(purges.damaged) +
              " purges are damaged: the next start drops all segments");
    }
    co_return OkStatus();
  }

  io::FileSystem* const files_;
  const std::string directory_;
  CheckOptions options_;
  CheckReport report_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace

io::Task<Result<CheckReport>> CheckDirectory(io::FileSystem* files, std::string directory,
                                             CheckOptions options) {
  Check check(files, std::move(directory), std::move(options));
  co_return co_await check.Run();
}

io::Task<Result<std::vector<CatalogBatch>>> CatalogFromRegions(io::FileSystem* files,
                                                               std::string directory) {
  Result<Identity> identity = co_await ReadIdentity(files, directory);
  if (!identity.ok()) co_return identity.status();
  Result<std::vector<RegionPlace>> places =
      co_await FindRegions(files, directory, identity->shards);
  if (!places.ok()) co_return places.status();
  std::vector<CatalogBatch> batches;
  for (const RegionPlace& place : *places) {
    auto file = files->Open(place.path, {.direct = true});
    if (!file.ok()) co_return file.status();
    Result<LoadedRegion> loaded =
        co_await LoadRegion(file->get(), place.shard, place.region, identity->Digest(), nullptr);
    if (!loaded.ok()) continue;  // nothing in it can be used
    CatalogBatch batch{.shard = place.shard};
    batch.regions[place.region] = {.generation = loaded->header.use.generation,
                                   .sequence = loaded->header.sequence,
                                   .catalogued = loaded->end,
                                   .sealed = loaded->sealed};
    for (const PlacedRecord& record : loaded->records) {
      batch.records.emplace_back(place.region, record);
    }
    batches.push_back(std::move(batch));
  }
  co_return batches;
}

}  // namespace ember::kv
