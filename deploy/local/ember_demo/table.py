"""The results as a table for the terminal, at most 100 columns wide."""

import math

from . import figures
from .results import MODES, WAYS

WIDTH = 100


def render(results):
    return "\n".join([*_ways(results), "", *_modes(results), "", *_checks(results)])


def _rule(title):
    return f"── {title} " + "─" * max(0, WIDTH - len(title) - 4)


def _number(value, digits=0):
    return "–" if math.isnan(value) else f"{value:,.{digits}f}"


def _ways(results):
    yield _rule(
        f"the same second turn, read in four ways ({len(results.four_ways)} conversations; TTFT in "
        f"ms)"
    )
    yield (
        f"{'way':<13}{'median':>8}{'p95':>8}{'computed':>10}{'reused':>8}{'loaded':>10}   "
        "match / transfer / rebuild / restore"
    )
    for way in WAYS:
        turns = results.way(way)
        sample = figures.ttft(turns)
        computed, reused = (
            figures.Sample.of(getattr(t, k) for t in turns).median for k in ("computed", "reused")
        )
        yield (
            f"{way:<13}{_number(sample.median):>8}{_number(sample.p95):>8}"
            f"{_number(computed):>10}{_number(reused):>8}"
            f"{_loaded(turns):>10}   {_parts(turns)}"
        ).rstrip()


def _loaded(turns):
    loaded = figures.Sample.of(t.work["bytes"] / 1e6 for t in turns if t.work.get("bytes"))
    return f"{loaded.median:.1f} MB" if loaded.values else ""


def _parts(turns):
    loaded = [t for t in turns if t.work.get("bytes")]
    if not loaded:
        return ""
    return (
        " / ".join(
            _number(figures.Sample.of(t.work.get(p, 0.0) for t in loaded).median, 1)
            for p in figures.LOAD_PARTS
        )
        + " ms"
    )


def _modes(results):
    pairs = max((len(results.cell(m, s)) for m in MODES for s in (False, True)), default=0)
    yield _rule(f"second turns by routing mode ({pairs} conversations each; TTFT in ms)")
    yield (
        f"{'mode':<13}{'store':<6}{'median':>8}{'p95':>8}{'computed':>10}{'reused':>8}   "
        "requests / tokens prefilled, per replica"
    )
    loads = figures.loads(results)
    for store in (False, True):
        for mode in MODES:
            turns = [t for t in figures.second_turns(results, mode, store) if t.ok]
            sample = figures.ttft(turns)
            computed, reused = (
                figures.Sample.of(getattr(t, k) for t in turns).mean for k in ("computed", "reused")
            )
            load = "   ".join(
                f"{replica or '?'}: {requests} / {tokens:,}"
                for replica, (requests, tokens) in sorted(
                    loads.get(mode, {}).get(store, {}).items()
                )
            )
            yield (
                f"{mode:<13}{'on' if store else 'off':<6}"
                f"{_number(sample.median):>8}{_number(sample.p95):>8}"
                f"{_number(computed):>10}{_number(reused):>8}   {load}"
            ).rstrip()


def _checks(results):
    yield _rule("checks")
    for check in figures.checks(results):
        yield f"{'ok ' if check.ok else 'NO '} {check.promise:<56} {check.measured}"
