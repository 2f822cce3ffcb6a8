"""What the router itself costs: CPU time a request and latency added, beside other routers and plain proxies, in turn.

The method is that of the peers' figures: every router pinned to one processor, four replicas without any delay in one process on
another, a closed loop of few connections; SCHED_RR where this process may. The replicas and the load generator are programs of the
folder given by --peers, built with Go."""
import collections
import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

import figures
from router_peers import OURS, ROOT, ROUTERS, Running

sys.path.insert(0, str(ROOT / "deploy/local"))
from ember_demo.process import free_ports  # noqa: E402

MODEL = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "emberkv/vllm-model"
SMALL, LONG, HUGE = 512, 32 << 10, 256 << 10
ROUTER_CPU, REPLICA_CPU = 0, 1


@dataclasses.dataclass(frozen=True)
class Cell:
    """One kind of load. `vary`: where a body is new, in its head or only in its last 20 bytes; `chunks`: of a stream."""
    size: int
    vary: str
    connections: int
    chunks: int = 0


# metric: (unit, cell, field of the load generator's line)
CPU = "cpu_us_req"
COLD = Cell(LONG, "head", 16)
METRICS = {
    "cpu_us_small": ("CPU us/request", Cell(SMALL, "head", 64), CPU),
    "cpu_us_stream": ("CPU us/request", Cell(SMALL, "head", 64, chunks=32), CPU),
    "cpu_us_stream_4": ("CPU us/request", Cell(SMALL, "head", 64, chunks=4), CPU),
    "cpu_us_32k": ("CPU us/request", Cell(LONG, "tail", 16), CPU),
    "cpu_us_256k": ("CPU us/request", Cell(HUGE, "tail", 16), CPU),
    "cpu_us_cold_32k": ("CPU us/request", COLD, CPU),
    "first_byte_us": ("us added", Cell(SMALL, "head", 1, chunks=4), "first50_us"),
}


def say(text):
    print(text, file=sys.stderr, flush=True)


def pinned(cpu, priority):
    """What a command is started with: SCHED_RR where permitted, so that other work on the machine doesn't take its processor."""
    pin = ["taskset", "-c", str(cpu)] if cpu is not None and os.cpu_count() > cpu else []
    realtime = shutil.which("chrt") and subprocess.run(["chrt", "-r", "1", "true"], capture_output=True).returncode == 0
    return pin + (["chrt", "-r", str(priority)] if realtime else [])


def build_tools(peers):
    """(replica, load generator), compiled once."""
    if not peers or not (pathlib.Path(peers) / "router/loadgen").is_dir():
        sys.exit("router: --peers FOLDER must hold router/fakereplica and router/loadgen")
    if not shutil.which("go"):
        sys.exit("router: Go is needed to build the replica and the load generator")
    folder = pathlib.Path(os.environ.get("PEERS_DIR") or tempfile.mkdtemp(prefix="ember-bench-"))
    source = pathlib.Path(peers).resolve() / "router"
    for name in ("fakereplica", "loadgen"):
        if not (folder / name).exists():
            subprocess.run(["go", "build", "-o", folder / name, f"./{name}"], cwd=source, check=True)
    return folder / "fakereplica", folder / "loadgen"


class Replicas:
    """Four replicas in one process. `chunks`: events of a streamed reply."""

    def __init__(self, program, chunks):
        self.ports = free_ports(4)
        shape = {4: ["-out", 8, "-chunk", 4], 32: ["-out", 32, "-chunk", 1]}[chunks]
        self._process = subprocess.Popen([*pinned(REPLICA_CPU, 2), str(program), "-procs", "1", "-ports", ",".join(map(str, self.ports)),
                                          *map(str, shape)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.ports[-1]}/health", timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        sys.exit("router: the replicas do not start")

    def stop(self):
        self._process.terminate()
        self._process.wait()


def load(generator, cell, url, pids, seconds):
    out = subprocess.run([*pinned(None, 1), str(generator), "-url", url, "-c", str(cell.connections), "-size", str(cell.size), "-vary", cell.vary,
                          f"-stream={'true' if cell.chunks else 'false'}", "-dur", f"{seconds}s", "-warm", "150ms",
                          "-pids", ",".join(map(str, pids))],
                         capture_output=True, text=True, check=True, env=os.environ | {"GOMAXPROCS": "1"}, timeout=60)
    line = json.loads(out.stdout)
    if line["err"]:
        say(f"router: {url}: {line['err']} requests failed")
    return line


def rss_mib(pids):
    total = 0
    for pid in pids:
        for text in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if text.startswith("VmRSS:"):
                total += int(text.split()[1]) / 1024
    return total


class Bench:
    def __init__(self, options):
        self._replica, self._generator = build_tools(options.peers)
        self._rounds = 1 if options.quick else options.rounds
        self._seconds = 0.3 if options.quick else 0.8
        self._cold_seconds = 1 if options.quick else 5
        self._values = collections.defaultdict(lambda: collections.defaultdict(list))  # metric: router: values
        self._absent = {}

    def run(self):
        """Figures, after rounds over every router; each round measures all of them."""
        for chunks in (4, 32):
            replicas = Replicas(self._replica, chunks)
            try:
                wanted = {name: m for name, m in METRICS.items() if (m[1].chunks or 4) == chunks}
                for i in range(self._rounds):
                    say(f"router: {', '.join(wanted)}: round {i + 1} of {self._rounds}")
                    self._measure_round(replicas, wanted, cold=chunks == 4 and i == 0)
            finally:
                replicas.stop()
        return self._figures()

    def _measure_round(self, replicas, wanted, cold):
        direct = {}
        for name, (_, cell, field) in wanted.items():
            if field != CPU:
                direct[name] = load(self._generator, cell, f"http://127.0.0.1:{replicas.ports[0]}", [], self._seconds)[field]
        for router, command_of in ROUTERS.items():
            if router in self._absent:
                continue
            with tempfile.TemporaryDirectory(prefix="ember-bench-") as folder:
                self._measure(router, command_of, pathlib.Path(folder), replicas, wanted, direct, cold)

    def _measure(self, router, command_of, folder, replicas, wanted, direct, cold):
        port = free_ports(1)[0]
        command = command_of(port, replicas.ports, folder)
        if router == OURS and MODEL.is_dir():  # the replicas have no such model, so there is nothing to compare tokens with
            command += ["--tokenizer", f"*={MODEL}", "--parity-interval-s", "0"]
        if not command:
            self._absent[router] = "not installed"
            return
        try:
            running = Running(command, f"http://127.0.0.1:{port}", folder, pinned(ROUTER_CPU, 3))
        except (OSError, RuntimeError) as error:
            self._absent[router] = str(error)
            return
        try:
            before = rss_mib(running.pids)
            for name, (_, cell, field) in wanted.items():
                value = load(self._generator, cell, running.url, running.pids, self._seconds)[field]
                self._values[name][router].append(value - direct.get(name, 0))
            if cold:
                load(self._generator, COLD, running.url, running.pids, self._cold_seconds)
                self._values["memory_cap_held"][router].append(rss_mib(running.pids) - before)
        finally:
            running.stop()

    def _figures(self):
        units = {name: m[0] for name, m in METRICS.items()} | {"memory_cap_held": f"MiB more after all of these and {self._cold_seconds} s of new 32 KiB prompts"}
        lacking = dict(self._absent) if MODEL.is_dir() else self._absent | {OURS: f"no tokenizer: deploy/local/vllm_install makes {MODEL}"}
        absent = "; ".join(f"{router}: {why}" for router, why in lacking.items())
        for name, unit in units.items():
            values = dict(self._values[name])
            ours = values.pop(OURS, ())
            best, peers = min(values.items(), key=lambda item: figures.median(item[1]), default=(None, ()))
            if not figures.median(peers):
                best, peers = None, ()  # nothing grew, so there is no ratio
            figure = figures.line(name, unit, ours, peers, best, reason=absent or None)
            yield figure | {"peers": {router: round(figures.median(v), 1) for router, v in values.items()}}


def run(options):
    yield from Bench(options).run()
