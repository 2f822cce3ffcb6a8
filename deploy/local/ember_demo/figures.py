"""Pure functions from Results to figures: samples, the named metrics, and the checks of what was
promised.
"""

import dataclasses
import math
import statistics

from .results import MODES, PLACES, Results

REMOTE_SHARE_LIMIT = 0.2  # remote load against recompute, for prefixes of 1,000 tokens and more
OVERHEAD_LIMIT_MS = 60.0  # match + transfer + rebuild for such a prefix
# Of the prompt: a load ends at a segment's edge, so a partial segment and the question remain.
REUSED_WHEN_LOADED = 0.8
OVERHEAD_PARTS = ("match_ms", "transfer_ms", "rebuild_ms")
LOAD_PARTS = OVERHEAD_PARTS + ("restore_ms",)


@dataclasses.dataclass(frozen=True)
class Sample:
    values: tuple

    @staticmethod
    def of(values):
        return Sample(tuple(sorted(values)))

    def __len__(self):
        return len(self.values)

    @property
    def median(self):
        return statistics.median(self.values) if self.values else math.nan

    @property
    def p95(self):
        """Nearest rank: a value that was measured, not one in between."""
        return (
            self.values[max(0, math.ceil(0.95 * len(self.values)) - 1)] if self.values else math.nan
        )

    @property
    def mean(self):
        return statistics.fmean(self.values) if self.values else math.nan

    @property
    def spread(self):
        return [self.values[0], self.values[-1]] if self.values else []


def ttft(turns):
    return Sample.of(t.ttft_ms for t in turns if t.ok)


def second_turns(results, mode, store):
    return [p.second for p in results.cell(mode, store)]


def overhead(results):
    """Our part of each remote load, in ms; empty when the agents did not report it."""
    turns = results.way("remote") + results.way("after kills")
    return Sample.of(
        sum(t.work[part] for part in OVERHEAD_PARTS)
        for t in turns
        if t.route == "remote" and all(part in t.work for part in OVERHEAD_PARTS)
    )


def equal_answers(results):
    return Sample.of(float(f.answers_equal()) for f in results.four_ways)


def same_after_loads(results):
    return Sample.of(float(f.loads_change_nothing()) for f in results.four_ways)


def survived_kills(results):
    """1 for each turn after the kills that the restarted replica answered from the store, else
    0.
    """
    turns = [f.second.get("after kills") for f in results.four_ways]
    return Sample.of(
        float(t is not None and t.ok and t.reused >= REUSED_WHEN_LOADED * t.prompt) for t in turns
    )


def loads(results):
    """{mode: {store: {replica: [requests, prefilled tokens]}}} over both turns."""
    table = {}
    for pair in results.pairs:
        cell = table.setdefault(pair.mode, {}).setdefault(pair.store, {})
        for turn in (pair.first, pair.second):
            entry = cell.setdefault(turn.replica, [0, 0])
            entry[0] += 1
            entry[1] += turn.computed
    return table


def metrics(results: Results):
    """One dict a figure, in the form of --json. A figure that could not be measured is left out."""
    samples = {f"ttft_{way}_ms": ttft(results.way(way)) for way in ("local", "remote", "recompute")}
    samples["ttft_after_kills_ms"] = ttft(results.way("after kills"))
    for mode in MODES:  # the plain names are the seed's own experiment: without the store
        samples[f"ttft_{mode}_ms"] = ttft(second_turns(results, mode, False))
        samples[f"ttft_{mode}_store_ms"] = ttft(second_turns(results, mode, True))
    samples["remote_overhead_ms"] = overhead(results)
    rows = [_row(name, s.median, "ms", s) for name, s in samples.items() if s.values]
    for name, sample in (
        ("equal_answers", equal_answers(results)),
        ("same_after_loads", same_after_loads(results)),
        ("survived_kills", survived_kills(results)),
    ):
        if sample.values:
            rows.append(_row(name, sample.mean, "share", sample))
    failed = len(results.failed())
    rows.append(
        {
            "metric": "failed_requests",
            "value": failed,
            "unit": "requests",
            "n": len(results.turns),
            "spread": [failed, failed],
        }
    )
    return [{**row, "system": "emberkv", "size": results.size.name} for row in rows]


def _row(name, value, unit, sample):
    return {
        "metric": name,
        "value": round(value, 3),
        "unit": unit,
        "n": len(sample),
        "spread": [round(v, 3) for v in sample.spread],
    }


@dataclasses.dataclass(frozen=True)
class Check:
    promise: str
    measured: str
    ok: bool
    decisive: (
        bool  # a broken one fails the demo; the others are the machine's or the engine's to spoil
    )


def checks(results: Results):
    return [*_answer_checks(results), *_time_checks(results)]


def _answer_checks(results):
    failed, equal, survived = len(results.failed()), equal_answers(results), survived_kills(results)
    yield Check(
        "no request failed, kills included",
        f"{failed} of {len(results.turns)} failed",
        failed == 0,
        True,
    )
    yield Check(
        "greedy answers are equal in all four ways",
        f"{sum(equal.values):.0f} of {len(equal)} conversations",
        equal.mean == 1,
        False,
    )
    same = same_after_loads(results)
    yield Check(
        "what was loaded answers as the engine does by itself",
        f"{sum(same.values):.0f} of {len(same)} conversations",
        same.mean == 1,
        True,
    )
    yield Check(
        "after the kills the store has every prefix",
        f"{sum(survived.values):.0f} of {len(survived)} turns loaded",
        survived.mean == 1,
        True,
    )
    # A request that another replica answered, or that came from elsewhere, would make the times lies.
    placed = sum(len(results.way(way)) for way in PLACES)
    wrong = [
        f"{way} was {turn.route or 'nothing'} on {turn.replica or 'nobody'}"
        for way, expected in PLACES.items()
        for turn in results.way(way)
        if (turn.replica, turn.route) != expected
    ]
    yield Check(
        "each way has its replica and route",
        f"{len(wrong)} of {placed} have not"
        + (f": {wrong[0]}" if wrong else ""),
        placed > 0 and not wrong,
        True,
    )


def _time_checks(results):
    local, remote, recompute = (
        ttft(results.way(way)).median for way in ("local", "remote", "recompute")
    )
    yield Check(
        "local hit < remote load < recompute",
        f"{local:.0f} < {remote:.0f} < {recompute:.0f} ms",
        local < remote < recompute,
        False,
    )
    yield Check(
        f"remote load <= {REMOTE_SHARE_LIMIT} x recompute",
        f"{remote / recompute:.2f} x",
        remote <= REMOTE_SHARE_LIMIT * recompute,
        False,
    )
    ours = overhead(results)
    yield Check(
        f"our part of a load <= {OVERHEAD_LIMIT_MS:.0f} ms",
        (
            f"{ours.median:.1f} ms (median of {len(ours)})"
            if ours.values
            else "not reported by the agents"
        ),
        bool(ours.values) and ours.median <= OVERHEAD_LIMIT_MS,
        False,
    )
    turns = second_turns(results, "cache_aware", True)
    worst = max((t.computed / t.prompt for t in turns if t.prompt), default=math.nan)
    yield Check(
        "cache_aware + store: no second turn pays a full prefill",
        f"{100 * worst:.0f} % computed at most",
        worst < 0.5,
        False,
    )
