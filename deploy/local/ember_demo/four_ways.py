"""The same second turn, read in four ways: computed again, found in the replica, loaded from the
store, and loaded from the store after the warm replica and a store node were killed. Placement
is forced, so that each way is what it says.

r1 answers turn 1 and becomes warm; its answer to turn 2 leaves the store out, so that what r2 then
loads from the store is turn 1 and no more. Later r2 computes everything again with the store left
out: by then its two slots hold other conversations, so it is cold. At last r1 and s1 are killed and
restarted empty.
"""

import time

from .conversation import Conversation
from .results import FourWays, Survival

WARM, OTHER, STORE = "r1", "r2", "s1"


class FourWaysExperiment:
    def __init__(self, cluster, client, size, tell):
        """tell(text): shows progress."""
        self._cluster, self._client, self._size, self._tell = cluster, client, size, tell
        self._asked = []  # (FourWays, messages of turn 2)

    def run(self, results):
        for number in range(self._size.conversations):
            self._warm_and_other(number, results)
        for number, (item, messages) in enumerate(self._asked):
            self._second(item, messages, "recompute", OTHER, store=False)
            self._tell(
                f"computed again {number + 1}/{len(self._asked)}: "
                f"{item.second['recompute'].ttft_ms:.0f} ms"
            )
        self._kill_and_restart(results)
        for item, messages in self._asked:
            self._second(item, messages, "after kills", WARM)
            turn = item.second["after kills"]
            self._tell(
                f"after the kills, {item.conversation}: {turn.ttft_ms:.0f} ms, {turn.route}, "
                f"{turn.reused} tokens reused"
            )

    def _warm_and_other(self, number, results):
        talk = Conversation(f"four-ways-{number}", self._size.words)
        first = self._client.ask(
            talk.identity,
            1,
            "first",
            talk.messages_one(),
            max_tokens=self._size.answer_tokens,
            pin=WARM,
        )
        item = FourWays(talk.identity, first)
        results.four_ways.append(item)
        self._asked.append((item, talk.messages_two(first.answer)))
        self._client.settle(first)
        self._second(item, self._asked[-1][1], "local", WARM, store=False)
        self._second(item, self._asked[-1][1], "remote", OTHER)
        self._tell(
            f"conversation {number + 1}/{self._size.conversations}: first turn {first.ttft_ms:.0f} "
            f"ms, then "
            f"local {item.second['local'].ttft_ms:.0f} ms, remote "
            f"{item.second['remote'].ttft_ms:.0f} ms"
        )

    def _second(self, item, messages, way, replica, store=True):
        item.second[way] = self._client.ask(
            item.conversation,
            2,
            way,
            messages,
            max_tokens=self._size.answer_tokens,
            pin=replica,
            store=store,
        )

    def _kill_and_restart(self, results):
        item, messages = self._asked[0]
        self._cluster.kill(WARM, STORE)
        self._tell(
            f"killed -9: {WARM} (engine and agent) and {STORE}; asking the next turn at once"
        )
        during = self._client.ask(
            item.conversation,
            2,
            "while down",
            messages,
            max_tokens=self._size.answer_tokens,
            policy="cache_aware",
        )
        self._tell(
            f"answered by {during.replica or 'nobody'} in {during.ttft_ms:.0f} ms, "
            f"{during.route or during.error}"
        )
        start = time.monotonic()
        self._cluster.restart(STORE, WARM)
        self._client.wait_usable(WARM)
        results.survival = Survival([WARM, STORE], during, time.monotonic() - start)
        self._tell(f"both are back, empty, after {results.survival.restart_s:.1f} s")
