"""Child processes that cannot outlive the demo: each in its own process group, ended by pid, never
by name.
"""

import os
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request


class DemoError(Exception):
    """Something that ends the demo, told to the person at the terminal without a stack trace."""


def _first_ephemeral_port():
    """The system gives ports from here on to whoever connects, also one that was free just now."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        return int(file.read().split()[0])


def free_ports(count):
    """Distinct ports of loopback that nobody listens on, for processes that will do so later, and again
    after a restart: none is given out twice, nor by the system meanwhile.
    """
    end = max(_first_ephemeral_port(), 2048)
    found = []
    for port in random.sample(range(1024, end), end - 1024):
        if len(found) == count:
            return found
        if port in _given:
            continue
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        found.append(port)
    raise DemoError(f"no {count} free ports between 1024 and {end}")


_given = set()


class Process:
    def __init__(self, name, command, log, health, tied):
        """health: URL that answers 200 when ready. tied: die with the demo even when that is killed
        with SIGKILL.
        """
        self.name, self.command, self.log, self.health, self.tied = name, command, log, health, tied
        self.child = None

    def start(self):
        prefix = ["setpriv", "--pdeathsig", "KILL"] if self.tied else []
        with open(self.log, "ab") as out:
            out.write(f"--- {' '.join(self.command)}\n".encode())
            out.flush()
            try:
                self.child = subprocess.Popen(
                    prefix + self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                )
            except OSError as error:
                raise DemoError(f"cannot start {self.name}: {error}") from error

    def alive(self):
        return self.child is not None and self.child.poll() is None

    def wait_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while not self._healthy():
            if not self.alive():
                raise DemoError(
                    f"{self.name} ended with status {self.child.returncode} before it was "
                    f"ready\n{self.log_tail()}"
                )
            if time.monotonic() > deadline:
                raise DemoError(
                    f"{self.name} did not answer {self.health} within {seconds} "
                    f"s\n{self.log_tail()}"
                )
            time.sleep(0.05)

    def _healthy(self):
        try:
            with urllib.request.urlopen(self.health, timeout=2) as reply:
                return reply.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def kill(self):
        """SIGKILL, as a crash: nothing is flushed, nobody is told."""
        self._signal(signal.SIGKILL)
        if self.child:
            self.child.wait()

    def terminate(self):
        self._signal(signal.SIGTERM)

    def _signal(self, number):
        if self.alive():
            try:
                os.killpg(self.child.pid, number)  # start_new_session made the pid the group's id
            except ProcessLookupError:
                pass

    def log_tail(self, lines=15):
        with open(self.log, "rb") as log:
            tail = log.read()[-4000:].decode(errors="replace").splitlines()[-lines:]
        return f"last lines of {self.log}:\n" + "\n".join("  " + line for line in tail)


def stop_all(processes, grace_seconds=5):
    """TERM to all at once, then KILL for those still there after the grace time."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + grace_seconds
    while any(p.alive() for p in processes) and time.monotonic() < deadline:
        time.sleep(0.02)
    for process in processes:
        process.kill()
