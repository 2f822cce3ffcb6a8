"""The engines benchmark: time to first token on real llama.cpp replicas, as the demo measures it."""
import json
import pathlib
import subprocess
import sys
import tempfile

import figures
import peers
import prefetch

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(options):
    with tempfile.TemporaryDirectory() as folder:
        written = pathlib.Path(folder) / "figures.jsonl"
        command = [ROOT / "deploy/demo", "--json", written, "--out", folder] + (["--quick"] if options.quick else [])
        if subprocess.run(command, stdout=sys.stderr).returncode:
            peers.say("engines: the demo reported a failure; figures follow as far as they were measured")
        if not written.exists():
            sys.exit("engines: no figures")
        rows = {row["metric"]: row for row in map(json.loads, written.read_text().splitlines())}
    recompute = rows.get("ttft_recompute_ms", {}).get("value")
    for name, row in rows.items():
        if row["value"] is None:
            continue
        against = recompute if name.startswith("ttft_") and name != "ttft_recompute_ms" else None
        figure = figures.line(name, row["unit"], [row["value"]], [against] if against else (), "recompute" if against else None)
        yield figure | {"n": row["n"], "spread": row["spread"]}
    yield from prefetch.run(options)
