#include "router/fleet/engine_metrics.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

namespace ember::router {
namespace {

constexpr uint32_t kMaxRank = 4096;
constexpr size_t kMaxRanks = 256;
constexpr double kMaxCount = 1e6;
constexpr uint64_t kMaxTokens = uint64_t{1} << 40;

enum class Figure : uint8_t { kRunning, kWaiting, kUsage, kCapacity, kCacheConfig };

struct Name {
  std::string_view name;
  Figure figure;
};

constexpr std::array kNames = {Name{"vllm:num_requests_running", Figure::kRunning},
                               Name{"vllm:num_requests_waiting", Figure::kWaiting},
                               Name{"vllm:kv_cache_usage_perc", Figure::kUsage},
                               Name{"vllm:gpu_cache_usage_perc", Figure::kUsage},  // its older name
                               Name{"vllm:cache_config_info", Figure::kCacheConfig},
                               Name{"sglang:num_running_reqs", Figure::kRunning},
                               Name{"sglang:num_queue_reqs", Figure::kWaiting},
                               Name{"sglang:token_usage", Figure::kUsage},
                               Name{"sglang:max_total_num_tokens", Figure::kCapacity},
                               Name{"llamacpp:requests_processing", Figure::kRunning},
                               Name{"llamacpp:requests_deferred", Figure::kWaiting},
                               Name{"llamacpp:kv_cache_usage_ratio", Figure::kUsage}};

// A sample line: NAME[{LABELS}] VALUE [TIME]
struct Sample {
  std::string_view name, labels;
  double value = 0;
};

template <typename Number>
std::optional<Number> NumberIn(std::string_view text) {
  Number n{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return n;
}

// The end of "{...}" that begins at `from`, quoted strings passed over; npos: it has none.
size_t EndOfLabels(std::string_view line, size_t from) {
  bool quoted = false;
  for (size_t i = from; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && line[i] == '}') {
      return i;
    }
  }
  return line.npos;
}

std::optional<Sample> ReadSample(std::string_view line) {
  Sample sample;
  const size_t name_end = std::min(line.find_first_of("{ \t"), line.size());
  sample.name = line.substr(0, name_end);
  line.remove_prefix(name_end);
  if (line.starts_with('{')) {
    const size_t end = EndOfLabels(line, 1);
    if (end == line.npos) return {};
    sample.labels = line.substr(1, end - 1);
    line.remove_prefix(end + 1);
  }
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == line.npos) return {};
  line.remove_prefix(begin);
  const auto value = NumberIn<double>(line.substr(0, line.find_first_of(" \t\r")));
  if (!value || !std::isfinite(*value) || *value < 0) return {};
  sample.value = *value;
  return sample;
}

// The value of a label without escapes in it; "" when it is not there.
std::string_view LabelOf(std::string_view labels, std::string_view name) {
  for (size_t at = labels.find(name); at != labels.npos; at = labels.find(name, at + 1)) {
    const bool whole = at == 0 || labels[at - 1] == ',' || labels[at - 1] == ' ';
    std::string_view rest = labels.substr(at + name.size());
    if (!whole || !rest.starts_with("=\"")) continue;
    rest.remove_prefix(2);
    return rest.substr(0, rest.find('"'));
  }
  return "";
}

// vLLM's label is "engine", SGLang's "dp_rank"; without one there is but one rank.
uint32_t RankOf(std::string_view labels) {
  for (const char* name : {"engine", "dp_rank"}) {
    const auto rank = NumberIn<uint32_t>(LabelOf(labels, name));
    if (rank && *rank <= kMaxRank) return *rank;
  }
  return 0;
}

// Several series of one rank (one a model name) add up.
void Take(Figure figure, const Sample& sample, EngineLoad* load) {
  const auto count = static_cast<uint32_t>(std::min(sample.value, kMaxCount));
  switch (figure) {
    case Figure::kRunning:
      load->running += count;
      return;
    case Figure::kWaiting:
      load->waiting += count;
      return;
    case Figure::kUsage:
      load->kv_usage = std::max(load->kv_usage, std::min(sample.value, 1.0));
      return;
    case Figure::kCapacity:
      load->capacity_tokens =
          std::min(static_cast<uint64_t>(std::min(sample.value, 1e12)), kMaxTokens);
      return;
    case Figure::kCacheConfig:
      const auto blocks = NumberIn<uint32_t>(LabelOf(sample.labels, "num_gpu_blocks"));
      const auto size = NumberIn<uint32_t>(LabelOf(sample.labels, "block_size"));
      if (blocks && size) load->capacity_tokens = std::min(uint64_t{*blocks} * *size, kMaxTokens);
      return;
  }
}

}  // namespace

std::map<uint32_t, EngineLoad> ReadEngineMetrics(std::string_view text) {
  std::map<uint32_t, EngineLoad> ranks;
  bool load_told = false;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    // Of a few hundred lines a dozen are of interest.
    if (!line.starts_with("vllm:") && !line.starts_with("sglang:") &&
        !line.starts_with("llamacpp:")) {
      continue;
    }
    const std::string_view name = line.substr(0, line.find_first_of("{ \t"));
    const auto known =
        std::find_if(kNames.begin(), kNames.end(), [&](const Name& n) { return n.name == name; });
    if (known == kNames.end()) continue;
    const auto sample = ReadSample(line);
    if (!sample) continue;
    const uint32_t rank = RankOf(sample->labels);
    if (ranks.size() >= kMaxRanks && !ranks.contains(rank)) continue;
    load_told = load_told || known->figure == Figure::kRunning;
    Take(known->figure, *sample, &ranks[rank]);
  }
  if (!load_told) ranks.clear();
  return ranks;
}

EngineLoad SumOf(const std::map<uint32_t, EngineLoad>& ranks) {
  EngineLoad sum;
  for (const auto& [rank, load] : ranks) {
    sum.running += load.running;
    sum.waiting += load.waiting;
    sum.capacity_tokens += load.capacity_tokens;
    sum.kv_usage += load.kv_usage / static_cast<double>(ranks.size());
  }
  return sum;
}

}  // namespace ember::router
