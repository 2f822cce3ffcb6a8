"""What frozen readers of a node's feed cost its writers: put throughput with them over without, on fresh nodes in turn."""
import json
import pathlib
import signal
import subprocess
import sys

BIN = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"
FROZEN_READERS = 4


class Node:
    """A private ember-store; `at` as its ready line says."""

    def __init__(self):
        self.process = subprocess.Popen(
            [BIN / "ember-store", "--listen=127.0.0.1:0", "--grpc=127.0.0.1:0", "--admin=off", "--memory=1GiB"],
            stderr=subprocess.PIPE, text=True)
        ready = next((line for line in self.process.stderr if line.startswith("ready ")), None)
        if ready is None:
            sys.exit("ember-store did not start")
        self.at = dict(part.split("=", 1) for part in ready.split()[1:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()


def frozen_reader(grpc):
    """An `ember watch` that has its snapshot and is stopped."""
    process = subprocess.Popen([BIN / "ember", "watch", "--store-grpc", grpc], stdout=subprocess.PIPE, text=True)
    for row in process.stdout:
        if json.loads(row)["event"] == "current":
            break
    process.send_signal(signal.SIGSTOP)
    return process


def put_throughput(readers, quick):
    """GB/s of 64 KiB puts, one call at a time: small ones, so that there are many events."""
    with Node() as node:
        frozen = [frozen_reader(node.at["grpc"]) for _ in range(readers)]
        try:
            out = subprocess.run([BIN / "ember", "bench", "store", "--stores", node.at["data"], "--sizes", "64KiB", "--batch", "1",
                                  "--threads", "1", "--seconds", "0.2", "--working-set", "64MiB" if quick else "512MiB", "--json"],
                                 capture_output=True, text=True)
            if out.returncode:
                sys.exit(f"ember bench store failed: {out.stderr.strip()}")
        finally:
            for process in frozen:
                process.kill()
                process.wait()
                process.stdout.close()
    rows = [json.loads(row) for row in out.stdout.splitlines()]
    return next(row["gb_per_s"] for row in rows if row["benchmark"] == "store_put")


def rounds(count, quick):
    """Of each round, put throughput with frozen readers over without."""
    ratios = []
    for i in range(count):
        print(f"feed: round {i + 1} of {count}", file=sys.stderr, flush=True)
        without = put_throughput(0, quick)
        ratios.append(put_throughput(FROZEN_READERS, quick) / without)
    return ratios
