"""Real processes for the end-to-end tests: llama-server, ember-store, ember-agent, ember-router on
loopback ports.

Environment: EMBER_BIN (folder of our programs, default build/release/bin), EMBER_LLAMA_SERVER (the
engine's program), EMBER_MODEL (a GGUF file). A test that needs what is not there is skipped with the
reason. Everything a Cluster started is gone when its close() returns."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "deploy/local"))
from ember_demo.process import free_ports  # noqa: E402

BIN = Path(os.environ.get("EMBER_BIN", ROOT / "build/release/bin"))
ENGINE = os.environ.get("EMBER_LLAMA_SERVER", "")
MODEL = os.environ.get("EMBER_MODEL", "")


def needs(*programs, engine=True):
    """A decorator: skips the test class when something it runs is missing."""
    missing = [str(BIN / p) for p in programs if not (BIN / p).exists()]
    if engine and not (ENGINE and Path(ENGINE).exists()):
        missing.append("EMBER_LLAMA_SERVER")
    if engine and not (MODEL and Path(MODEL).exists()):
        missing.append("EMBER_MODEL")
    return unittest.skipIf(missing, "not there: " + ", ".join(missing))


def wait_for(what, condition, timeout=60):
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.01)


class Reply:
    def __init__(self, status, headers, body, seconds, first_byte):
        self.status, self.body = status, body
        self.headers = {k.lower(): v for k, v in headers}
        self.seconds, self.first_byte = seconds, first_byte  # since the request was sent

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def route(self):
        return self.headers.get("x-ember-route")

    @property
    def cached(self):
        return int(self.headers.get("x-ember-cached-tokens", -1))


def call(port, method, path, body=None, headers=None, timeout=300):
    """One exchange; `body` may be bytes, or anything that becomes JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    start = time.monotonic()
    connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
    response = connection.getresponse()
    first = response.read(1)
    first_byte = time.monotonic() - start
    data = first + response.read()
    connection.close()
    return Reply(response.status, response.getheaders(), data, time.monotonic() - start, first_byte)


class Cluster:
    def __init__(self):
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="ember-e2e-", dir=shm))
        self.slots = self.folder / "slots"
        self.slots.mkdir()
        self.processes = {}  # name: Popen
        self.groups = set()  # of these, whole process groups are ended
        self.ports = {}
        self.stores = {}  # name: data port
        self.commands = {}

    def close(self):
        for name in list(self.processes):
            self.kill(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name, command, environment=None, own_group=False):
        self.commands[name] = (command, environment, own_group)
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=own_group)
        if own_group:
            self.groups.add(name)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name, sig=signal.SIGKILL):
        process = self.processes.pop(name)
        if process.poll() is None and name in self.groups:
            os.killpg(process.pid, sig)
        else:
            process.send_signal(sig)
        process.wait()

    def restart(self, name):
        self._start(name, *self.commands[name])

    def engine(self, name, slots=2, slot_dir=None, extra=()):
        self.ports[name] = self.ports.get(name) or free_ports(1)[0]
        command = [ENGINE, "-m", MODEL, "--alias", "e2e", "--host", "127.0.0.1"]
        command += ["--port", str(self.ports[name]), "-c", "8192", "-np", str(slots), "-kvu"]
        command += ["-fa", "on", "-t", "1", "-tb", "1", "--cache-ram", "0", "--no-warmup", "--slots"]
        command += ["--slot-save-path", str(slot_dir or self.slots), *extra]
        self._start(name, command)
        return self.ports[name]

    def plan_stores(self, count):
        self.stores = {f"s{i}": port for i, port in enumerate(free_ports(count), 1)}

    def store(self, name, memory="1GiB", extra=()):
        peers = ",".join(f"{n}=127.0.0.1:{p}" for n, p in self.stores.items())
        for kind in (".admin", ".grpc"):
            self.ports[name + kind] = self.ports.get(name + kind) or free_ports(1)[0]
        command = [str(BIN / "ember-store"), f"--node-id={name}", f"--peers={peers}"]
        command += [f"--listen=127.0.0.1:{self.stores[name]}", f"--memory={memory}"]
        command += [f"--grpc=127.0.0.1:{self.ports[name + '.grpc']}", f"--admin=127.0.0.1:{self.ports[name + '.admin']}"]
        self._start(name, [*command, *extra])

    def agent(self, name, engine, stores=None, slot_dir=None, extra=()):
        for kind in ("", ".grpc"):
            self.ports[name + kind] = self.ports.get(name + kind) or free_ports(1)[0]
        if stores is None:
            stores = self.stores.values()
        command = [str(BIN / "ember-agent"), f"--replica-id={name}", f"--model-file={MODEL}"]
        command += [f"--listen=127.0.0.1:{self.ports[name]}", f"--grpc=127.0.0.1:{self.ports[name + '.grpc']}"]
        command += [f"--engine=http://127.0.0.1:{self.ports[engine]}"]
        command += [f"--slot-dir={slot_dir or self.slots}"]
        command += ["--stores=" + ",".join(f"127.0.0.1:{p}" for p in stores), *extra]
        self._start(name, command)
        return self.ports[name]

    def router(self, name, agents, policy="cache_aware"):
        self.ports[name] = self.ports.get(name) or free_ports(1)[0]
        command = [str(BIN / "ember-router"), f"--listen=127.0.0.1:{self.ports[name]}", "--drain-delay-ms=0"]
        command += ["--grpc=127.0.0.1:0", f"--policy={policy}"]
        command += [f"--store=127.0.0.1:{self.ports[store + '.grpc']}" for store in self.stores]
        for agent in agents:
            http_port, grpc_port = self.ports[agent], self.ports[agent + ".grpc"]
            command += [f"--replica={agent},http=127.0.0.1:{http_port},grpc=127.0.0.1:{grpc_port}"]
        self._start(name, command)
        return self.ports[name]

    def healthy(self, name, path="/health", port=None):
        if name in self.processes and self.processes[name].poll() is not None:
            raise AssertionError(f"{name} ended:\n{self.log(name)}")
        try:
            return call(port or self.ports[name], "GET", path, timeout=5).status == 200
        except OSError:
            return False

    def wait_healthy(self, *names):
        for name in names:
            store = name in self.stores
            port = self.ports[name + ".admin"] if store else None
            wait_for(name, lambda: self.healthy(name, "/healthz" if store else "/health", port))

    def record(self, agent, reply):
        """What the agent says of a request."""
        wanted = reply.headers["x-ember-request-id"]
        return call(self.ports[agent], "GET", f"/ember/requests?id={wanted}").json[0]

    def metric(self, name, line):
        """The value of one line of a process's metrics; 0 when it is not there."""
        port = self.ports.get(name + ".admin", self.ports.get(name))
        for text in call(port, "GET", "/metrics").body.decode().splitlines():
            if text.startswith(line + " "):
                return float(text.rsplit(" ", 1)[1])
        return 0.0

    def wait_pushed(self, agent, reply):
        """Until what the request left in its slot is in the store."""
        wait_for("push", lambda: "push_ms" in self.record(agent, reply))

    def wait_idle(self, agent):
        wait_for("idle slots", lambda: self.metric(agent, "ember_agent_slots_busy") == 0)
