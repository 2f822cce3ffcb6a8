"""What the store gains: our router before replicas that can load what any of them has computed, beside the same before replicas that can't.

Real router, real time; the replicas (ember_bench_replica) have the costs of router_quality.py's and an agent each, which the router
follows. A replica loads 40 tokens/ms, four times as fast as it computes. A third fleet has a store of which every tenth load takes five
times as long: longer than to compute, and nobody knows which."""
import collections
import json
import pathlib
import sys
import tempfile
import urllib.request

import figures
import router_overhead
import router_peers
from router_quality import EVENTS, SCENARIOS, Rival, Stand, say

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build/release/bin/ember_bench_replica"
REPLICA = ["--cap=1500", "--prefill-us=100", "--base-ms=2", "--itl-ms=8", "--chunk=16"]
WITHOUT = "without the store"
# fleet: how its replicas load
LOADS = {"with the store": ["--load=40"], "with the store, every tenth load slow": ["--load=40", "--slow-loads=0.1"], WITHOUT: ["--load=0"]}
SUFFIX = dict(zip(LOADS, ("", "_slow_loads")))  # of the metrics' names
KINDS = ("hot", "restart", "scale")
# field of a run: (name, unit)
FIELDS = {f"ttft{q}": (f"p{q}", "ms to the first token") for q in (99, 95, 50)} | {"hit": ("hit", "share of prompt tokens")}


def _router(port, ports, _folder):
    replicas = [f"http=127.0.0.1:{p},grpc=127.0.0.1:{p + EVENTS}" for p in ports]
    return [*router_peers.ours(port, replicas), "--policy=cache_aware", f"--admin=127.0.0.1:{port + 1}"]


def _join(port, replica):
    number = replica - port - 2
    return (f"POST http://127.0.0.1:{port + 1}/admin/replicas "
            f'{{"id":"r{number}","http":"127.0.0.1:{replica}","grpc":"127.0.0.1:{replica + EVENTS}"}}')


def _replicas(side):
    def command(ports):
        return [PROGRAM, "--ports", ",".join(map(str, ports)), "--grpc-ports", ",".join(str(p + EVENTS) for p in ports), *REPLICA,
                *LOADS[side]]
    return command


def _sum_of(name, ports):
    """Of one metric of all replicas."""
    total = 0.0
    for port in ports:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
            total += sum(float(line.rsplit(" ", 1)[1]) for line in page.read().decode().splitlines() if line.startswith(name))
    return total


class Bench:
    def __init__(self, options):
        if not PROGRAM.exists():
            sys.exit("router: build ember_bench_replica first (preset release)")
        _, self._generator = router_overhead.build_tools(options.peers)
        self._seeds = [1] if options.quick else range(1, max(3, min(options.rounds, 5)) + 1)
        self._kinds = ("hot",) if options.quick else KINDS
        self._values = collections.defaultdict(list)  # (scenario, field, side): values

    def run(self):
        for seed in self._seeds:
            for kind in self._kinds:
                say(f"router store gain: {kind}, seed {seed} of {len(self._seeds)}")
                self._run_side_by_side(kind, seed)
        for kind in self._kinds:
            for field, (name, unit) in FIELDS.items():
                for side, suffix in SUFFIX.items():
                    yield figures.line(f"store_gain_{name}_{kind}{suffix}", f"{unit}, {side}", self._values[kind, field, side],
                                       self._values[kind, field, WITHOUT], WITHOUT)

    def _run_side_by_side(self, kind, seed):
        scenario, stands = SCENARIOS[kind], {}
        with tempfile.TemporaryDirectory(prefix="ember-bench-") as folder:
            try:
                for side in LOADS:
                    own = pathlib.Path(folder) / side
                    own.mkdir()
                    stands[side] = Stand(Rival(_router, _join), scenario, _replicas(side), own)
                for stand in stands.values():
                    stand.start(self._generator, kind, seed)
                for side, stand in stands.items():
                    row = stand.result(kind)
                    row["loaded"] = _sum_of("fake:loaded_tokens_total", stand.ports) / _sum_of("vllm:prompt_tokens_total", stand.ports)
                    say(f"  {side}: {json.dumps(row)}")
                    for field in FIELDS:
                        self._values[kind, field, side].append(row[field])
            finally:
                for stand in stands.values():
                    stand.stop()


def run(options):
    yield from Bench(options).run()
