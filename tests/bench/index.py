"""The router's prefix index: bytes for each held block, time of a lookup, blocks stored a second; beside a peer's, in turn.

The work is that of the peers' own bench of their indexes, a Rust program in the folder given by --peers, which cargo builds into
$PEERS_DIR. One thread; SCHED_RR where this process may."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import figures
from router_overhead import pinned, say

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = ROOT / "build/release/bin/ember_index_bench"
PEER = "smg-chain"
# metric: (unit, op, field, factor)
METRICS = {
    "index_bytes": ("bytes/held block", "store", "bytes_per_block", 1),
    "index_lookup_us": ("us", "find hit128", "p50_ns", 1e-3),
    "index_lookup_shared_us": ("us", "find shared32of128", "p50_ns", 1e-3),
    "index_lookup_miss_us": ("us", "find miss128", "p50_ns", 1e-3),
    "index_events_mps": ("million blocks/s", "store", "Mblocks_s", 1),
    "index_removals_mps": ("million blocks/s", "remove", "Mblocks_s", 1),
    "index_leave_us": ("us", "leave", "p50_us", 1),
    "index_events_single_mps": ("million blocks/s", "store interleaved", "Mblocks_s", 1),
    "index_lookup_scattered_us": ("us", "find hit128 interleaved", "p50_ns", 1e-3),
}


def build_peer(peers):
    """The peers' program; None without --peers."""
    if not peers:
        return None
    source = pathlib.Path(peers).resolve() / "router/index_bench"
    if not source.is_dir() or not shutil.which("cargo"):
        sys.exit("index: --peers FOLDER must hold router/index_bench, and cargo must be there to build it")
    folder = pathlib.Path(os.environ.get("PEERS_DIR") or tempfile.mkdtemp(prefix="ember-bench-"))
    program = folder / "cargo-target/release/index_bench"
    if not program.exists():
        # Cargo writes beside the manifest, which is none of ours.
        shutil.copytree(source, folder / "index_bench", dirs_exist_ok=True, copy_function=shutil.copyfile)
        subprocess.run(["cargo", "build", "--release", "-q"], cwd=folder / "index_bench", check=True,
                       env=os.environ | {"CARGO_TARGET_DIR": str(folder / "cargo-target")})
    return program


def measured(command):
    """{(op, field): value} of one run of either program."""
    out = subprocess.run(pinned(1, 1) + [str(part) for part in command], capture_output=True, text=True, check=True).stdout
    rows = [json.loads(text) for text in out.splitlines() if text.startswith("{")]
    return {(row["op"], field): value for row in rows for field, value in row.items()}


def run(options):
    if not OURS.exists():
        sys.exit(f"{OURS} absent: build the release preset")
    peer = build_peer(options.peers)
    blocks = 100_000 if options.quick else 1_000_000
    for workers in (64, 8):
        ours, theirs = [], []
        for number in range(1 if options.quick else options.rounds):
            say(f"index: {workers} workers, round {number + 1}")
            ours.append(measured([OURS, workers, blocks]))
            if peer:
                theirs.append(measured([peer, PEER, blocks, workers]))
        for metric, (unit, op, field, factor) in METRICS.items():
            peers = [row[op, field] * factor for row in theirs if (op, field) in row]
            name = metric if workers == 64 else f"{metric}_{workers}"
            yield figures.line(name, unit, [row[op, field] * factor for row in ours], peers, PEER if peers else None)
