"""ember-store as a process: its ready line, exit codes, errors and graceful stop.

  store_program_test.py PATH_OF_EMBER_STORE
"""

import re
import signal
import socket
import subprocess
import sys
import unittest
import urllib.request

PROGRAM = ""
PATIENCE = 30


def flags(**overrides):
    """Any free ports and little memory, unless said otherwise."""
    values = {"listen": "127.0.0.1:0", "grpc": "127.0.0.1:0", "admin": "127.0.0.1:0", "memory": "4MiB"}
    return [f"--{name}={value}" for name, value in {**values, **overrides}.items()]


class Store:
    """A running node; `addresses` as its ready line says."""

    def __init__(self, *more):
        self.process = subprocess.Popen(
            [PROGRAM, *flags(), *more], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        self.ready = ""
        for line in self.process.stderr:
            if line.startswith("ready "):
                self.ready = line.strip()
                break
        self.addresses = dict(part.split("=", 1) for part in self.ready.split()[1:])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def stop(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=PATIENCE)
    return done.returncode, done.stdout, done.stderr


class StoreProgramTest(unittest.TestCase):
    def test_the_ready_line_says_every_real_address(self):
        with Store("--io=epoll", "--node-id=n7") as store:
            self.assertRegex(
                store.ready,
                r"^ready node=n7 data=127\.0\.0\.1:\d+ grpc=127\.0\.0\.1:\d+ admin=127\.0\.0\.1:\d+ io=epoll$",
            )
            for door in ("data", "grpc", "admin"):
                host, port = store.addresses[door].split(":")
                socket.create_connection((host, int(port)), PATIENCE).close()
            with urllib.request.urlopen(f"http://{store.addresses['admin']}/healthz") as reply:
                self.assertEqual(reply.status, 200)

    def test_a_signal_ends_it_with_success(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            with Store() as store:
                host, port = store.addresses["data"].split(":")
                with socket.create_connection((host, int(port)), PATIENCE) as idle:
                    self.assertEqual(store.stop(how), 0)
                    self.assertEqual(idle.recv(1), b"")

    def test_a_port_in_use_is_one_line_naming_flag_and_port(self):
        with Store() as store:
            for door, flag in (("data", "listen"), ("grpc", "grpc"), ("admin", "admin")):
                address = store.addresses[door]
                code, _, errors = run(*flags(**{flag: address}))
                lines = [l for l in errors.splitlines() if l.startswith("ember-store:")]
                self.assertEqual((code, len(lines)), (1, 1), errors)
                self.assertIn(f"--{flag}", lines[0])
                self.assertIn(address, lines[0])

    def test_wrong_flags_exit_2_with_one_line(self):
        for wrong in ("--nonsense", "--memory=x", "--peers=s9=127.0.0.1:1"):
            code, out, errors = run(wrong)
            self.assertEqual((code, out, errors.count("\n")), (2, "", 1), errors)

    def test_help_and_version_exit_0_on_stdout(self):
        code, out, errors = run("--help")
        self.assertEqual((code, errors), (0, ""))
        self.assertIn("--peers", out)
        self.assertTrue(re.match(r"ember-store \d+\.\d+", run("--version")[1]))

    def test_more_memory_than_there_is_fails_with_a_reason(self):
        code, _, errors = run(*flags(memory="16384GiB"))
        self.assertEqual((code, errors.count("\n")), (1, 1), errors)
        self.assertIn("--memory", errors)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
