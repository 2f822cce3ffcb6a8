"""Where the router sends requests: hit ratio, time to first token and balance, beside other routers, each before four simulated replicas.

The scenarios and costs are those of the peers' figures: conversations, hot agent prompts, a replica that dies and comes back, two replicas
that become four. In each run all routers work side by side on the same sessions, each with replicas of its own (1,500 blocks of 16 tokens,
prefill 100 us a token one prompt after the other, 8 ms a token of answer). router_store_gain.py has what a store gains."""
import collections
import dataclasses
import json
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import figures
import router_overhead
import router_peers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = "ember-router cache_aware"  # by the replicas' KV events
OURS_BY_TEXT = "ember-router cache_aware, no events"
EVENTS = 8  # from a replica's port to that of its events, or its agent
REPLICA = ["-cap", "1500", "-prefill-us", "100", "-base-ms", "2", "-itl-ms", "8", "-chunk", "16"]
CHAT = ["-work", "multiturn", "-turns", "6", "-sysn", "8", "-systok", "500", "-usertok", "200", "-out", "32", "-think", "1"]
HOT = ["-work", "hotspot", "-turns", "2", "-sysn", "16", "-systok", "1500", "-zipf", "1.5", "-usertok", "300", "-out", "32", "-think", "0.5"]
# Of a run: when a replica dies, is back, and when the new ones join; when their share is counted.
DEATH, BACK, JOIN = 12, 16, 12
BACK_WINDOW, SCALE_WINDOW = (BACK + 4, BACK + 6), (JOIN + 10, JOIN + 22)


@dataclasses.dataclass(frozen=True)
class Scenario:
    load: list
    seconds: int
    replicas: int = 4  # at the start


SCENARIOS = {
    "chat": Scenario([*CHAT, "-rate", "8"], 30),
    "hot": Scenario([*HOT, "-rate", "30"], 30),
    "restart": Scenario([*CHAT, "-rate", "6"], 34),
    "scale": Scenario([*CHAT, "-rate", "6"], 34, replicas=2),
}
# metric: (unit, scenario, field of a run, higher is better)
METRICS = {
    "chat_hit": ("share of prompt tokens", "chat", "hit", True),
    "chat_p50": ("ms to the first token", "chat", "ttft50", False),
    "chat_p99": ("ms to the first token", "chat", "ttft99", False),
    "hot_hit": ("share of prompt tokens", "hot", "hit", True),
    "hot_p50": ("ms to the first token", "hot", "ttft50", False),
    "hot_p99": ("ms to the first token", "hot", "ttft99", False),
    "hot_imbalance": ("requests, most/mean", "hot", "imb_req", False),
    "back_share": ("share of requests 4-6 s after it is back", "restart", "share", True),
    "back_errors": ("failed requests, cut streams not counted", "restart", "errors", False),
    "back_p99": ("ms to the first token", "restart", "ttft99", False),
    "scale_share": ("share of requests 10-22 s after two joined", "scale", "share", True),
    "scale_p99": ("ms to the first token", "scale", "ttft99", False),
}


def _ours(port, ports, folder):
    command = router_peers.ours(port, [f"http=127.0.0.1:{p},events=tcp://127.0.0.1:{p + EVENTS}" for p in ports])
    return [*command, "--policy=cache_aware", f"--admin=127.0.0.1:{port + 1}"]


def _ours_by_text(port, ports, folder):
    return [*router_peers.ours(port, [f"http=127.0.0.1:{p}" for p in ports]), "--policy=cache_aware", f"--admin=127.0.0.1:{port + 1}"]


def _join_ours(port, replica):
    return (f'POST http://127.0.0.1:{port + 1}/admin/replicas '
            f'{{"id":"new{replica}","http":"127.0.0.1:{replica}","events":"tcp://127.0.0.1:{replica + EVENTS}"}}')


def _join_ours_by_text(port, replica):
    return f'POST http://127.0.0.1:{port + 1}/admin/replicas {{"id":"new{replica}","http":"127.0.0.1:{replica}"}}'


def _vllm_by_events(port, ports, folder):
    command = router_peers.rust_router("vllm-router", "kv_aware", "warning", "vllm-router")(port, ports, folder)
    every = range(port + 2, port + 6)  # of replicas that join, too
    sources = [s for p in every for s in ("--kv-event-source", f"http://127.0.0.1:{p}=tcp://127.0.0.1:{p + EVENTS}")]
    return command and [*command, *sources, "--kv-event-block-size", 16, "--kv-event-model", "fake"]


def _join_vllm(port, replica):
    return f"POST http://127.0.0.1:{port}/add_worker?url=http://127.0.0.1:{replica}"


def _join_smg(port, replica):
    return f'POST http://127.0.0.1:{port}/workers {{"url":"http://127.0.0.1:{replica}"}}'


@dataclasses.dataclass(frozen=True)
class Rival:
    command: object  # as router_peers.ROUTERS'
    join: object     # (listening port, replica's port) -> the load generator's action
    session_header: str = ""


RIVALS = {
    OURS: Rival(_ours, _join_ours),
    OURS_BY_TEXT: Rival(_ours_by_text, _join_ours_by_text),
    "smg cache_aware": Rival(router_peers.rust_router("smg", "cache_aware", "warn", "smg", "launch"), _join_smg),
    "vllm-router cache_aware": Rival(router_peers.rust_router("vllm-router", "cache_aware", "warning", "vllm-router"), _join_vllm),
    "vllm-router consistent_hash": Rival(router_peers.rust_router("vllm-router", "consistent_hash", "warning", "vllm-router"), _join_vllm,
                                         "X-Session-ID"),
    "vllm-router kv_aware": Rival(_vllm_by_events, _join_vllm),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


class Stand:
    """One router and its replicas, ready for one run."""

    def __init__(self, rival, scenario, replicas, folder):
        """`replicas`: their ports -> their command."""
        self._rival, self._scenario, self._folder = rival, scenario, folder
        self.port, *self.ports = _ports()
        self._replicas = subprocess.Popen(list(map(str, replicas(self.ports))), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _await(f"http://127.0.0.1:{self.ports[-1]}/health")
            command = self._rival.command(self.port, self.ports[:scenario.replicas], folder)
            if not command:
                raise FileNotFoundError("not installed")
            self._router = router_peers.Running(command, f"http://127.0.0.1:{self.port}", folder, [])
        except Exception:
            self._end_replicas()
            raise
        urllib.request.urlopen(f"http://127.0.0.1:{self.ports[0]}/admin/reset").close()

    def start(self, generator, kind, seed):
        actions = []
        if kind == "restart":
            actions = [f"{DEATH}s=GET http://127.0.0.1:{self.ports[0]}/admin/kill?down_ms={(BACK - DEATH) * 1000}"]
        if kind == "scale":
            actions = [f"{JOIN}s={self._rival.join(self.port, port)}" for port in self.ports[2:]]
        command = [str(generator), "-mode", "quality", "-url", f"http://127.0.0.1:{self.port}", *self._scenario.load, "-dur",
                   f"{self._scenario.seconds}s", "-seed", str(seed), "-pids", ",".join(map(str, self._router.pids)),
                   "-record", str(self._folder / "record"), "-at", ";".join(actions)]
        if self._rival.session_header:
            command += ["-session-header", self._rival.session_header]
        self._load = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def result(self, kind):
        """The load generator's line, with the figures that only the single requests show."""
        row = json.loads(self._load.communicate(timeout=180)[0])
        records = [json.loads(line) for line in (self._folder / "record").read_text().splitlines()]
        window = {"restart": BACK_WINDOW, "scale": SCALE_WINDOW}.get(kind)
        if window:
            there = [r for r in records if window[0] <= r["t"] < window[1] and not r.get("err")]
            new = {"0"} if kind == "restart" else {"2", "3"}
            row["share"] = sum(r["rep"] in new for r in there) / max(1, len(there))
        row["errors"] = sum(count for what, count in row["errs"].items() if what != "cut")
        row["error_ms"] = _prediction_error(self.port)
        return row

    def stop(self):
        self._router.stop()
        self._end_replicas()

    def _end_replicas(self):
        self._replicas.terminate()
        self._replicas.wait()


def _ports():
    """A router's, whose successor is its admin API's, and four replicas', of which each has one for its events or its agent EVENTS further.
    Below those that the system gives away by itself, for a replica that died takes its own again."""
    while True:
        first = random.randrange(12000, 22000, 16)
        try:
            for port in range(first, first + 16):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            return [first, *range(first + 2, first + 6)]
        except OSError:
            continue


def _await(url):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{url} does not answer")


def _prediction_error(port):
    """Median of |predicted - measured| TTFT in ms, from a router's own histogram; None where it has none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
            lines = page.read().decode().splitlines()
    except OSError:
        return None
    buckets = []
    for line in lines:
        if line.startswith("ember_router_ttft_error_seconds_bucket"):
            edge = line.split('le="')[1].split('"')[0]
            buckets.append((float(edge.replace("+Inf", "inf")), float(line.rsplit(" ", 1)[1])))
    if not buckets or buckets[-1][1] == 0:
        return None
    half, below, counted = buckets[-1][1] / 2, 0.0, 0.0
    for edge, count in buckets:
        if count >= half:
            return 1000 * (below + (min(edge, 1e6) - below) * (half - counted) / max(count - counted, 1))
        below, counted = edge, count
    return None


class Bench:
    def __init__(self, options):
        self._replica, self._generator = router_overhead.build_tools(options.peers)
        self._seeds = [1] if options.quick else range(1, max(3, min(options.rounds, 5)) + 1)
        self._scenarios = {name: dataclasses.replace(s, seconds=3) if options.quick and name in ("chat", "hot") else s
                           for name, s in SCENARIOS.items() if not options.quick or name in ("chat", "hot")}
        self._values = collections.defaultdict(lambda: collections.defaultdict(list))  # (scenario, field): router: values
        self._absent = {}

    def run(self):
        for seed in self._seeds:
            for kind, scenario in self._scenarios.items():
                say(f"router quality: {kind}, seed {seed} of {len(self._seeds)}")
                self._run_side_by_side(kind, scenario, seed)
        return self._figures()

    def _replicas(self, ports):
        return [self._replica, "-ports", ",".join(map(str, ports)), *REPLICA, "-kv-port", ports[0] + EVENTS, "-kv-map"]

    def _run_side_by_side(self, kind, scenario, seed):
        with tempfile.TemporaryDirectory(prefix="ember-bench-") as folder:
            stands = {}
            try:
                for i, name in enumerate(n for n in RIVALS if n not in self._absent):
                    own = pathlib.Path(folder) / str(i)
                    own.mkdir()
                    try:
                        stands[name] = Stand(RIVALS[name], scenario, self._replicas, own)
                    except (OSError, RuntimeError) as error:
                        self._absent[name] = str(error)
                for stand in stands.values():
                    stand.start(self._generator, kind, seed)
                for name, stand in stands.items():
                    row = stand.result(kind)
                    say(f"  {name}: {json.dumps(row)}")
                    for field, value in row.items():
                        self._values[kind, field][name].append(value)
            finally:
                for stand in stands.values():
                    stand.stop()

    def _figures(self):
        absent = "; ".join(f"{router}: {why}" for router, why in self._absent.items())
        for name, (unit, kind, field, higher) in METRICS.items():
            if kind not in self._scenarios:
                continue
            values = dict(self._values[kind, field])
            ours, by_text = values.pop(OURS, ()), values.pop(OURS_BY_TEXT, ())
            best, peers = (max if higher else min)(values.items(), key=lambda item: figures.median(item[1]), default=(None, ()))
            figure = figures.line(name, unit, ours, peers, best, reason=absent or None)
            yield figure | {"ours_no_events": round(figures.median(by_text), 3) if by_text else None,
                            "peers": {router: round(figures.median(v), 3) for router, v in values.items()}}
        for kind in self._scenarios:
            errors = [v for v in self._values[kind, "error_ms"].get(OURS, ()) if v is not None]
            yield figures.line(f"{kind}_ttft_error", "ms, median of |predicted - measured| TTFT", errors)


def run(options):
    yield from Bench(options).run()
