"""Policies on simulated fleets (ember_simulate_fleet): traces with every policy, and what the store gains."""
import json
import pathlib
import subprocess
import sys

import figures

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/bin/ember_simulate_fleet"
STORE_TOKENS_PER_MS = 40  # four times as fast as computing
SEEDS = [str(seed) for seed in range(1, 6)]


def simulate(*arguments):
    """The lines of one call, as dictionaries."""
    out = subprocess.run([str(PROGRAM), *arguments], capture_output=True, text=True, check=True, timeout=600).stdout
    return [json.loads(line) for line in out.splitlines()]


def store_gain():
    for scenario in ("hot", "restart", "scale"):
        arguments = ["--scenario", scenario, "--policy", "cache_aware", "--seed", *SEEDS]
        without, = simulate(*arguments)
        for suffix, share in (("", "0"), ("_slow_loads", "0.1")):
            with_store, = simulate(*arguments, "--store", str(STORE_TOKENS_PER_MS), "--slow-loads", share)
            for name, unit, field in (("p99", "ms to the first token", "ttft_p99"), ("hit", "share of prompt tokens", "hit")):
                yield figures.line(f"simulated_store_gain_{name}_{scenario}{suffix}", unit + ", the store on", [with_store[field]],
                                   [without[field]], "without the store")


def trace_rank(trace):
    """A line a policy: rank 1 is the best of each figure, among values that differ by more than 1 %."""
    rows = simulate("--trace", trace, "--seed", *map(str, range(1, 16)))
    smaller_is_better = {"ttft_p50": True, "ttft_p99": True, "hit": False, "imbalance_computed": True}
    for row in rows:
        figure = {"metric": "trace_rank", "trace": row["scenario"], "policy": row["policy"]}
        for field, smaller in smaller_is_better.items():
            value = row[field]
            better = [r for r in rows if (r[field] < value * 0.99 if smaller else r[field] > value * 1.01)]
            figure |= {field: value, f"rank_{field}": 1 + len(better)}
        yield figure


def run(options):
    if not PROGRAM.exists():
        sys.exit("router: build ember_simulate_fleet first (preset release)")
    yield from store_gain()
    for trace in options.trace:
        yield from trace_rank(trace)
