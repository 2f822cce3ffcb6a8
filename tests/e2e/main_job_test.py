#!/usr/bin/env python3
"""The main job: two real replicas with agents behind the router, and a store of three nodes."""

import http.client
import json
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import tap
from agent_test import QUESTION, RECOMPUTE, WithCluster, answer, chat
from cluster import ROOT, call, needs, wait_for

PROGRAMS = ("ember-agent", "ember-router", "ember-store")


class WithRouter(WithCluster):
    def start_all(self, engine_tap=False, agent_extra=(), slots=2):
        self.c.plan_stores(3)
        for name in self.c.stores:
            self.c.store(name)
        for name in "ab":
            self.c.engine("engine-" + name, slots=slots)
        if engine_tap:
            wait_for("engine", lambda: self.c.healthy("engine-a"))
            self.tap = tap.Tap(self.c.ports["engine-a"])
            self.addCleanup(self.tap.close)
            self.c.ports["engine-a-tap"] = self.tap.port
        for name in "ab":
            self.c.agent(name, "engine-a-tap" if engine_tap and name == "a" else "engine-" + name, extra=agent_extra)
        self.c.wait_healthy(*self.c.stores, "a", "b")
        self.c.router("router", "ab")
        self.c.wait_healthy("router")

        def usable():
            replicas = call(self.c.ports["router"], "GET", "/admin/status").json["replicas"]
            return all(r["healthy"] and r["agent_connected"] for r in replicas)

        wait_for("both replicas", usable)

    def ask(self, body, headers=None, pin=None):
        headers = dict(headers or {}) | ({"x-ember-pin": pin} if pin else {})
        return call(self.c.ports["router"], "POST", "/v1/chat/completions", body, headers)


@needs(*PROGRAMS)
class StreamTest(WithRouter):
    def test_a_stream_is_the_engines_own_bytes_and_begins_before_the_engine_has_ended(self):
        self.start_all(engine_tap=True)
        body = chat(0, "Tell me about ☃ and 灯台.", tokens=48, repeat=1, stream=True, ignore_eos=True, user="mark-stream")
        connection = http.client.HTTPConnection("127.0.0.1", self.c.ports["router"], timeout=120)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json", "x-ember-pin": "a"})
        response = connection.getresponse()
        received = response.read1(1)
        talk = next(t for t in self.tap.conversations if b"mark-stream" in t.sent and b'"id_slot"' in t.sent)
        engine_had_said = len(talk.received)
        received += response.read()
        said = talk.received[talk.received.rindex(b"HTTP/1.1 200"):]
        self.assertEqual(received, tap.dechunk(said))
        self.assertTrue(received.endswith(b"data: [DONE]\n\n"))
        self.assertLess(engine_had_said, len(talk.received), "the first byte came only after the engine's last")
        self.assertEqual(response.getheader("x-ember-replica"), "a")
        self.assertIn(response.getheader("x-ember-route"), ("recompute", "local", "remote"))


@needs(*PROGRAMS)
class PredictionTest(WithRouter):
    def test_the_engine_finds_what_was_predicted_to_within_a_block(self):  # D33
        """Whatever the engine's own template is fed."""
        self.start_all()
        tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
        text = "The keeper wrote down the weather of each day, and who came by. " * 16

        def ask(messages, extra):
            body = {"messages": messages, "max_tokens": 2, "temperature": 0, **extra}
            reply = self.ask(body, {"x-ember-request-id": f"d33-{len(asked)}"}, pin="a")
            self.assertEqual(reply.status, 200, reply.body)
            asked.append(reply)
            explained = call(self.c.ports["router"], "GET", f"/admin/explain?id=d33-{len(asked) - 1}").json["requests"][0]
            predicted = next(c["device_tokens"] for c in explained["attempts"][-1]["candidates"] if c["replica"] == "a")
            return reply.json["timings"]["cache_n"], predicted

        asked = []
        for head, extra in (([{"role": "system", "content": text}], {}),
                            ([{"role": "user", "content": "灯台 и маяк ☃ " * 40}], {}),
                            ([{"role": "user", "content": [{"type": "text", "text": text + "Tools?"}]}], {"tools": [tool]})):
            with self.subTest(head=head[0]["role"], extra=list(extra)):
                messages = [*head, {"role": "user", "content": "First?"}]
                ask(messages, extra)
                found, predicted = ask([*messages, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Then?"}], extra)
                self.assertGreater(predicted, 0)
                self.assertLessEqual(abs(found - predicted), 64)


@needs(*PROGRAMS)
class FailureTest(WithRouter):
    def test_a_store_node_killed_under_load_fails_no_request(self):
        self.start_all()
        replies, stop = [], threading.Event()

        def client(number):
            turn = 0
            while not stop.is_set() and turn < 40:
                replies.append(self.ask(chat((number + turn) % 4, f"Question {turn}?", tokens=2, repeat=1)))
                turn += 1

        threads = [threading.Thread(target=client, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        wait_for("some replies", lambda: len(replies) >= 4, 120)
        self.c.kill("s1")
        killed_at = len(replies)
        wait_for("replies without the node", lambda: len(replies) >= killed_at + 6, 120)
        self.c.restart("s1")
        back_at = len(replies)
        wait_for("replies after its return", lambda: len(replies) >= back_at + 4, 120)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual({r.status for r in replies}, {200}, [r.body for r in replies if r.status != 200][:2])

    def test_a_replica_killed_sends_the_next_turn_to_the_other_which_loads_it(self):
        self.start_all()
        first = self.ask(chat(2, QUESTION), pin="a")
        expected = answer(first)
        self.c.wait_pushed("a", first)
        self.c.kill("engine-a")
        self.c.kill("a")
        again = self.ask(chat(2, QUESTION))
        self.assertEqual((again.headers["x-ember-replica"], again.route), ("b", "remote"))
        self.assertEqual(answer(again), expected)
        self.assertEqual(answer(self.ask(chat(2, QUESTION), RECOMPUTE)), expected)

    def test_a_router_that_starts_learns_from_the_feeds_what_no_replica_holds(self):
        """Also A17: nothing is presumed by a process that has just begun."""
        self.start_all()
        first = self.ask(chat(5, QUESTION), pin="a")
        self.c.wait_pushed("a", first)
        for name in ("engine-a", "a", "router"):
            self.c.kill(name)
        self.c.restart("router")
        self.c.wait_healthy("router")
        router = self.c.ports["router"]
        wait_for("the feeds", lambda: all(s["current"] for s in call(router, "GET", "/admin/status").json["stores"]))
        explained = call(router, "POST", "/admin/explain", chat(5, QUESTION)).json["request"]
        self.assertEqual(explained["store_tokens"], first.json["usage"]["prompt_tokens"] // 64 * 64)
        again = self.ask(chat(5, QUESTION))
        self.assertEqual((again.headers["x-ember-replica"], again.route), ("b", "remote"))
        self.assertEqual(answer(again), answer(first))
        for name in self.c.stores:
            self.c.kill(name)
        wait_for("lost nodes to be forgotten", lambda: call(router, "GET", "/admin/status").json["stores"][0]["segments"] == 0)
        self.assertEqual(call(router, "POST", "/admin/explain", chat(5, QUESTION)).json["request"]["store_tokens"], 0)

    def test_the_whole_store_lost_costs_only_time(self):
        self.start_all()
        expected = answer(self.ask(chat(3, QUESTION), pin="a"))
        for name in list(self.c.stores):
            self.c.kill(name)
        for pin in "ab":
            reply = self.ask(chat(3, QUESTION), pin=pin)
            self.assertEqual(answer(reply), expected)


@needs(*PROGRAMS)
class DemoTest(unittest.TestCase):
    def test_the_demo_keeps_its_promises(self):
        with tempfile.TemporaryDirectory() as folder:
            figures = Path(folder) / "figures.jsonl"
            done = subprocess.run(
                [ROOT / "deploy/demo", "--quick", "--json", figures, "--out", folder], stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, timeout=900)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:])
            rows = {row["metric"]: row["value"] for row in map(json.loads, figures.read_text().splitlines())}
            report = Path(folder) / "report.html"
            self.assertGreater(len(list(Path(folder).glob("*.png"))), 0)
            self.assertIn("data:image/png;base64,", report.read_text())
        self.assertEqual(
            (rows["same_after_loads"], rows["survived_kills"], rows["failed_requests"]), (1, 1, 0), done.stdout[-4000:])


if __name__ == "__main__":
    unittest.main()
