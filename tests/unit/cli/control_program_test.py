"""`ember` against a real node of two shards: status, top, watch, purge, put levels, data over gRPC; and that the
node's log names no token.

  control_program_test.py PATH_OF_EMBER PATH_OF_EMBER_STORE
"""

import hashlib
import json
import pathlib
import re
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request

EMBER = STORE = ""
MEBIBYTE = 1 << 20


class ControlTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.log = self.folder / "log"
        self.at = {"grpc": "127.0.0.1:0"}
        self.start()
        self.addCleanup(self.stop)

    def start(self, *more, shards=2):
        """At the control address it had before, if it ran before."""
        flags = ["--listen=127.0.0.1:0", f"--grpc={self.at['grpc']}", "--admin=127.0.0.1:0", f"--shards={shards}"]
        with open(self.log, "w", encoding="utf-8") as log:
            self.node = subprocess.Popen(
                [STORE, *flags, *more, "--memory=64MiB", "--log-level=debug"], stderr=log
            )
        with open(self.log, encoding="utf-8") as lines:
            ready = ""
            while not ready.startswith("ready "):
                ready = lines.readline()
                self.assertIsNone(self.node.poll(), self.log.read_text())
        self.at = dict(part.split("=", 1) for part in ready.split()[1:])

    def stop(self):
        self.node.terminate()
        self.node.wait()

    def ember(self, *arguments, expect=0):
        addresses = {"EMBER_STORES": self.at["data"], "EMBER_STORE_GRPC": self.at["grpc"]}
        done = subprocess.run(
            [EMBER, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=addresses
        )
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout if expect == 0 else done.stderr

    def put_file(self, name, *more, size=5 * MEBIBYTE + 1):
        path = self.folder / name
        path.write_bytes(hashlib.shake_128(name.encode()).digest(size))
        self.ember("put", str(path), "--name", name, "--copies=1", *more)
        return path

    def test_status_and_top_say_what_each_shard_does(self):
        self.put_file("a")
        self.assertEqual(len(self.status()[0]["shards"]), 2)
        top = json.loads(self.ember("top", "--once", "--json", "--interval=0.1"))
        shards = top["nodes"][0]["shards"]
        self.assertEqual(len(shards), 2)
        self.assertEqual(sum(s["segments"] for s in shards), 7)  # six chunks and the manifest
        self.assertTrue(all(s["bytes_in_per_second"] == 0 for s in shards))
        table = self.ember("top", "--once", "--interval=0.1")
        self.assertNotIn("\x1b", table)
        self.assertIn("GET P99", table)

    def status(self):
        """The node as `ember status --json` shows it, and the table; the router is not there."""
        outputs = []
        for more in (["--json"], []):
            done = subprocess.run(
                [EMBER, "status", *more, "--router-grpc=127.0.0.1:1", f"--store-grpc={self.at['grpc']}"],
                capture_output=True, text=True, timeout=60, check=False,
            )
            self.assertEqual(done.returncode, 1)
            outputs.append(done.stdout)
        return json.loads(outputs[0])["stores"][0], outputs[1]

    def test_status_says_what_is_read_in_place(self):
        node, table = self.status()
        self.assertEqual((node["shm_offered"], node["shm_clients"]), (False, 0))
        self.assertRegex(table, r"IN PLACE .*\n.* off ")
        self.stop()
        self.start("--shm=trusted", f"--shm-dir={self.folder}", shards=1)
        self.put_file("a", size=5 * MEBIBYTE)
        self.ember("get", "--name=a", "--copies=1", "-o", str(self.folder / "copy"))
        node, table = self.status()
        self.assertTrue(node["shm_offered"])
        self.assertEqual(node["shm_clients"], 2)  # the put maps it, too
        self.assertEqual(node["shards"][0]["shm_gets"], 6)
        self.assertGreaterEqual(node["shards"][0]["shm_bytes"], 5 * MEBIBYTE)
        self.assertIn(" 5.0 MiB ", table)

    def test_every_metric_is_documented(self):
        self.stop()
        self.start(f"--data={self.folder / 'data'}", "--disk=1GiB")
        with urllib.request.urlopen(f"http://{self.at['admin']}/metrics", timeout=20) as reply:
            metrics = set(re.findall(r"^# TYPE (\w+)", reply.read().decode(), re.M))
        readme = pathlib.Path("kvstore/README.md").read_text()
        documented = set(re.findall(r"`((?:ember|process)_\w+)", readme))
        self.assertEqual(metrics - documented, set(), "not in kvstore/README.md")
        self.assertEqual(documented - metrics, set(), "in kvstore/README.md, not in a node")

    def test_watch_prints_what_is_stored(self):
        self.put_file("a")
        lines = [json.loads(line) for line in self.ember("watch", "--snapshot").splitlines()]
        self.assertEqual({line["event"] for line in lines}, {"stored"})
        self.assertEqual(len({line["key"] for line in lines}), 7)
        self.assertEqual({line["tier"] for line in lines}, {"memory"})

    def test_a_watcher_converges_after_kills(self):
        """P5: what it knows is in the end what the node holds, though the node was killed under it."""
        addresses = {"EMBER_STORE_GRPC": self.at["grpc"]}
        with subprocess.Popen([EMBER, "watch"], stdout=subprocess.PIPE, text=True, env=addresses) as watcher:
            try:
                held, lost, truth = {0: set(), 1: set()}, 0, None
                for round in range(2):
                    self.put_file(f"a{round}")
                    self.node.kill()
                    self.node.wait()
                    self.start()
                self.put_file("b")
                self.ember("purge", "--tenant=nobody")  # an event that comes last
                truth = {json.loads(line)["key"] for line in self.ember("watch", "--snapshot").splitlines()}
                purged = set()
                for line in watcher.stdout:
                    event = json.loads(line)
                    match event["event"]:
                        case "snapshot":
                            held[event["shard"]].clear()
                            purged.discard(event["shard"])
                        case "stored":
                            held[event["shard"]].add(event["key"])
                        case "removed":
                            held[event["shard"]].discard(event["key"])
                        case "purged":
                            purged.add(event["shard"])
                        case "lost":
                            lost += 1
                    if purged == {0, 1}:
                        break
                    # The purge may lie before a late snapshot; then that is the last word.
                    if event["event"] == "current" and held[0] | held[1] == truth:
                        break
            finally:
                watcher.terminate()
        self.assertEqual(held[0] | held[1], truth)
        self.assertEqual(len(truth), 7)
        self.assertGreaterEqual(lost, 1)

    def test_purge_takes_what_it_names_and_nothing_else(self):
        self.put_file("a")
        self.assertIn("0 segments", self.ember("purge", "--tenant=nobody"))
        self.ember("match", "--name=a", "--copies=1")
        self.assertIn("--yes", self.ember("purge", "--all", expect=2))
        self.ember("purge", expect=2)
        self.ember("purge", "--tenant=a", "--all", expect=2)
        self.ember("purge", "--namespace=12", expect=2)
        self.assertIn("7 segments", self.ember("purge", "--all", "--yes"))
        self.assertIn("purged", self.ember("match", "--name=a", "--copies=1", expect=3))
        self.put_file("a")  # what is put after a purge is stored as ever
        self.ember("match", "--name=a", "--copies=1")
        self.assertIn("not purged", self.ember("purge", "--all", "--yes", "--store-grpc=127.0.0.1:1", expect=1))

    def test_a_purge_holds_over_a_kill(self):
        disk = [f"--data={self.folder / 'data'}", "--disk=1GiB"]
        self.stop()
        self.start(*disk)
        self.put_file("a")
        self.put_file("b")
        self.assertIn("durable", self.ember("purge", "--all", "--yes"))
        self.put_file("c")
        self.node.kill()
        self.node.wait()
        self.start(*disk)
        for name in ("a", "b"):
            self.ember("match", f"--name={name}", "--copies=1", expect=3)

    def test_an_acknowledgement_from_disk_holds_over_a_kill(self):
        self.stop()
        self.start(f"--data={self.folder / 'data'}", "--disk=1GiB", "--disk-write=demotion")
        path = self.folder / "a"
        path.write_bytes(hashlib.shake_128(b"a").digest(5 * MEBIBYTE + 1))
        put = ("put", str(path), "--name=a", "--copies=1")
        self.assertIn("1 copy in memory", self.ember(*put))
        self.assertIn("1 copy on disk", self.ember(*put, "--ack=disk"))  # what was there already, too
        b = self.put_file("b")
        again = ("put", str(b), "--name=b", "--copies=1", "--via=grpc", "--ack=disk")
        self.assertIn("0 chunks sent", self.ember(*again))
        self.node.kill()
        self.node.wait()
        self.start(f"--data={self.folder / 'data'}", "--disk=1GiB")
        copy = self.folder / "copy"
        self.ember("get", "--name=a", "--copies=1", "-o", str(copy))
        self.assertEqual(copy.read_bytes(), path.read_bytes())
        self.ember("match", "--name=b", "--copies=1")

    def test_a_node_without_a_disk_acknowledges_nothing_from_it(self):
        path = self.folder / "a"
        path.write_bytes(b"a")
        self.assertIn("disk", self.ember("put", str(path), "--name=a", "--copies=1", "--ack=disk", expect=1))
        self.ember("match", "--name=a", "--copies=1")  # stored all the same
        self.ember("put", str(path), "--name=b", "--ack=tape", expect=2)

    def test_data_goes_over_grpc_where_the_data_port_is_closed(self):
        self.stop()
        self.start(shards=1)
        path = self.put_file("a", "--via=grpc", "--stores=127.0.0.1:1")
        copy = self.folder / "copy"
        self.ember("get", "--name=a", "--via=grpc", "--stores=127.0.0.1:1", "-o", str(copy))
        self.assertEqual(copy.read_bytes(), path.read_bytes())
        self.ember("get", "--name=a", "-o", str(copy))  # and over TCP
        self.ember("match", "--name=b", "--via=grpc", expect=3)

    def test_the_log_names_no_token(self):
        path = self.put_file("secret")
        self.ember("get", "--name=secret", "-o", str(self.folder / "copy"))
        self.ember("purge", "--tenant=acme")
        host, port = self.at["data"].split(":")
        with socket.create_connection((host, int(port))) as hostile:
            hostile.sendall(b"\xff" * 100)
            while hostile.recv(1000):
                pass
        self.stop()
        log = self.log.read_text()
        self.assertIn("purged scope=tenant", log)
        self.assertIn("connection ended", log)
        # The token ids of a file's segments are the words of its digest.
        tokens = struct.unpack("<8i", hashlib.sha256(path.read_bytes()).digest())
        for token in tokens:
            self.assertNotIn(str(token), log)
            self.assertNotIn(f"{token & 0xFFFFFFFF:x}", log)
        self.assertNotIn("acme", log)
        for line in log.splitlines():
            self.assertRegex(line, r"^(ready |\d{4}-\d\d-\d\dT[\d:.]+Z \w+ )")


if __name__ == "__main__":
    STORE = sys.argv.pop()
    EMBER = sys.argv.pop()
    unittest.main()
