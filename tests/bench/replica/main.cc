// ember_bench_replica: simulated replicas with agents and a store that they share, in one process.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <csignal>
#include <cstdio>

#include "tests/bench/replica/agent_door.h"
#include "tests/bench/replica/http_door.h"

namespace ember::bench {
namespace {

struct Options {
  std::vector<uint16_t> ports, grpc_ports;
  sim::EngineShape shape;
  double prefill_us = 100;
};

int Run(const Options& o) {
  std::signal(SIGPIPE, SIG_IGN);
  sim::StoredBlocks store;
  http::HttpLoop loop(1);
  std::vector<std::unique_ptr<Replica>> replicas;
  std::vector<std::unique_ptr<HttpDoor>> doors;
  std::vector<std::unique_ptr<AgentDoor>> agents;
  const auto reset = [&] {
    store.clear();
    for (const auto& replica : replicas) replica->Reset();
  };
  for (size_t i = 0; i < o.ports.size(); ++i) {
    replicas.push_back(std::make_unique<Replica>(loop, i, o.shape, &store));
    replicas[i]->Start();
    doors.push_back(std::make_unique<HttpDoor>(loop, o.ports[i], *replicas[i], reset));
    if (const Status status = doors[i]->Listen(); !status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return 1;
    }
    if (i >= o.grpc_ports.size()) continue;
    auto agent = AgentDoor::Listen(o.grpc_ports[i], *replicas[i]);
    if (!agent.ok()) {
      std::fprintf(stderr, "%s\n", agent.status().ToString().c_str());
      return 1;
    }
    agents.push_back(*std::move(agent));
  }
  for (;;) pause();  // until a signal ends the process
}

int Main(int argc, char** argv) {
  Options o;
  CLI::App app("Simulated replicas with agents and a store that they share.");
  app.add_option("--ports", o.ports, "of HTTP, one a replica")->required()->delimiter(',');
  app.add_option("--grpc-ports", o.grpc_ports,
                 "of their agents, in the same order; fewer: the others have none")
      ->delimiter(',');
  app.add_option("--cap", o.shape.cache_blocks, "blocks of 16 tokens that a replica's cache holds")
      ->capture_default_str();
  app.add_option("--prefill-us", o.prefill_us, "a token")->capture_default_str();
  app.add_option("--base-ms", o.shape.prefill.base_ms, "a prompt")->capture_default_str();
  app.add_option("--itl-ms", o.shape.token_ms, "a token of an answer")->capture_default_str();
  app.add_option("--chunk", o.shape.chunk_tokens, "of an answer's event")->capture_default_str();
  app.add_option("--load", o.shape.load_tokens_per_ms,
                 "tokens a ms that a replica loads from the store; 0: there is none")
      ->capture_default_str();
  app.add_option("--slow-loads", o.shape.slow_loads, "share of loads that take five times as long")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  o.shape.prefill.linear_ms = o.prefill_us / 1000;
  spdlog::set_default_logger(spdlog::stderr_color_mt("replica"));
  return Run(o);
}

}  // namespace
}  // namespace ember::bench

int main(int argc, char** argv) { return ember::bench::Main(argc, argv); }
