"""The seed's experiment: two-turn conversations with fresh ids and a long system prompt, by random,
sticky and cache-aware routing, each without and with the store. Rounds go through all six cells,
so that a slow minute of the machine falls on all of them alike, and a run that is out of time
has as many pairs in each.
"""

import time

from .conversation import Conversation
from .results import MODES, Pair

FEWEST_ROUNDS = 2
CELLS = [(mode, store) for store in (False, True) for mode in MODES]


class ModesExperiment:
    def __init__(self, client, size, tell, started):
        """tell(text): shows progress. started: the time.monotonic() that the budget counts from."""
        self._client, self._size, self._tell, self._started = client, size, tell, started

    def run(self, results):
        longest = 0.0
        for number in range(self._size.pairs):
            begin = time.monotonic()
            if number >= FEWEST_ROUNDS and begin - self._started + longest > self._size.budget_s:
                self._tell(
                    f"stopping after {number} of {self._size.pairs} rounds: the time for this size "
                    f"is used up"
                )
                return
            for mode, store in CELLS:
                results.pairs.append(self._pair(mode, store, number))
            longest = max(longest, time.monotonic() - begin)
            self._tell(
                f"round {number + 1}/{self._size.pairs} of all modes: "
                + ", ".join(
                    f"{p.mode}{'+store' if p.store else ''} {p.second.ttft_ms:.0f}"
                    for p in results.pairs[-len(CELLS) :]
                )
                + " ms"
            )

    def _pair(self, mode, store, number):
        talk = Conversation(f"{mode}-{'store' if store else 'alone'}-{number}", self._size.words)

        def ask(turn, messages):
            return self._client.ask(
                talk.identity,
                turn,
                mode,
                messages,
                max_tokens=self._size.answer_tokens,
                store=store,
                **MODES[mode],
            )

        first = ask(1, talk.messages_one())
        self._client.settle(first)
        return Pair(mode, store, first, ask(2, talk.messages_two(first.answer)))
