"""The one place that knows our programs' and the engine's command lines, paths, headers and report
fields.
"""

HOST = "127.0.0.1"

# Request headers that the router and the agents understand, and reply headers that they add.
POLICY = "x-ember-policy"
PIN = "x-ember-pin"
STORE = "x-ember-store"
REQUEST_ID = "x-ember-request-id"
CONVERSATION = "X-Conversation-Id"
REPLICA = "x-ember-replica"
ROUTE = "x-ember-route"
CACHED = "x-ember-cached-tokens"

CHAT_PATH = "/v1/chat/completions"
HEALTH = {"store": "/healthz", "engine": "/health", "agent": "/health", "router": "/healthz"}

SLOTS = 2


def at(port):
    return f"{HOST}:{port}"


def store(binaries, name, ports, peers, memory):
    """ports: dict listen/grpc/admin; peers: {name: data port} of all nodes."""
    return [
        f"{binaries}/ember-store",
        f"--node-id={name}",
        f"--listen={at(ports['listen'])}",
        f"--grpc={at(ports['grpc'])}",
        f"--admin={at(ports['admin'])}",
        f"--memory={memory}",
        "--peers=" + ",".join(f"{peer}={at(port)}" for peer, port in peers.items()),
    ]


def engine(program, model, port, slot_dir):
    # One thread a replica: two replicas with two OpenMP threads each on two cores spin against each
    # other.
    # -kvu and -fa on give the slot file the one layout that the agent can cut and rebuild.
    return [
        program,
        "-m",
        model,
        "--alias",
        "smollm2",
        "--host",
        HOST,
        "--port",
        str(port),
        "-c",
        "8192",
        "-np",
        str(SLOTS),
        "-kvu",
        "-fa",
        "on",
        "-t",
        "1",
        "-tb",
        "1",
        "--slot-save-path",
        slot_dir,
        "--metrics",
        "--slots",
        "--cache-ram",
        "0",
        "--no-warmup",
    ]


def agent(binaries, name, ports, engine_port, model, slot_dir, stores):
    return [
        f"{binaries}/ember-agent",
        f"--replica-id={name}",
        f"--listen={at(ports['listen'])}",
        f"--grpc={at(ports['grpc'])}",
        f"--engine=http://{at(engine_port)}",
        f"--model-file={model}",
        f"--slot-dir={slot_dir}",
        f"--slots={SLOTS}",
        "--stores=" + ",".join(at(port) for port in stores),
    ]


def router(binaries, port, replicas):
    """replicas: {name: dict listen/grpc} of the agents."""
    return [f"{binaries}/ember-router", f"--listen={at(port)}", f"--grpc={at(0)}", "--drain-delay-ms=0", "--policy=cache_aware"] + [
        f"--replica={name},http={at(ports['listen'])},grpc={at(ports['grpc'])}"
        for name, ports in replicas.items()
    ]


def agent_report_path(request_id):
    """Where an agent tells what it did for a request: a JSON list of records, newest first."""
    return f"/ember/requests?limit=1&id={request_id}"


# Our name of a figure -> its name in such a record, which leaves out what did not happen.
WORK_FIELDS = {
    "tokenize_ms": "tokenize_ms",
    "queue_ms": "queue_ms",  # waiting for a slot
    "match_ms": "match_ms",
    "transfer_ms": "transfer_ms",
    "rebuild_ms": "rebuild_ms",
    "restore_ms": "restore_ms",
    "bytes": "bytes_loaded",
    "push_ms": "push_ms",  # after the answer: what was new went to the store
}
