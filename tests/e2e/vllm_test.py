"""The router before real vLLM replicas: their KV events decide, through a reset, a kill and a restart, on either side."""

import json
import random
import signal
import unittest

import cluster
import vllm_fleet

WORDS = ("river garden window letter morning engine yellow paper winter market silent bridge travel number stone music "
         "harbor lemon forest ladder copper summer island basket thunder meadow candle bottle autumn station").split()


def text(seed, words):
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(words)) + "."


def chat(*contents):
    roles = ["system", *["user", "assistant"] * len(contents)]
    return [{"role": role, "content": content} for role, content in zip(roles, contents)]


@cluster.needs("ember-router", engine=False)
@vllm_fleet.needs_vllm()
class VllmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = vllm_fleet.VllmFleet()
        cls.addClassCleanup(cls.fleet.close)
        for name in ("v1", "v2"):
            cls.fleet.vllm(name)
        cls.fleet.await_ready("v1", "v2")
        cls.start_router()

    @classmethod
    def start_router(cls):
        cls.fleet.vllm_router("router", ["v1", "v2"])
        cluster.wait_for("both replicas to be usable", cls.all_usable)

    @classmethod
    def all_usable(cls):
        try:
            return all(r["healthy"] for r in cls.status()["replicas"])
        except OSError:
            return False

    @classmethod
    def status(cls):
        return cluster.call(cls.fleet.ports["router"], "GET", "/admin/status").json

    def ask(self, messages, **headers):
        body = {"model": vllm_fleet.NAME, "max_tokens": 4, "temperature": 0, "messages": messages}
        reply = cluster.call(self.fleet.ports["router"], "POST", "/v1/chat/completions", body,
                             {k.replace("_", "-"): v for k, v in headers.items()})
        self.assertEqual(reply.status, 200, reply.body)
        return reply

    def decision(self, reply):
        """The last decision of that request, as explain tells it."""
        wanted = reply.headers["x-ember-request-id"]
        return cluster.call(self.fleet.ports["router"], "GET", f"/admin/explain?id={wanted}").json["requests"][0]["attempts"][-1]

    def local_tokens(self, reply, replica):
        return next(c["device_tokens"] for c in self.decision(reply)["candidates"] if c["replica"] == replica)

    def held(self, messages, replica):
        """Tokens of the prompt that the router believes to be there; nothing is sent."""
        body = {"model": vllm_fleet.NAME, "messages": messages}
        explained = cluster.call(self.fleet.ports["router"], "POST", "/admin/explain", body).json["request"]["attempts"][-1]
        return next(c["device_tokens"] for c in explained["candidates"] if c["replica"] == replica)

    def blocks(self, replica):
        return next(r["blocks_held"] for r in self.status()["replicas"] if r["id"] == replica)

    def cached(self, reply):
        return reply.json["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_events_tell_the_cached_tokens_to_within_a_block(self):  # D33
        """Whatever the template is fed, what the router predicts is what the engine finds."""
        tool = {"type": "function", "function": {"name": "weather", "description": "Weather of a town",
                                                 "parameters": {"type": "object", "properties": {"town": {"type": "string"}}}}}
        for n, head in enumerate([chat(text("d33", 150)), chat("Ünïcödé 漢字 и кириллица 🙂 " * 12),
                                  [{"role": "system", "content": [{"type": "text", "text": text("parts", 150)}]}]]):
            for extra in ({}, {"tools": [tool], "tool_choice": "none"}):
                with self.subTest(head=n, extra=list(extra)):
                    messages = head + [{"role": "user", "content": f"{list(extra)} first question {n}?"}]
                    body = {"model": vllm_fleet.NAME, "max_tokens": 2, "temperature": 0, "messages": messages, **extra}
                    port = self.fleet.ports["router"]
                    first = cluster.call(port, "POST", "/v1/chat/completions", body)
                    self.assertEqual(first.status, 200, first.body)
                    replica = first.headers["x-ember-replica"]
                    body["messages"] = messages + [{"role": "assistant", "content": "Well."}, {"role": "user", "content": "And then?"}]
                    # The events of the first answer are on their way: until then the decision itself is presumed to be held.
                    second = cluster.call(port, "POST", "/v1/chat/completions", body)
                    self.assertEqual(second.headers["x-ember-replica"], replica)
                    self.assertLessEqual(abs(self.cached(second) - self.local_tokens(second, replica)), vllm_fleet.BLOCK)
                    self.assertGreater(self.cached(second), 0)

    def test_a_reset_cache_is_known_to_be_empty(self):  # A8
        messages = chat(text("reset", 300), "Question?")
        first = self.ask(messages)
        replica = first.headers["x-ember-replica"]
        cluster.wait_for("the events", lambda: self.blocks(replica) > 0)
        self.assertEqual(cluster.call(self.fleet.ports[replica], "POST", "/reset_prefix_cache").status, 200)
        # vLLM tells with its next step, not before.
        self.ask(chat(text("step", 60), "Question?"), x_ember_pin=replica)
        cluster.wait_for("the cleared event", lambda: self.held(messages, replica) == 0)
        reply = self.ask(messages)
        self.assertEqual(self.local_tokens(reply, replica), 0)
        self.assertEqual(self.cached(reply), 0)

    def test_the_router_knows_what_the_replicas_held_before_it_started(self):  # A17
        messages = chat(text("warm", 300), "Question?")
        replica = self.ask(messages).headers["x-ember-replica"]
        cluster.wait_for("the events", lambda: self.blocks(replica) > 0)
        cluster.wait_for("all of them", lambda: self.held(messages, replica) > 0)
        held = {r: self.held(messages, r) for r in ("v1", "v2")}
        self.fleet.kill("router")
        self.start_router()
        for name, tokens in held.items():
            cluster.wait_for(f"what {name} holds", lambda: self.held(messages, name) == tokens, timeout=5)
        again = self.ask(messages)
        self.assertEqual(again.headers["x-ember-replica"], replica)
        self.assertGreater(self.local_tokens(again, replica), 0)
        self.assertGreater(self.cached(again), 0)

    def test_a_killed_replica_is_left_and_comes_back_empty(self):  # A7
        messages = chat(text("kill", 300), "Question?")
        first = self.ask(messages, x_ember_pin="v1")
        self.assertEqual(first.headers["x-ember-replica"], "v1")
        cluster.wait_for("the events", lambda: self.blocks("v1") > 0)
        self.fleet.kill("v1")
        other = self.ask(messages)
        self.assertEqual(other.headers["x-ember-replica"], "v2")
        self.fleet.restart("v1")
        self.fleet.await_ready("v1")
        cluster.wait_for("v1 to be usable", self.all_usable)
        self.assertEqual(self.held(messages, "v1"), 0)
        self.assertGreater(self.local_tokens(self.ask(messages), "v2"), 0)
        self.ask(chat(text("after", 300), "Question?"), x_ember_pin="v1")
        cluster.wait_for("events of the new life", lambda: self.blocks("v1") > 0)

    def test_a_frozen_router_holds_no_engine_up(self):
        """It takes no event for a while; the engine goes on, and what it told meanwhile is known as soon as the router wakes up."""
        asked = [chat(text(f"frozen {n}", 200), "Question?") for n in range(4)]
        router = self.fleet.processes["router"]
        router.send_signal(signal.SIGSTOP)
        try:
            for messages in asked:
                body = {"model": vllm_fleet.NAME, "max_tokens": 2, "messages": messages}
                reply = cluster.call(self.fleet.ports["v2"], "POST", "/v1/chat/completions", body, timeout=60)
                self.assertEqual(reply.status, 200, reply.body)
        finally:
            router.send_signal(signal.SIGCONT)
        for messages in asked:
            cluster.wait_for("what the engine told meanwhile", lambda: self.held(messages, "v2") > 0, timeout=10)

    def test_salts_do_not_mix(self):  # B3
        messages = chat(text("salt", 300), "Question?")
        body = {"model": vllm_fleet.NAME, "max_tokens": 2, "messages": messages, "cache_salt": "one"}
        port = self.fleet.ports["router"]
        first = cluster.call(port, "POST", "/v1/chat/completions", body)
        replica = first.headers["x-ember-replica"]
        for salt, cached in (("one", True), ("two", False)):
            reply = cluster.call(port, "POST", "/v1/chat/completions", {**body, "cache_salt": salt}, {"x-ember-pin": replica})
            self.assertEqual(self.local_tokens(reply, replica) > 0, cached, salt)
            self.assertEqual(self.cached(reply) > 0, cached, salt)


if __name__ == "__main__":
    unittest.main()
