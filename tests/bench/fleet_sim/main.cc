// ember_fleet_sim: the router's policies on simulated fleets; one JSON line a scenario and policy.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "router/policy/registry.h"
#include "tests/bench/fleet_sim/simulation.h"

namespace ember::sim {
namespace {

struct Options {
  std::vector<std::string> scenarios = {"chat", "hot", "restart", "scale"};
  std::vector<std::string> traces, policies;
  std::vector<uint64_t> seeds = {1, 2, 3};
  double store_tokens_per_ms = 0, slow_loads = 0, speed = 1, rate = 1;
  size_t routers = 1, limit = 0, cache_blocks = 0;
  double report_ms = 250, first_slower = 1;
  uint64_t output = 32;
  bool whole = false;
};

struct Scenario {
  std::string name;
  FleetShape fleet;
  std::function<Work(uint64_t seed)> work;
  double share_from_ms = 0, share_to_ms = 0;  // of the replicas that joined or came back
};

Scenario ScenarioOf(const std::string& name, const Options& o) {
  Scenario s{.name = name};
  ChatShape chat{.sessions_per_s = 6 * o.rate, .seconds = 34};
  if (name == "chat") chat = {.sessions_per_s = 8 * o.rate};
  if (name == "hot") {
    chat = {.sessions_per_s = 30 * o.rate,
            .turns = 2,
            .system_prompts = 16,
            .system_tokens = 1500,
            .user_tokens = 300,
            .think_s = 0.5,
            .zipf = 1.5};
  }
  if (name == "restart") {
    s.fleet.kill_first_ms = 12000;
    s.fleet.back_ms = 16000;
    s.share_from_ms = 20000;
    s.share_to_ms = 22000;
  }
  if (name == "scale") {
    s.fleet.join_ms = 12000;
    s.share_from_ms = 22000;
    s.share_to_ms = 34000;
  }
  chat.output_tokens = o.output;
  s.work = [name, chat](uint64_t seed) { return MakeChat(name, chat, seed); };
  return s;
}

Scenario ScenarioOfTrace(const std::string& path, const Options& o) {
  const Work work = ReadTrace(path, o.speed, o.limit);
  Scenario s{.name = work.name, .work = [work](uint64_t) { return work; }};
  s.fleet.replicas = 8;
  s.fleet.engine.prefill = {.linear_ms = 0.1, .context_ms = 3e-6, .base_ms = 2};
  s.fleet.engine.cache_blocks = 1000;
  return s;
}

double Quantile(std::vector<double> v, double q) {
  if (v.empty()) return 0;
  const size_t rank = static_cast<size_t>(std::ceil(q * static_cast<double>(v.size()))) - 1;
  std::nth_element(v.begin(), v.begin() + static_cast<ptrdiff_t>(rank), v.end());
  return v[rank];
}

using Figures = std::map<std::string, double>;

Figures FiguresOf(const Scenario& s, const Result& result) {
  std::vector<double> ttft, error;
  std::vector<double> requests(s.fleet.replicas), computed(s.fleet.replicas);
  double prompt = 0, cached = 0, loaded = 0, in_window = 0, on_new = 0, sum = 0;
  for (const Outcome& o : result.outcomes) {
    ttft.push_back(o.ttft_ms);
    sum += o.ttft_ms;
    if (o.predicted_ms > 0) error.push_back(std::abs(o.predicted_ms - o.ttft_ms));
    prompt += static_cast<double>(o.prompt_tokens);
    cached += static_cast<double>(o.cached_tokens);
    loaded += static_cast<double>(o.loaded_tokens);
    ++requests[o.replica];
    computed[o.replica] += static_cast<double>(o.prompt_tokens - o.cached_tokens);
    if (o.at_ms < s.share_from_ms || o.at_ms >= s.share_to_ms) continue;
    ++in_window;
    on_new += s.fleet.join_ms > 0 ? o.replica >= s.fleet.replicas / 2 : o.replica == 0;
  }
  const auto n = static_cast<double>(ttft.size());
  const auto imbalance = [&](const std::vector<double>& v) {
    double total = 0;
    for (const double x : v) total += x;
    return total > 0 ? *std::max_element(v.begin(), v.end()) * static_cast<double>(v.size()) / total
                     : 0;
  };
  return {{"requests", n},
          {"hit", cached / prompt},
          {"loaded", loaded / prompt},
          {"ttft_mean", sum / n},
          {"ttft_p50", Quantile(ttft, 0.5)},
          {"ttft_p95", Quantile(ttft, 0.95)},
          {"ttft_p99", Quantile(ttft, 0.99)},
          {"imbalance", imbalance(requests)},
          {"imbalance_computed", imbalance(computed)},
          {"error_p50", Quantile(error, 0.5)},
          {"share", in_window > 0 ? on_new / in_window : 0},
          {"cut", static_cast<double>(result.cut)}};
}

void RunScenario(const Scenario& scenario, const Options& o) {
  for (const std::string& name : o.policies) {
    const router::Policy* policy = router::FindPolicy(name);
    if (policy == nullptr) {
      std::fprintf(stderr, "unknown policy %s; known: %s\n", name.c_str(),
                   router::PolicyNames().c_str());
      std::exit(2);
    }
    std::map<std::string, std::vector<double>> seeds;
    for (const uint64_t seed : o.seeds) {
      const Work work = scenario.work(seed);
      for (const auto& [figure, value] :
           FiguresOf(scenario, Simulate(scenario.fleet, work, *policy, seed))) {
        seeds[figure].push_back(value);
      }
    }
    std::printf("{\"scenario\":\"%s\",\"policy\":\"%s\",\"seeds\":%zu", scenario.name.c_str(),
                name.c_str(), o.seeds.size());
    for (const auto& [figure, values] : seeds)
      std::printf(",\"%s\":%.4g", figure.c_str(), Quantile(values, 0.5));
    std::printf("}\n");
    std::fflush(stdout);
  }
}

int Main(int argc, char** argv) {
  Options o;
  CLI::App app("The router's policies on simulated fleets: JSON lines, medians of the seeds.");
  for (const router::Policy* p : router::AllPolicies()) o.policies.emplace_back(p->name());
  app.add_option("--scenario", o.scenarios,
                 "chat, hot, restart, scale; as shared/bench/router's quality.sh")
      ->capture_default_str();
  app.add_option("--trace", o.traces, "a Mooncake trace instead, on 8 replicas; repeatable");
  app.add_option("--policy", o.policies, "repeatable; all by default");
  app.add_option("--seed", o.seeds, "repeatable")->capture_default_str();
  app.add_option("--store", o.store_tokens_per_ms,
                 "tokens a ms that a replica loads from a shared store; 0: none");
  app.add_option("--slow-loads", o.slow_loads, "share of loads that take five times as long");
  app.add_option("--speed", o.speed, "of a trace");
  app.add_option("--limit", o.limit, "lines of a trace; 0: all");
  app.add_option("--rate", o.rate, "times the scenario's sessions a second");
  app.add_option("--routers", o.routers,
                 "that share the requests and see each other's load in reports only");
  app.add_option("--report-ms", o.report_ms, "between two load reports");
  app.add_flag("--whole", o.whole, "replies are not streamed");
  app.add_option("--output", o.output, "tokens of an answer, of the scenarios");
  app.add_option("--first-slower", o.first_slower, "times the first replica's prefill");
  app.add_option("--cache-blocks", o.cache_blocks, "of a replica; 0: the scenario's");
  CLI11_PARSE(app, argc, argv);
  std::vector<Scenario> scenarios;
  for (const std::string& trace : o.traces) scenarios.push_back(ScenarioOfTrace(trace, o));
  if (o.traces.empty()) {
    for (const std::string& name : o.scenarios) scenarios.push_back(ScenarioOf(name, o));
  }
  for (Scenario& s : scenarios) {
    s.fleet.routers = o.routers;
    s.fleet.report_ms = o.report_ms;
    s.fleet.streams = !o.whole;
    s.fleet.first_slower = o.first_slower;
    s.fleet.engine.load_tokens_per_ms = o.store_tokens_per_ms;
    s.fleet.engine.slow_loads = o.slow_loads;
    if (o.cache_blocks > 0) s.fleet.engine.cache_blocks = o.cache_blocks;
    RunScenario(s, o);
  }
  return 0;
}

}  // namespace
}  // namespace ember::sim

int main(int argc, char** argv) { return ember::sim::Main(argc, argv); }
