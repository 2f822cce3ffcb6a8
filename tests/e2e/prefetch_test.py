#!/usr/bin/env python3
"""A prefix is received from the store while its request waits for the only slot of a real engine."""

import http.client
import json
import subprocess
import threading
import unittest

from agent_test import QUESTION, RECOMPUTE, answer, chat
from cluster import BIN, call, needs, wait_for
from main_job_test import PROGRAMS, WithRouter

TRANSFERRED = 'ember_agent_prefetches_total{outcome="transferred"}'
ACCEPTED = 'ember_router_prefetches_total{outcome="accepted"}'


@needs(*PROGRAMS, "ember")
class PrefetchTest(WithRouter):
    def occupy(self, replica):
        """A stream that keeps the replica's only slot until it is closed."""
        body = chat(7, "Tell me everything.", tokens=4000, repeat=1, stream=True, ignore_eos=True)
        connection = http.client.HTTPConnection("127.0.0.1", self.c.ports["router"], timeout=120)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"x-ember-pin": replica, "x-ember-store": "off"})
        connection.getresponse().read1(1)
        return connection

    def test_a_request_that_waits_finds_its_prefix_received_and_answers_the_same(self):
        self.start_all(slots=1)
        first = self.ask(chat(0, QUESTION), pin="a")
        expected = answer(first)
        self.c.wait_pushed("a", first)
        stream = self.occupy("b")
        waiting = []
        thread = threading.Thread(target=lambda: waiting.append(self.ask(chat(0, QUESTION), pin="b")))
        thread.start()
        wait_for("the transfer", lambda: self.c.metric("b", TRANSFERRED) == 1)
        self.assertEqual(self.c.metric("b", "ember_agent_slots_busy"), 1)
        self.assertEqual(waiting, [], "the slot is not free yet")
        stream.close()
        thread.join()
        reply = waiting[0]
        self.assertEqual((reply.headers["x-ember-replica"], reply.route), ("b", "remote"))
        self.assertEqual(answer(reply), expected)
        record = self.c.record("b", reply)
        self.assertEqual(record["engine_cached"], reply.cached)
        self.assertEqual(record["prefetched_segments"], reply.cached // 64)
        self.assertEqual(record["bytes_loaded"], 0)
        self.assertGreater(record["prefetch_lead_ms"], 0)
        self.assertEqual(self.c.metric("router", ACCEPTED), 1)
        self.assertEqual(answer(self.ask(chat(0, QUESTION), RECOMPUTE, pin="b")), expected)

    def test_a_purge_while_the_request_waits_is_obeyed(self):
        self.start_all(slots=1)
        first = self.ask(chat(1, QUESTION), pin="a")
        self.c.wait_pushed("a", first)
        stream = self.occupy("b")
        waiting = []
        thread = threading.Thread(target=lambda: waiting.append(self.ask(chat(1, QUESTION), pin="b")))
        thread.start()
        wait_for("the transfer", lambda: self.c.metric("b", TRANSFERRED) == 1)
        namespace = call(self.c.ports["b"], "GET", "/ember/held").json["namespace"]
        nodes = ",".join(f"127.0.0.1:{self.c.ports[name + '.grpc']}" for name in self.c.stores)
        subprocess.run([BIN / "ember", "purge", "--namespace", namespace, "--store-grpc", nodes], check=True, stdout=subprocess.DEVNULL)
        stream.close()
        thread.join()
        self.assertEqual(waiting[0].route, "recompute")
        self.assertEqual(answer(waiting[0]), answer(first))
        self.assertEqual(self.c.metric("b", "ember_agent_prefetch_used_bytes_total"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
