#!/usr/bin/env python3
"""ember-agent beside a real llama-server: right answers on every way, and after every failure."""

import json
import os
import socket
import sys
import threading
import time
import unittest

import cluster
import tap
from cluster import call, needs, wait_for

DOCUMENT = (
    "The harbour town of Lowick had two lighthouses. The older one, built of grey stone, stood on "
    "the north pier and was kept by a retired sailor named Tomas Reed. The newer one, painted white "
    "and red, was kept by his daughter Clara. Every evening at seven they lit their lamps and wrote "
    "in their log books the weather, the tide and the name of every ship. "
)
# Every chapter begins differently, so that chapters share no prefix but the template's.
CHAPTERS = ["Spring.", "Summer.", "Autumn.", "Winter.", "Storms.", "Ships.", "Letters.", "Maps."]


def chat(chapter, question, tokens=12, repeat=4, **more):
    messages = [
        {"role": "system", "content": CHAPTERS[chapter] + " " + DOCUMENT * repeat},
        {"role": "user", "content": question},
    ]
    return {"messages": messages, "max_tokens": tokens, "temperature": 0, **more}


def answer(reply):
    if reply.status != 200:
        raise AssertionError(f"{reply.status}: {reply.body[:300]}")
    return reply.json["choices"][0]["message"]["content"]


QUESTION = "Who kept the older lighthouse?"
OFF = {"x-ember-store": "off"}
RECOMPUTE = {"x-ember-cache": "off"}


def others(port):
    """The answers to 20 other prompts."""
    prompts = [f"Number {i}: the capital of {c} is" for i, c in enumerate(["France", "Italy"] * 10)]
    body = {"max_tokens": 4, "temperature": 0}
    replies = [call(port, "POST", "/v1/completions", {"prompt": p, **body}) for p in prompts]
    for reply in replies:
        assert reply.status == 200, reply.body
    return [r.json["choices"][0]["text"] for r in replies]


class WithCluster(unittest.TestCase):
    def setUp(self):
        self.c = cluster.Cluster()
        self.addCleanup(self.c.close)
        self.addCleanup(self.tell)

    def tell(self):
        """The processes' last words, when a test failed."""
        outcome = getattr(self._outcome, "result", None)
        failed = [t for t, _ in getattr(outcome, "failures", []) + getattr(outcome, "errors", [])]
        if self in failed or os.environ.get("EMBER_E2E_LOGS"):
            for name in self.c.commands:
                if "engine" not in name:
                    print(f"--- {name}\n{self.c.log(name)[-3000:]}", file=sys.stderr)

    def start(self, engines="ab", stores=2):
        self.c.plan_stores(stores)
        for name in self.c.stores:
            self.c.store(name)
        for name in engines:
            self.c.engine("engine-" + name)
        for name in engines:
            self.c.agent(name, "engine-" + name)
        self.c.wait_healthy(*self.c.stores, *engines)

    def ask(self, agent, body, headers=None):
        return call(self.c.ports[agent], "POST", "/v1/chat/completions", body, headers)


@needs("ember-agent", "ember-store")
class RoutesTest(WithCluster):
    def test_equal_answers_local_remote_recomputed_and_after_kill(self):
        self.start()
        body = chat(0, QUESTION)
        cold = self.ask("a", body)
        self.assertEqual(cold.route, "recompute")
        local = self.ask("a", body)
        self.assertEqual(local.route, "local")
        self.c.wait_pushed("a", cold)
        remote = self.ask("b", body)
        self.assertEqual(remote.route, "remote")
        computed = self.ask("b", body, RECOMPUTE)
        self.assertEqual(computed.route, "recompute")
        self.assertEqual({answer(r) for r in (cold, local, remote, computed)}, {answer(cold)})

        record = self.c.record("b", remote)
        self.assertEqual(record["engine_cached"], remote.cached)
        self.assertLessEqual(record["engine_computed"], 64)
        self.assertEqual(self.c.record("b", computed)["engine_cached"], 0)

        # KILL -9 of the warm engine, restarted empty: the next turn comes from the store.
        self.c.kill("engine-a")
        wait_for("the loss", lambda: not self.c.healthy("a"))
        self.c.restart("engine-a")
        self.c.wait_healthy("a")
        turn = chat(0, QUESTION)
        turn["messages"] += [
            {"role": "assistant", "content": answer(cold)},
            {"role": "user", "content": "And the newer one?"},
        ]
        after = self.ask("a", turn)
        self.assertEqual(after.route, "remote")
        self.assertEqual(self.c.record("a", after)["engine_cached"], after.cached)
        self.assertEqual(answer(after), answer(self.ask("b", turn, RECOMPUTE)))

        # A store node killed: no request fails.
        self.c.kill("s1")
        for chapter in (0, 1):
            answer(self.ask("b", chat(chapter, "What colour was the newer one?")))

    def test_overhead_of_a_remote_load(self):
        self.start()
        body = chat(1, QUESTION, repeat=13)
        cold = self.ask("a", body)
        self.c.wait_pushed("a", cold)
        best = None
        for _ in range(3):
            remote = self.ask("b", body)
            self.assertEqual(remote.route, "remote")
            self.c.wait_idle("b")
            record = self.c.record("b", remote)
            ours = record["match_ms"] + record["transfer_ms"] + record["rebuild_ms"]
            best = min(best or (1e9, {}), (ours, record), key=lambda x: x[0])
            for chapter in (2, 3):  # other contents for both slots
                answer(self.ask("b", chat(chapter, QUESTION, repeat=1), OFF))
            self.c.wait_idle("b")
        ours, record = best
        self.assertGreaterEqual(record["remote_tokens"], 1000)
        print(
            f"\n{record['remote_tokens']} tokens, {record['bytes_loaded'] / 1e6:.1f} MB: "
            + ", ".join(f"{k[:-3]} {record[k]:.1f}" for k in ("match_ms", "transfer_ms", "rebuild_ms"))
            + f" = {ours:.1f} ms; restore {record['restore_ms']:.1f}, save {record['save_ms']:.1f},"
            + f" arrival to engine {record['overhead_ms']:.1f}, first byte {record['ttft_ms']:.0f}"
            + f" (recomputed {self.c.record('a', cold)['ttft_ms']:.0f}) ms",
            file=sys.stderr,
        )
        self.assertLess(ours, 60)

    def test_serves_at_once_when_the_store_comes_late(self):
        self.c.plan_stores(2)
        self.c.engine("engine-a")
        self.c.agent("a", "engine-a")
        self.c.wait_healthy("a")
        body = chat(2, QUESTION)
        first = self.ask("a", body)
        answer(first)
        self.assertLess(self.c.record("a", first)["overhead_ms"], 1500)
        for name in self.c.stores:
            self.c.store(name)
        self.c.wait_healthy(*self.c.stores)

        def pushed():
            reply = self.ask("a", chat(2, QUESTION, tokens=1))
            self.c.wait_pushed("a", reply)
            return self.c.metric("a", "ember_agent_pushed_segments_total") > 0

        wait_for("the store to be used", pushed)

    def test_the_engine_may_come_last(self):
        self.c.plan_stores(1)
        self.c.store("s1")
        self.c.ports["engine-a"] = cluster.free_ports(1)[0]
        self.c.agent("a", "engine-a")
        refused = wait_for("the agent", lambda: self._try(lambda: self.ask("a", chat(3, QUESTION))))
        self.assertEqual(refused.status, 503)
        self.assertIn("error", refused.json)
        self.c.engine("engine-a")
        self.c.wait_healthy("a")
        answer(self.ask("a", chat(3, QUESTION)))

    def _try(self, action):
        try:
            return action()
        except OSError:
            return None


@needs("ember-agent", "ember-store")
class FailureTest(WithCluster):
    def test_a_restore_that_fails_in_the_engine_leaves_it_clean(self):
        """The agent's folder becomes another one than the engine's: what it is told to restore is
        missing there, or damaged."""
        self.c.plan_stores(1)
        self.c.store("s1")
        theirs, ours = self.c.folder / "theirs", self.c.folder / "ours"
        for folder in (theirs, ours):
            folder.mkdir()
        link = self.c.folder / "link"
        link.symlink_to(theirs)
        self.c.engine("engine-a", slot_dir=theirs)
        self.c.engine("engine-b")
        self.c.agent("a", "engine-a", slot_dir=link)
        self.c.wait_healthy("s1", "a")
        body = chat(4, QUESTION)
        cold = self.ask("a", body)
        self.c.wait_pushed("a", cold)
        wait_for("engine-b", lambda: self.c.healthy("engine-b"))
        clean = others(self.c.ports["engine-b"])
        name = "ember-a-restore-{}.bin"
        for damage in ("missing", "another version", "last plane"):
            with self.subTest(damage):
                for chapter in (5, 6):  # other contents for both slots
                    answer(self.ask("a", chat(chapter, QUESTION, repeat=1), OFF))
                self.c.wait_idle("a")
                if damage != "missing":
                    # What the agent wrote last; the engine reads all but the last plane of it before
                    # it sees that the row size there is wrong.
                    file = max(ours.glob(name.format("*")), key=lambda p: p.stat().st_mtime)
                    bad = bytearray(file.read_bytes())
                    tokens = int.from_bytes(bad[8:12], "little")
                    row = int.from_bytes(bad[40 + 16 * tokens :][:8], "little")
                    at = 4 if damage == "another version" else len(bad) - tokens * row - 8
                    bad[at] ^= 1
                    for slot in (0, 1):
                        (theirs / name.format(slot)).write_bytes(bad)
                failures = 'ember_agent_cache_failures_total{what="restore_failed"}'
                before = self.c.metric("a", failures)
                link.unlink()
                link.symlink_to(ours)
                reply = self.ask("a", body)
                link.unlink()
                link.symlink_to(theirs)
                self.assertEqual(reply.route, "recompute")
                self.assertEqual(answer(reply), answer(cold))
                self.assertEqual(self.c.metric("a", failures), before + 1)
                self.assertEqual(others(self.c.ports["a"]), clean)

    def test_empty_slots_and_missing_names(self):
        self.start("a", stores=1)
        port = self.c.ports["a"]
        for action, body in [
            ("restore", {"filename": "no-such-file.bin"}),
            ("erase", {}),
            ("save", {"filename": "empty.bin"}),
            ("restore", {"filename": "empty.bin"}),
        ]:
            self.assertLess(call(port, "POST", f"/slots/0?action={action}", body).status, 500)
        wait_for("the agent", lambda: self.c.healthy("a"))
        empty = {"prompt": "", "max_tokens": 1, "temperature": 0}
        self.assertLess(call(port, "POST", "/v1/completions", empty).status, 500)
        first = self.ask("a", chat(7, QUESTION))
        self.assertEqual(answer(first), answer(self.ask("a", chat(7, QUESTION), RECOMPUTE)))

    def test_malformed_bodies(self):
        self.start("a", stores=1)
        port = self.c.ports["a"]
        bodies = [b"", b"[", b'"x"', b"null", b"[" * 10000, b'{"messages":NaN}', b"\xff\xfe{}"]
        bodies += [b'{"messages":"\xed\xa0\x80"}', b'{"messages":1e400}', b'{"messages":"\\ud800"}']
        bodies += [b"\xef\xbb\xbf{}", b'{"messages":{"a":1}}', b'{"messages":[{"role":"user"}]}']
        for path in ("/v1/chat/completions", "/v1/completions", "/completion"):
            for body in bodies:
                with self.subTest(path=path, body=body[:20]):
                    reply = call(port, "POST", path, body)
                    self.assertEqual(reply.status, 400, reply.body)
                    self.assertIn("error", reply.json)
        answer(self.ask("a", chat(7, QUESTION, repeat=1)))


@needs("ember-agent")
class StreamTest(WithCluster):
    def setUp(self):
        super().setUp()
        engine = self.c.engine("engine-a")
        wait_for("the engine", lambda: self.c.healthy("engine-a"))
        self.tap = tap.Tap(engine)
        self.addCleanup(self.tap.close)
        self.c.ports["tapped"] = self.tap.port
        self.c.agent("a", "tapped", stores=[])
        self.c.wait_healthy("a")

    def forwarded(self, mark):
        """The agent's conversation with the engine in which it forwarded the request of that mark."""
        wanted = mark.encode() + b'"'
        talks = [t for t in self.tap.conversations if b"id_slot" in t.sent and wanted in t.sent]
        return talks[-1] if talks else None

    def test_streams_byte_for_byte_as_they_are_made(self):
        body = chat(0, "Tell me about ☃ and 灯台.", tokens=24, repeat=1, stream=True, user="mark-1")
        start = time.monotonic()
        reply = self.ask("a", body)
        talk = self.forwarded("mark-1")
        said = talk.received[talk.received.rindex(b"HTTP/1.1 200") :]
        self.assertEqual(reply.body, tap.dechunk(said))
        self.assertTrue(reply.body.endswith(b"data: [DONE]\n\n"))
        self.assertGreater(reply.seconds, reply.first_byte)
        record = self.c.record("a", reply)
        self.assertGreater(record["engine_computed"], 0)
        # The first byte left the agent as soon as it came; the rest was not waited for.
        self.assertLess(record["ttft_ms"], record["total_ms"])
        self.assertLess(time.monotonic() - start, reply.seconds + 1)

    def test_the_request_body_arrives_with_a_slot_and_else_unchanged(self):
        body = b'{ "prompt":"mark-2 \\u2603 ",\n "max_tokens" :1, "temperature":0.0e0 } '
        self.assertEqual(call(self.c.ports["a"], "POST", "/v1/completions", body).status, 200)
        sent = [t.sent for t in self.tap.conversations if b"/v1/completions" in t.sent]
        self.assertTrue(any(body[:-2] + b',"id_slot":' in s for s in sent))

    def test_a_client_that_leaves_stops_the_engine(self):
        for stage, wait in (("prefill", 0.3), ("decode", None)):
            with self.subTest(stage):
                mark = "mark-" + stage
                repeat, tokens = (12, 4) if stage == "prefill" else (1, 2000)
                body = chat(1, QUESTION, tokens, repeat, stream=True, ignore_eos=True, user=mark)
                client = socket.create_connection(("127.0.0.1", self.c.ports["a"]))
                data = json.dumps(body).encode()
                head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
                client.sendall(head.encode() + data)
                if wait is None:
                    client.recv(1)
                wait_for("the forward", lambda: self.forwarded(mark))
                time.sleep(wait or 0.2)  # well inside that stage; it lasts for seconds
                client.close()
                left = time.monotonic()

                talk = self.forwarded(mark)
                self.assertLess(wait_for("the abort", lambda: talk.client_closed_at, 5) - left, 0.1)
                wait_for("the slot", lambda: self.c.metric("a", "ember_agent_slots_busy") == 0, 30)
                slots = call(self.c.ports["engine-a"], "GET", "/slots").json
                self.assertFalse(any(s["is_processing"] for s in slots))
        # What the agent believes of the slot is what the engine has.
        again = self.ask("a", chat(1, QUESTION, repeat=1))
        self.assertEqual(answer(again), answer(self.ask("a", chat(1, QUESTION, repeat=1), RECOMPUTE)))
        self.assertEqual(self.c.metric("a", 'ember_agent_cache_failures_total{what="belief_wrong"}'), 0)

    def test_many_clients_at_once(self):
        replies = {}

        def client(i):
            replies[i] = self.ask("a", chat(i % 4, f"Question {i % 2}?", tokens=2, repeat=1))

        threads = [threading.Thread(target=client, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, reply in replies.items():
            alone = self.ask("a", chat(i % 4, f"Question {i % 2}?", tokens=2, repeat=1))
            self.assertEqual(answer(reply), answer(alone))


@needs("ember-agent", engine=False)
class CommandLineTest(unittest.TestCase):
    def run_agent(self, *flags):
        import subprocess

        program = str(cluster.BIN / "ember-agent")
        return subprocess.run([program, *flags], capture_output=True, text=True, timeout=30)

    def test_bad_flags_are_one_line_and_exit_2(self):
        good = ["--engine=http://127.0.0.1:1", "--model-file=m", "--slot-dir=/tmp", "--replica-id=a"]
        for flags in (
            [],
            good + ["--no-such-flag"],
            good[1:],
            good + ["--listen=nonsense"],
            good + ["--stores=a:b"],
            good + ["--io=magic"],
            good + ["--slots=x"],
            good + ["--log-level=loud"],
            good + ["--salt-file=/no/such/file"],
        ):
            with self.subTest(flags=flags):
                result = self.run_agent(*flags)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)

    def test_a_port_in_use_is_a_clear_line_and_exit_1(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            good = ["--engine=http://127.0.0.1:1", "--model-file=m", "--slot-dir=/tmp", "--replica-id=a"]
            for flag in ("--listen", "--grpc"):
                result = self.run_agent(*good, f"{flag}={address}")
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(address, result.stderr)

    def test_help(self):
        result = self.run_agent("--help")
        self.assertEqual(result.returncode, 0)
        self.assertIn("--slot-save-path", result.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
