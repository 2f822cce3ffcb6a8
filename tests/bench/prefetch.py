"""What receiving a prefix ahead of its load gains: a request that waits for the only slot of a real engine, over a link of 1 Gbit/s.

Run as a program, it measures in the network it finds and prints a JSON line; `run` gives it a network namespace of its own."""
import json
import os
import pathlib
import subprocess
import sys
import threading

import figures
import peers

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = "ip link set lo up && tc qdisc add dev lo root tbf rate 1gbit burst 256kb latency 100ms && exec "
OFF, ON = ("--prefetch-mib=0",), ()


def engine_paths():
    installed = subprocess.run([ROOT / "deploy/local/engine_install"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return dict(line.split("=", 1) for line in installed.splitlines() if "=" in line)


def run(options):
    paths = engine_paths()
    env = os.environ | {"EMBER_LLAMA_SERVER": paths["ENGINE"], "EMBER_MODEL": paths["MODEL"]}
    rounds = 1 if options.quick else options.rounds
    command = f"'{sys.executable}' '{__file__}' {rounds}"
    for start in (["unshare", "-n", "sh", "-c", LINK + command], ["sh", "-c", command]):
        done = subprocess.run(start, env=env, stdout=subprocess.PIPE, text=True)
        if done.returncode == 0:
            break
        peers.say("prefetch: no network namespace with a slow link here: over plain loopback")
    if done.returncode:
        return peers.say("prefetch: not measured")
    measured = json.loads(done.stdout)
    for name, unit in (("ttft_after_wait", "ms"), ("transfer_after_wait", "ms")):
        yield figures.line(name + "_ms", unit, measured["on"][name], measured["off"][name], "prefetch off")


def measure(rounds):
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    import agent_test
    import cluster

    c = cluster.Cluster()
    try:
        c.plan_stores(1)
        c.store("s1", extra=("--shm=off",))
        for name in "ab":
            c.engine("engine-" + name, slots=1)
            c.agent(name, "engine-" + name)
        c.wait_healthy("s1", "a", "b")
        body = agent_test.chat(0, agent_test.QUESTION, tokens=1, repeat=13)  # about 1,000 tokens, 24 MB

        def ask(agent, what, **headers):
            return cluster.call(c.ports[agent], "POST", "/v1/chat/completions", what, headers)

        c.wait_pushed("a", ask("a", body))

        def waited():
            """A request that came while another one computed for some seconds."""
            replies = []
            busy = threading.Thread(target=lambda: ask("b", agent_test.chat(1, "And then?", tokens=40, repeat=2), **agent_test.OFF))
            busy.start()
            cluster.wait_for("the slot to be taken", lambda: c.metric("b", "ember_agent_slots_busy") == 1)
            request = threading.Thread(target=lambda: replies.append(ask("b", body)))
            request.start()
            busy.join()
            request.join()
            c.wait_idle("b")
            assert replies[0].route == "remote", replies[0].route
            return c.record("b", replies[0])

        out = {"on": {}, "off": {}}
        waited()  # rates and memory are as they will be
        for _ in range(rounds):
            for name, flags in (("off", OFF), ("on", ON)):
                c.kill("b")
                c.agent("b", "engine-b", extra=flags)
                c.wait_healthy("b")
                record = waited()
                out[name].setdefault("ttft_after_wait", []).append(record["ttft_ms"] - record["queue_ms"])
                out[name].setdefault("transfer_after_wait", []).append(record["transfer_ms"])
        return out
    finally:
        c.close()


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
