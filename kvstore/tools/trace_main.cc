// ember-trace: replays request traces against the node's eviction policies.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>

#include "kvstore/engine/eviction_policy.h"
#include "kvstore/tools/hit_curve.h"

namespace ember::kv {
namespace {

constexpr char kDescription[] =
    "Replays request traces against the store's eviction policies: hit ratio against capacity.";
constexpr char kFooter[] =
    "A trace has one JSON object a line with \"hash_ids\", the ids of the request's prefix blocks "
    "in\n"
    "order (the format of Mooncake's published traces).\n\n"
    "Hit ratio = blocks in the unbroken prefix found / blocks asked for. \"belady\" is a bound "
    "that no\n"
    "policy passes: MIN with bypassing, which knows the future and counts hits behind holes, "
    "too.\n\n"
    "Examples:\n"
    "  ember trace conversation.jsonl synthetic.jsonl\n"
    "  ember trace conversation.jsonl --capacity 5,10,20 --policy lru,chain --json\n"
    "  ember trace *.jsonl --svg curves.svg";

struct Flags {
  std::vector<std::string> traces;
  std::vector<double> percents = {1, 2, 5, 10, 20, 50, 100};
  std::vector<std::string> policies;
  bool json = false;
  std::string svg;
};

int Fail(const std::string& why, int exit_code) {
  std::fprintf(stderr, "ember-trace: %s\n", why.substr(0, why.find('\n')).c_str());
  return exit_code;
}

int Run(const Flags& flags) {
  std::vector<HitCurve> curves;
  for (const std::string& path : flags.traces) {
    Result<RequestTrace> trace = ReadRequestTrace(path);
    if (!trace.ok()) return Fail(std::string(trace.status().message()), 1);
    curves.push_back(MeasureHitCurve(*trace, flags.percents, flags.policies));
    if (!flags.json) std::printf("%s\n", TableOf(curves.back()).c_str());
  }
  if (flags.json) std::printf("%s", JsonOf(curves).c_str());
  if (flags.svg.empty()) return 0;
  std::ofstream file(flags.svg);
  file << SvgOf(curves) << std::flush;
  return file ? 0 : Fail("--svg " + flags.svg + ": can't be written", 1);
}

int Main(int argc, char** argv) {
  Flags flags;
  for (std::string_view name : EvictionPolicyNames()) flags.policies.emplace_back(name);
  CLI::App app(kDescription, "ember-trace");
  app.footer(kFooter);
  app.set_version_flag("--version", "ember-trace " EMBER_VERSION);
  app.add_option("TRACE", flags.traces, "Files")->required();
  app.add_option("--capacity", flags.percents, "Capacities, in % of the trace's distinct blocks")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1e-6, 100.0).description(""))
      ->capture_default_str();
  app.add_option("--policy", flags.policies, "Policies")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(flags.policies))
      ->capture_default_str();
  app.add_flag("--json", flags.json, "JSON instead of tables");
  app.add_option("--svg", flags.svg, "Also a figure of the curves, into this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return Fail(std::string(e.what()) + " (see --help)", 2);
  }
  return Run(flags);
}

}  // namespace
}  // namespace ember::kv

int main(int argc, char** argv) { return ember::kv::Main(argc, argv); }
