#include "router/fleet/replica_config.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <vector>

#include "router/fleet/event_endpoint.h"

namespace ember::router {
namespace {

constexpr size_t kMaxFieldBytes = 1024;
constexpr uint32_t kMaxRanks = 64;
constexpr uint32_t kMaxRankNumber = 4096;
constexpr uint32_t kMaxConcurrency = 1u << 20;
constexpr double kMaxWeight = 100;
constexpr size_t kMaxModelName = 256;

bool IsNameOf(std::string_view text, std::string_view punctuation) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           punctuation.find(c) != punctuation.npos;
  });
}

template <typename Number>
bool ReadNumber(std::string_view text, Number least, Number most, Number* out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out >= least && *out <= most;
}

// "4" or "4@2": how many, and the first one's number.
bool ReadRanks(std::string_view text, ReplicaConfig* out) {
  const size_t at = text.find('@');
  return ReadNumber(text.substr(0, at), 1u, kMaxRanks, &out->ranks) &&
         (at == text.npos || ReadNumber(text.substr(at + 1), 0u, kMaxRankNumber, &out->first_rank));
}

// "name" or "name,alias".
bool ReadModels(std::string_view text, std::vector<std::string>* out) {
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    more = comma != text.npos;
    const std::string_view name = text.substr(0, comma);
    if (name.empty() || name.size() > kMaxModelName) return false;
    out->emplace_back(name);
    text.remove_prefix(more ? comma + 1 : text.size());
  }
  return true;
}

Status SetField(std::string_view name, std::string_view value, ReplicaConfig* out) {
  const auto want = [&](bool is, const char* what) {
    return is ? OkStatus() : InvalidError(std::string(name) + "= wants " + what);
  };
  if (value.empty() || value.size() > kMaxFieldBytes ||
      std::any_of(value.begin(), value.end(),
                  [](unsigned char c) { return c < ' ' || c == 127; })) {
    return want(false, "1 to 1024 printable characters");
  }
  if (name == "http" || name == "grpc") {
    Result<http::Origin> origin = http::Origin::Parse(value);
    if (!origin.ok()) return origin.status();
    if (name == "http") {
      out->http = *std::move(origin);
    } else {
      out->grpc = origin->ToString();
    }
    return OkStatus();
  }
  if (name == "events" || name == "replay") {
    (name == "events" ? out->events : out->replay) = value;
    return EventEndpoint::Parse(value).status().WithContext(name);
  }
  if (name == "host") {
    out->host = value;
    return want(IsNameOf(value, "._-:[]"), "a host name");
  }
  if (name == "key" || name == "key_file") {
    (name == "key" ? out->key : out->key_file) = value;
    return OkStatus();
  }
  if (name == "model") {
    return want(ReadModels(value, &out->models), "names of at most 256 bytes between commas");
  }
  if (name == "ranks") return want(ReadRanks(value, out), "N or N@FIRST, N from 1 to 64");
  if (name == "weight") {
    return want(ReadNumber(value, 0.01, kMaxWeight, &out->weight), "a number from 0.01 to 100");
  }
  if (name == "max_concurrency") {
    return want(ReadNumber(value, 1u, kMaxConcurrency, &out->max_concurrency), "a count from 1");
  }
  return InvalidError("unknown field \"" + std::string(name.substr(0, 50)) +
                      "\"; known: http, grpc, events, replay, host, model, key, key_file, ranks, "
                      "weight, max_concurrency");
}

}  // namespace

Result<ReplicaConfig> ReplicaConfig::FromFields(std::string_view id,
                                                std::span<const Field> fields) {
  const std::string context = "replica \"" + std::string(id.substr(0, 100)) + "\"";
  // Ids stand in paths of the admin API, where "." and ".." mean something else.
  if (!IsNameOf(id, "._-") || id.size() > 64 || id == "." || id == "..") {
    return InvalidError(context +
                        ": its id is 1 to 64 letters, digits and \"._-\", and not only dots");
  }
  ReplicaConfig config;
  config.id = id;
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto& [name, value] = fields[i];
    const bool twice = std::any_of(fields.begin(), fields.begin() + static_cast<ptrdiff_t>(i),
                                   [&](const Field& f) { return f.first == name; });
    if (twice) return InvalidError(context + ": " + std::string(name.substr(0, 50)) + "= twice");
    if (Status set = SetField(name, value, &config); !set.ok()) return set.WithContext(context);
  }
  if (config.http.port == 0) return InvalidError(context + ": http=HOST:PORT is missing");
  config.http.virtual_host = config.host;
  if (!config.replay.empty() && config.events.empty()) {
    return InvalidError(context + ": replay= without events=");
  }
  const uint32_t last_rank = config.ranks > 0 ? config.first_rank + config.ranks - 1 : 0;
  for (const std::string& address : {config.events, config.replay}) {
    if (address.empty()) continue;
    const Result<EventEndpoint> last = EventEndpoint{address}.OfRank(last_rank);
    if (!last.ok()) return last.status().WithContext(context);
  }
  if (!config.key.empty() && !config.key_file.empty()) {
    return InvalidError(context + ": key= and key_file=");
  }
  if (config.ranks > 0 && !config.grpc.empty()) {
    return InvalidError(context + ": an agent knows no ranks; ranks= goes with events=");
  }
  return config;
}

Result<ReplicaConfig> ReplicaConfig::Parse(std::string_view text) {
  const size_t comma = std::min(text.find(','), text.size());
  std::string_view rest = text.substr(std::min(comma + 1, text.size()));
  std::vector<Field> fields;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view field = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = field.find('=');
    if (equals == field.npos && !fields.empty() && fields.back().first == "model") {
      // One more model: the list goes on.
      std::string_view& models = fields.back().second;
      models = {models.data(), static_cast<size_t>(field.data() + field.size() - models.data())};
      continue;
    }
    if (equals == field.npos) {
      return InvalidError("replica \"" + std::string(text.substr(0, std::min(comma, size_t{100}))) +
                          "\": expected NAME=VALUE after each comma");
    }
    fields.emplace_back(field.substr(0, equals), field.substr(equals + 1));
  }
  return FromFields(text.substr(0, comma), fields);
}

void ReplicaConfig::Tune(const ReplicaConfig& other) {
  key = other.key;
  key_file = other.key_file;
  weight = other.weight;
  max_concurrency = other.max_concurrency;
}

bool ReplicaConfig::MayBecome(const ReplicaConfig& other) const {
  ReplicaConfig tuned = *this;
  tuned.Tune(other);
  return tuned == other;
}

Status ReplicaConfig::LoadKey() {
  if (key_file.empty()) return OkStatus();
  std::ifstream file(key_file);
  std::string line(kMaxFieldBytes + 1, '\0');
  file.getline(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(line.find('\0'));
  while (line.ends_with('\r') || line.ends_with(' ')) line.pop_back();
  if (!file.good() && !file.eof()) {
    return UnavailableError("replica \"" + id + "\": key_file \"" + key_file + "\": can't be read");
  }
  if (line.empty() ||
      !std::all_of(line.begin(), line.end(), [](unsigned char c) { return c > ' ' && c < 127; })) {
    return InvalidError("replica \"" + id + "\": key_file \"" + key_file + "\": no key in line 1");
  }
  key = std::move(line);
  return OkStatus();
}

}  // namespace ember::router
