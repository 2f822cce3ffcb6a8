"""Three stores, two replicas (engine and agent), one router, on loopback ports that were free."""

import os
import shutil
import tempfile

from . import commands
from .process import DemoError, Process, free_ports, stop_all

STORES = ("s1", "s2", "s3")
REPLICAS = ("r1", "r2")
SLOT_BYTES_WANTED = 512 << 20


class Cluster:
    """start() and stop() pair up; stop() may be called at any time, also after a half-done
    start().
    """

    def __init__(self, binaries, engine, model, memory, keep):
        self.run_dir = tempfile.mkdtemp(prefix="ember-demo-")
        self.slot_root = tempfile.mkdtemp(prefix="ember-demo-", dir=self._slot_parent())
        self.processes = {}
        self._killed = set()  # names that kill() ended and restart() has not brought back
        self._tied = not keep
        ports = iter(free_ports(3 * len(STORES) + 3 * len(REPLICAS) + 1))
        self.store_ports = {
            n: {k: next(ports) for k in ("listen", "grpc", "admin")} for n in STORES
        }
        self.agent_ports = {n: {k: next(ports) for k in ("listen", "grpc")} for n in REPLICAS}
        self.engine_ports = {n: next(ports) for n in REPLICAS}
        self.router_port = next(ports)
        self._define(binaries, engine, model, memory)

    def _slot_parent(self):
        """Slot files belong on tmpfs; a container's /dev/shm may be too small for them."""
        try:
            shm = os.statvfs("/dev/shm")
            if shm.f_bavail * shm.f_frsize >= SLOT_BYTES_WANTED and os.access("/dev/shm", os.W_OK):
                return "/dev/shm"
        except OSError:
            pass
        return self.run_dir

    def _define(self, binaries, engine, model, memory):
        peers = {name: ports["listen"] for name, ports in self.store_ports.items()}
        for name, ports in self.store_ports.items():
            self._add(
                name, "store", ports["admin"], commands.store(binaries, name, ports, peers, memory)
            )
        for name in REPLICAS:
            slots = os.path.join(self.slot_root, name)
            os.mkdir(slots)
            port, ports = self.engine_ports[name], self.agent_ports[name]
            self._add(f"{name}-engine", "engine", port, commands.engine(engine, model, port, slots))
            self._add(
                f"{name}-agent",
                "agent",
                ports["listen"],
                commands.agent(binaries, name, ports, port, model, slots, peers.values()),
            )
        self._add(
            "router",
            "router",
            self.router_port,
            commands.router(binaries, self.router_port, self.agent_ports),
        )

    def _add(self, name, kind, port, command):
        self.processes[name] = Process(
            name,
            command,
            f"{self.run_dir}/{name}.log",
            f"http://{commands.at(port)}{commands.HEALTH[kind]}",
            self._tied,
        )

    def start(self):
        """Stores and engines first, then the agents that speak to them, then the router."""
        for group in ([*STORES, *self._of("engine")], self._of("agent"), ["router"]):
            self._start(group)

    def _of(self, part):
        return [f"{name}-{part}" for name in REPLICAS]

    def _start(self, names):
        for name in names:
            self.processes[name].start()
        for name in names:
            self.processes[name].wait_ready()
        self._write_pids()

    def kill(self, *names):
        """KILL -9, one after another at once; a replica's name stands for its engine and its
        agent.
        """
        for name in self._parts(names):
            self._killed.add(name)
            self.processes[name].kill()

    def restart(self, *names):
        """Starts killed processes again, empty: an engine has no cache, a store node no data."""
        parts = self._parts(names)
        self._killed.difference_update(parts)
        for replica in set(names) & set(REPLICAS):
            self._empty(os.path.join(self.slot_root, replica))
        self._start([n for n in parts if not n.endswith("-agent")])
        self._start([n for n in parts if n.endswith("-agent")])

    @staticmethod
    def _empty(folder):
        for entry in os.scandir(folder):
            os.unlink(entry.path)

    @staticmethod
    def _parts(names):
        return [
            part
            for name in names
            for part in ([f"{name}-engine", f"{name}-agent"] if name in REPLICAS else [name])
        ]

    def check_alive(self):
        """Fails when a process has ended by itself."""
        for name, process in self.processes.items():
            if name not in self._killed and not process.alive():
                raise DemoError(
                    f"{process.name} died (status {process.child.returncode})\n{process.log_tail()}"
                )

    def pids(self):
        return [p.child.pid for p in self.processes.values() if p.alive()]

    def _write_pids(self):
        with open(f"{self.run_dir}/pids", "w", encoding="ascii") as file:
            file.write(" ".join(map(str, self.pids())) + "\n")

    def stop(self, keep_logs):
        stop_all(list(self.processes.values()))
        shutil.rmtree(self.slot_root, ignore_errors=True)
        if not keep_logs:
            shutil.rmtree(self.run_dir, ignore_errors=True)
