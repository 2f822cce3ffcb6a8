"""The rivals of the store benchmark: other stores, each driven by a client of its own.

A folder given by --peers holds bench_stores.py, which starts a peer, measures it and prints JSON lines; the peers themselves are
installed under $PEERS_DIR, a virtual environment each. Without it, redis-benchmark is the one rival, where it is installed."""
import collections
import csv
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SIZES = {"64k": 64 << 10, "1m": 1 << 20, "4m": 4 << 20}
NAMES = ["mooncake", "redis", "memcached", "kvblockd", "redhare", "infinistore-tcp"]


def say(text):
    print(text, file=sys.stderr, flush=True)


def _metrics_of(row):
    """(metric, value) pairs of one line of bench_stores.py."""
    work, size = row.get("work"), row.get("size")
    if work in ("batch_put", "batch_get"):
        kind = {"batch_put": "put", "batch_get": "load"}[work]
        yield f"prefix_{kind}", row["GBps"]
        yield f"cpu_prefix_{kind}", row["cpu_client"] + row["cpu_server"]
    if work == "get":
        for name, size_bytes in SIZES.items():
            if size == size_bytes:
                yield f"get_{name}_p50", row["p50_us"]
                yield f"cpu_get_{name}", row["cpu_client"] + row["cpu_server"]
    if work == "exists256":
        yield "match_256", row["prefix_checks_per_s"]
    if work == "rss":
        yield "memory_overhead", row["growth_per_stored"]
        yield "idle_rss_mib", sum(row["rss_idle"].values()) / 2**20


def measure(folder, rounds, realtime):
    """{peer: {metric: [values]}} of every peer that runs here, and the reasons of those that don't."""
    figures, absent = {}, []
    for name in NAMES:
        say(f"peer: {name}")
        command = [sys.executable, folder / "bench_stores.py", "--peer", name, "--reps", str(rounds), "--lock=", "--size",
                   *map(str, SIZES.values())] + (["--rt"] if realtime else [])
        try:
            out = subprocess.run(command, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            absent.append(f"{name}: took too long")
            continue
        values = collections.defaultdict(list)
        for text in out.stdout.splitlines():
            if text.startswith("{"):
                for metric, value in _metrics_of(json.loads(text)):
                    values[metric].append(value)
        if values:
            figures[name] = values
        else:
            absent.append(f"{name}: {(out.stderr.strip().splitlines() or ['no figures'])[-1]}")
    return figures, absent


def redis_benchmark(rounds, calls):
    """{metric: [values]} of a private redis-server, one connection, one call at a time; None where it is not installed."""
    if not all(shutil.which(tool) for tool in ("redis-server", "redis-benchmark", "redis-cli")):
        return None
    values = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
        probe.close()
        server = subprocess.Popen(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder],
                                  stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 10
            while subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True).returncode:
                if time.monotonic() > deadline:
                    sys.exit("redis-server did not start")
                time.sleep(0.05)
            for _ in range(rounds):
                for name, size in SIZES.items():
                    say(f"redis-benchmark: {name}")
                    out = subprocess.run(["redis-benchmark", "-p", port, "-c", "1", "-r", "16", "-n", str(max(100, calls * SIZES["64k"] // size)),
                                          "-d", str(size), "-t", "set,get", "--csv"], capture_output=True, text=True, check=True).stdout
                    row = {row["test"]: row for row in csv.DictReader(out.splitlines())}["GET"]
                    # Not its latency: that ends with the first bytes of a reply.
                    values[f"get_{name}_p50"].append(1e6 / float(row["rps"]))
        finally:
            server.terminate()
            server.wait()
    return values


def best(figures, metric, higher_is_better):
    """(name, values) of the peer with the best median; (None, ()) when none has the metric."""
    have = [(name, values[metric]) for name, values in figures.items() if values.get(metric)]
    if not have:
        return None, ()
    median = lambda item: sorted(item[1])[len(item[1]) // 2]
    return (max if higher_is_better else min)(have, key=median)


def folder_of(text):
    folder = pathlib.Path(text)
    if not (folder / "bench_stores.py").exists():
        sys.exit(f"--peers {text}: no bench_stores.py there")
    return folder
