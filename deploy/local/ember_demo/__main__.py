"""Runs the demo; called by deploy/demo, which builds what it needs first."""

import argparse
import dataclasses
import functools
import json
import os
import shlex
import shutil
import signal
import sys
import time

from . import commands, figures, machine, report, table
from .chat import ChatClient
from .cluster import REPLICAS, Cluster
from .four_ways import FourWaysExperiment
from .modes import ModesExperiment
from .process import DemoError
from .results import SIZES, Results

say = functools.partial(print, flush=True)


def at_least_one(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def size_of(args):
    size = SIZES[args.size]
    return dataclasses.replace(
        size, conversations=args.conversations or size.conversations, pairs=args.pairs or size.pairs
    )


def options():
    parser = argparse.ArgumentParser(
        prog="deploy/demo",
        description="Starts 3 store nodes, 2 llama.cpp replicas with their agents and a router on "
        "loopback, "
        "runs the experiments, and writes a report.",
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--full",
        dest="size",
        action="store_const",
        const="full",
        default="default",
        help="20 conversations a mode, prompts of 2,000 tokens and more (about 45 minutes on 2 idle cores)",
    )
    size.add_argument(
        "--quick",
        dest="size",
        action="store_const",
        const="quick",
        help="few short conversations (about 1 minute): shows that all works, too small for the "
        "figures to mean much",
    )
    parser.add_argument(
        "--conversations",
        type=at_least_one,
        metavar="N",
        help="conversations read in all four ways, instead of the size's own number",
    )
    parser.add_argument(
        "--pairs",
        type=at_least_one,
        metavar="N",
        help="conversations of each routing mode, instead of the size's own number",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the figures as JSON lines ('-': standard output)"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        default="ember-demo",
        help="folder for the report and its plots (default: %(default)s)",
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="leave the cluster running, and say how to talk to it and stop it",
    )
    for name in ("bin", "engine", "model"):  # filled in by deploy/demo
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--parse-only", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def experiments(cluster, results, started):
    client = ChatClient(cluster)
    results.turns = client.turns
    for name in REPLICAS:
        client.wait_usable(name)

    def tell(text):
        cluster.check_alive()
        say(f"[{time.monotonic() - started:4.0f} s] {text}")

    tell("cluster is up: 3 stores, 2 replicas with agents, 1 router")
    FourWaysExperiment(cluster, client, results.size, tell).run(results)
    ModesExperiment(client, results.size, tell, started).run(results)
    results.experiment_s = time.monotonic() - started


def finish(results, args):
    say("\n" + table.render(results) + "\n")
    for turn in results.failed():
        say(f"failed: {turn.conversation}, turn {turn.turn}, {turn.label}: {turn.error}")
    if args.json:
        lines = "".join(json.dumps(row) + "\n" for row in figures.metrics(results))
        if args.json == "-":
            sys.stdout.write(lines)
        else:
            with open(args.json, "w", encoding="utf-8") as file:
                file.write(lines)
            say(f"figures: {args.json}")
    from . import plots  # here, so that --help works before matplotlib is installed

    os.makedirs(args.out, exist_ok=True)
    say(f"report:  {report.write(results, args.out, plots.draw_all(results, args.out))}")
    return 0 if all(c.ok for c in figures.checks(results) if c.decisive) else 1


def how_to_use(cluster):
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": "What is the capital of France?"}],
            "stream": True,
            "max_tokens": 24,
        }
    )
    say(
        f"\nThe cluster is still running. Talk to it:\n"
        f"  curl -sN {commands.at(cluster.router_port)}{commands.CHAT_PATH} -H 'Content-Type: "
        f"application/json' -d {shlex.quote(body)}\n"
        f"Logs are in {cluster.run_dir}. Stop it and remove what it left:\n"
        f"  kill $(cat {cluster.run_dir}/pids); rm -rf {cluster.run_dir} {cluster.slot_root}"
    )


def run(args):
    size = size_of(args)
    cluster, clean = Cluster(args.bin, args.engine, args.model, size.memory, args.keep), False
    try:
        started = time.monotonic()
        cluster.start()
        results = Results(size, machine.describe(args.engine, args.model))
        experiments(cluster, results, started)
        status = finish(results, args)
        clean = True
        return status
    finally:
        if clean and args.keep:
            how_to_use(cluster)
        else:
            cluster.stop(keep_logs=not clean)
            if not clean:
                say(f"\nAll processes are stopped. Their logs are in {cluster.run_dir}")


def interrupt(number, _frame):
    """The first signal begins the clean-up, the following ones must not disturb it."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt(signal.Signals(number).name)


def main():
    args = options()
    if args.parse_only:
        return
    if not shutil.which("setpriv"):
        sys.exit("deploy/demo: setpriv (package util-linux) is missing: run deploy/deps")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        sys.exit(run(args))
    except DemoError as error:
        sys.exit(f"deploy/demo: {error}")
    except KeyboardInterrupt as error:
        sys.exit(f"deploy/demo: stopped by {error}")


if __name__ == "__main__":
    main()
