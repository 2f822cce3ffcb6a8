"""Real vLLM replicas for the end-to-end tests: CPU, one core each, KV events over ZMQ with replay.

Environment: EMBER_VLLM_PYTHON, EMBER_VLLM_MODEL (deploy/local/vllm_install prints them)."""

import json
import os
import unittest

import cluster

PYTHON = os.environ.get("EMBER_VLLM_PYTHON", "")
MODEL = os.environ.get("EMBER_VLLM_MODEL", "")
NAME = "smol"
BLOCK = 32  # tokens; a CPU's blocks are multiples of 32


def needs_vllm():
    """A decorator: skips the test class when vLLM is not there."""
    missing = [n for n, v in {"EMBER_VLLM_PYTHON": PYTHON, "EMBER_VLLM_MODEL": MODEL}.items() if not os.path.exists(v)]
    return unittest.skipIf(missing, "not there: " + ", ".join(missing))


class VllmFleet(cluster.Cluster):
    def vllm(self, name):
        """Starts (again) a replica of that name; ready when ready() says so."""
        self.ports[name] = self.ports.get(name) or cluster.free_ports(1)[0]
        events = {"enable_kv_cache_events": True, "publisher": "zmq", "topic": "kv-events",
                  "endpoint": self.events(name), "replay_endpoint": self.replay(name)}
        # vLLM's own switches: small, one thread, nothing sent out, the development pages for a cache reset.
        environment = dict(os.environ, HF_HUB_OFFLINE="1", VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="nobind",
                           OMP_NUM_THREADS="1", VLLM_NO_USAGE_STATS="1", VLLM_HOST_IP="127.0.0.1", VLLM_SERVER_DEV_MODE="1")
        command = [PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL, "--served-model-name", NAME,
                   "--host", "127.0.0.1", "--port", str(self.ports[name]), "--dtype", "bfloat16", "--max-model-len", "4096",
                   "--enforce-eager", "--max-num-seqs", "8", "--block-size", str(BLOCK), "--enable-prompt-tokens-details",
                   "--prefix-caching-hash-algo", "sha256_cbor", "--kv-events-config", json.dumps(events)]
        self._start(name, command, environment, own_group=True)

    def events(self, name):
        return f"ipc://{self.folder}/{name}.events"

    def replay(self, name):
        return f"ipc://{self.folder}/{name}.replay"

    def ready(self, name):
        process = self.processes[name]
        if process.poll() is not None:
            raise AssertionError(f"{name} ended with {process.returncode}:\n{self.log(name)[-3000:]}")
        try:
            return cluster.call(self.ports[name], "GET", "/health", timeout=5).status == 200
        except OSError:
            return False

    def await_ready(self, *names):
        for name in names:
            cluster.wait_for(f"{name} to start", lambda: self.ready(name), timeout=400)

    def vllm_router(self, name, replicas, extra=()):
        self.ports[name] = self.ports.get(name) or cluster.free_ports(1)[0]
        command = [str(cluster.BIN / "ember-router"), f"--listen=127.0.0.1:{self.ports[name]}", "--grpc=127.0.0.1:0", "--drain-delay-ms=0"]
        command += [f"--replica={r},http=127.0.0.1:{self.ports[r]},events={self.events(r)},replay={self.replay(r)}" for r in replicas]
        command += [f"--tokenizer={NAME}={MODEL}", *extra]
        self._start(name, command)
