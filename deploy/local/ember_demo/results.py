"""What a run of the demo produced: plain data, filled by the experiments, read by figures and the
report.
"""

import dataclasses

from .chat import Turn

# The modes of the seed's experiment: name -> how a request asks for it.
MODES = {
    "random": {"sticky": False},
    "sticky": {"policy": "sticky"},
    "cache_aware": {"policy": "cache_aware"},
}
# The ways of reading the same second turn.
WAYS = ("recompute", "local", "remote", "after kills")
# Where each of them must have been answered, and from what: (replica, route).
PLACES = {
    "recompute": ("r2", "recompute"),
    "local": ("r1", "local"),
    "remote": ("r2", "remote"),
    "after kills": ("r1", "remote"),
}


@dataclasses.dataclass(frozen=True)
class Size:
    """How much is asked. words: of the system prompt; budget_s: the mode experiment starts no new
    round after that.
    """

    name: str
    conversations: int
    pairs: int
    words: int
    answer_tokens: int
    budget_s: float
    memory: str


SIZES = {
    "quick": Size(
        "quick", conversations=3, pairs=1, words=260, answer_tokens=16, budget_s=60, memory="256MiB"
    ),
    "default": Size(
        "default",
        conversations=4,
        pairs=6,
        words=780,
        answer_tokens=20,
        budget_s=300,
        memory="512MiB",
    ),
    "full": Size(
        "full",
        conversations=20,
        pairs=20,
        words=1530,
        answer_tokens=24,
        budget_s=7200,
        memory="1536MiB",
    ),
}


@dataclasses.dataclass
class FourWays:
    """One conversation whose second turn was answered in each of WAYS."""

    conversation: str
    first: Turn
    second: dict = dataclasses.field(default_factory=dict)  # way -> Turn

    def answers_equal(self):
        """False too when a way is missing or failed."""
        turns = [self.second.get(way) for way in WAYS]
        return all(t is not None and t.ok for t in turns) and len({t.answer for t in turns}) == 1

    def loads_change_nothing(self):
        """Each answer after a load is one that the engine gives without EmberKV: computed again, or
        continued in its own memory. Those two can differ by themselves where two tokens are nearly
        as likely, because the engine's sums are ordered by its batches' shapes.
        """
        own = {t.answer for way in ("recompute", "local") if (t := self.second.get(way)) and t.ok}
        loaded = [self.second.get(way) for way in ("remote", "after kills")]
        return all(t is not None and t.ok and t.answer in own for t in loaded)


@dataclasses.dataclass
class Pair:
    """Both turns of one conversation of the mode experiment."""

    mode: str
    store: bool
    first: Turn
    second: Turn


@dataclasses.dataclass
class Survival:
    killed: list
    during: Turn  # asked at once after the kills, while both are down
    restart_s: float  # from starting the killed processes to all of them ready


@dataclasses.dataclass
class Results:
    size: Size
    machine: dict
    four_ways: list = dataclasses.field(default_factory=list)
    pairs: list = dataclasses.field(default_factory=list)
    survival: Survival | None = None
    turns: list = dataclasses.field(default_factory=list)  # every request that was made, in order
    experiment_s: float = 0.0

    def way(self, name):
        """The successful second turns that were read this way."""
        turns = [f.second.get(name) for f in self.four_ways]
        return [t for t in turns if t is not None and t.ok]

    def cell(self, mode, store):
        return [p for p in self.pairs if p.mode == mode and p.store == store]

    def failed(self):
        return [t for t in self.turns if not t.ok]
