"""The store benchmark: one node, one client process, loopback TCP, every byte verified.

Rounds alternate between a limit (plain system calls, ember_limits) and ours (ember bench store --suite), so that what else happens on
the machine falls on both; with SCHED_RR where this process may, so that it falls on neither."""
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import feed
import figures
import peers

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"
MIB = 1 << 20


@dataclasses.dataclass(frozen=True)
class Limit:
    """A yardstick: ember_limits NAME BLOCK TOTAL."""
    name: str
    block: int
    total: int


@dataclasses.dataclass(frozen=True)
class Metric:
    name: str
    unit: str
    higher_is_better: bool
    limit: Limit | None = None
    field: str | None = None  # of the limit's line


BATCH = Limit("batch-tcp", 512 << 10, 1024 * MIB)
STREAM = Limit("stream-tcp", MIB, 1024 * MIB)
REPLY_64K = Limit("rr-tcp", 64 << 10, 512 * MIB)
REPLY_1M = Limit("rr-tcp", MIB, 1024 * MIB)
REPLY_4M = Limit("rr-tcp", 4 * MIB, 1024 * MIB)
COPY = Limit("memcpy", MIB, 4096 * MIB)
PLACE_1M = Limit("memfd-in-place", MIB, 1024 * MIB)
PLACE_4M = Limit("memfd-in-place", 4 * MIB, 1024 * MIB)

# What one run of the suite measures, beside the limits that are measured just before it.
GROUPS = [
    [Metric("prefix_load", "GB/s", True, BATCH, "gb_per_s"), Metric("cpu_prefix_load", "CPU s/GB", False, BATCH, "cpu_s_per_gb"),
     Metric("prefix_put", "GB/s", True, STREAM, "gb_per_s")],
    [Metric("get_64k_p50", "us", False, REPLY_64K, "p50_us"), Metric("get_1m_p50", "us", False, REPLY_1M, "p50_us"),
     Metric("cpu_get_1m", "CPU s/GB", False, REPLY_1M, "cpu_s_per_gb"), Metric("get_4m_p50", "us", False, REPLY_4M, "p50_us")],
    [Metric("match_256", "calls/s", True)],
    [Metric("idle_rss_mib", "MiB", False), Metric("memory_overhead", "bytes/byte", False)],
]
SHM = [Metric("shm_in_place_1m", "us", False, PLACE_1M, "p50_us"), Metric("shm_in_place_4m", "us", False, PLACE_4M, "p50_us"),
       Metric("shm_copy", "GB/s", True, COPY, "gb_per_s")]
TRACE_CAPACITY = 10  # % of the distinct blocks


def realtime_prefix():
    """["chrt", ...] where SCHED_RR is permitted."""
    if shutil.which("chrt") and subprocess.run(["chrt", "-r", "1", "true"], capture_output=True).returncode == 0:
        return ["chrt", "-r", "1"]
    return []


def run_json(command):
    out = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {out.stderr.strip()}")
    return [json.loads(text) for text in out.stdout.splitlines()]


def measure_group(group, rounds, prefix, quick):
    """({metric: [ours]}, {metric: [limit]}): as many values as rounds."""
    ours, limits = {m.name: [] for m in group}, {m.name: [] for m in group}
    wanted = {m.limit for m in group if m.limit}
    for i in range(rounds):
        peers.say(f"store: {', '.join(ours)}: round {i + 1} of {rounds}")
        rows = {limit: run_json([*prefix, BIN / "ember_limits", limit.name, limit.block, limit.total // (8 if quick else 1)])[0]
                for limit in wanted}
        suite = run_json([*prefix, BIN / "ember", "bench", "store", "--suite", "--json", "--only", ",".join(ours)] +
                         (["--shm"] if group is SHM else []) + (["--scale", "0.1"] if quick else []))
        for row in suite:
            ours[row["metric"]].append(row["value"])
        for metric in group:
            if metric.limit:
                limits[metric.name].append(rows[metric.limit][metric.field])
    return ours, limits


def fio_read(folder, mib):
    """GB/s of plain reads of 1 MiB, 16 at a time, past the page cache; None without fio."""
    if not shutil.which("fio"):
        return None
    done = subprocess.run(["fio", "--name=read", f"--filename={folder}/ember-bench-fio", f"--size={mib}M", "--rw=read", "--bs=1M", "--direct=1",
                           "--ioengine=io_uring", "--iodepth=16", "--output-format=json"], capture_output=True, text=True)
    pathlib.Path(folder, "ember-bench-fio").unlink(missing_ok=True)
    if done.returncode:
        sys.exit(f"fio: {done.stderr.strip()}")
    return json.loads(done.stdout)["jobs"][0]["read"]["bw_bytes"] / 1e9


def disk_figures(options, rounds):
    """Of a node with a disk tier that is killed, started again and read; on the disk of --disk, beside fio."""
    survivors, mib = (16, 64) if options.quick else (128, 1024)
    ours, limits = {}, []
    for number in range(rounds):
        peers.say(f"store: round {number + 1} of {rounds}: a node on the disk of {options.disk}")
        limits.append(fio_read(options.disk, mib))
        for row in run_json([BIN / "ember", "bench", "disk", options.disk, "--rounds", 1, "--json", "--survivors", survivors,
                             "--read", f"{mib}MiB"]):
            ours.setdefault((row["metric"], row["unit"]), []).append(row["value"])
    for (name, unit), values in ours.items():
        if name == "disk_read_1m" and None not in limits:
            yield figures.line(name, unit, values, limits=limits, limit_name="fio")
        else:
            yield figures.line(name, unit, values, reason="fio is not installed" if name == "disk_read_1m" else None)


def hit_ratios(traces):
    """Shares of Belady's bound: the default policy's, and the better of lru and s3fifo as the peer."""
    for trace in run_json([BIN / "ember-trace", "--json", "--capacity", TRACE_CAPACITY, *traces])[0]["traces"]:
        point = trace["points"][0]
        rival = max(("lru", "s3fifo"), key=point.get)
        name = "hit_ratio_" + pathlib.Path(trace["trace"]).stem.removeprefix("mooncake_").removesuffix("_trace")
        yield figures.line(name, "share of the bound", [point["chain"] / point["belady"]], [point[rival] / point["belady"]], rival)


def measure_peers(options, rounds, prefix):
    """({peer: {metric: [values]}}, why some or all are absent)."""
    if options.peers:
        found, absent = peers.measure(peers.folder_of(options.peers), rounds, bool(prefix))
        for reason in absent:
            peers.say(f"peer absent: {reason}")
        return found, "; ".join(absent) or None
    redis = peers.redis_benchmark(rounds, 200 if options.quick else 2000)
    if redis is None:
        return {}, "no --peers FOLDER, and no redis-benchmark (apt-get install redis-server redis-tools)"
    return {"redis-server by redis-benchmark": redis}, "no --peers FOLDER: only redis-benchmark"


def run(options):
    for program in ("ember", "ember-store", "ember_limits"):
        if not (BIN / program).exists():
            sys.exit(f"{BIN}/{program} is absent: cmake --preset release && cmake --build --preset release")
    rounds = 1 if options.quick else options.rounds
    prefix = realtime_prefix()
    if not prefix:
        peers.say("SCHED_RR is not permitted here: what else runs on this machine will show in the figures")
    measured = [(group, *measure_group(group, rounds, prefix, options.quick)) for group in [*GROUPS, SHM]]
    rivals, reason = measure_peers(options, rounds, prefix)
    for group, ours, limits in measured:
        for metric in group:
            peer_name, peer_values = peers.best(rivals, metric.name, metric.higher_is_better)
            yield figures.line(metric.name, metric.unit, ours[metric.name], peer_values, peer_name, limits[metric.name],
                               metric.limit.name if metric.limit else None, None if peer_name else reason)
    yield from disk_figures(options, rounds)
    yield figures.line("feed_put_slowdown", "with frozen readers / without", feed.rounds(rounds, options.quick))
    if options.trace:
        yield from hit_ratios(options.trace)
    else:
        peers.say("no --trace: no hit ratios")
