#include "tests/crash/data_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

namespace ember::testing {
namespace {

namespace fs = std::filesystem;

void FlipBytes(const fs::path& file, uint64_t size, RandomSource* random) {
  std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
  for (int i = 0; i < 8; ++i) {
    const auto at = static_cast<std::streamoff>(random->Next() % size);
    stream.seekg(at);
    const int byte = stream.get();
    stream.seekp(at);
    stream.put(static_cast<char>(byte ^ (1 + static_cast<int>(random->Next() % 255))));
  }
}

}  // namespace

DataFolder::Use DataFolder::Measure() const {
  static const std::regex known(
      "IDENTITY|LOCK|catalog(\\.bad)?/.*|shard-\\d+/(region-[0-9a-f]{8}|purges)");
  Use use;
  for (const auto& entry : fs::recursive_directory_iterator(path_)) {
    if (entry.is_directory()) continue;
    const std::string name = entry.path().lexically_relative(path_).string();
    const uint64_t size = entry.file_size();
    if (name.find("/region-") != std::string::npos) {
      use.region_bytes += size;
      ++use.regions;
    } else {
      use.other_bytes += size;
    }
    if (!std::regex_match(name, known)) use.strangers.push_back(name);
  }
  return use;
}

void DataFolder::DeleteCatalog() const { fs::remove_all(path_ + "/catalog"); }

bool DataFolder::DamageCatalog(RandomSource* random) const {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(path_ + "/catalog", none)) {
    if (entry.is_regular_file() && entry.file_size() > 0) files.push_back(entry.path());
  }
  if (files.empty()) return false;
  std::ranges::sort(files);
  const fs::path& file = files[random->Next() % files.size()];
  const uint64_t size = fs::file_size(file);
  switch (random->Next() % 3) {
    case 0:
      FlipBytes(file, size, random);
      break;
    case 1:
      fs::resize_file(file, random->Next() % size);
      break;
    default:
      fs::remove(file);
  }
  return true;
}

}  // namespace ember::testing
