"""The results as a table for the terminal, at most 100 columns wide."""

from . import figures
from .results import MODES, WAYS

WIDTH = 100


def render(results):
    return "\n".join([*_ways(results), "", *_modes(results), "", *_checks(results)])


def _rule(title):
    return f"── {title} " + "─" * max(0, WIDTH - len(title) - 4)


def _number(value, digits=0):
    return "–" if value != value else f"{value:,.{digits}f}"


def _ways(results):
    yield _rule(f"the same second turn, read in four ways ({len(results.four_ways)} conversations)")
    yield f"{'way':<14}{'TTFT median':>13}{'p95':>9}{'computed':>11}{'reused':>9}{'loaded':>11}   match / transfer / rebuild / restore"
    for way in WAYS:
        turns = results.way(way)
        sample = figures.ttft(turns)
        computed, reused = (figures.Sample.of(getattr(t, k) for t in turns).median for k in ("computed", "reused"))
        yield (f"{way:<14}{_number(sample.median):>10} ms{_number(sample.p95):>6} ms{_number(computed):>11}{_number(reused):>9}"
               f"{_loaded(turns):>11}   {_parts(turns)}")


def _loaded(turns):
    loaded = figures.Sample.of(t.work["bytes"] / 1e6 for t in turns if t.work.get("bytes"))
    return f"{loaded.median:.1f} MB" if loaded.values else ""


def _parts(turns):
    loaded = [t for t in turns if t.work.get("bytes")]
    if not loaded:
        return ""
    return " / ".join(_number(figures.Sample.of(t.work.get(p, 0.0) for t in loaded).median, 1) for p in figures.LOAD_PARTS) + " ms"


def _modes(results):
    pairs = max((len(results.cell(m, s)) for m in MODES for s in (False, True)), default=0)
    yield _rule(f"second turns by routing mode ({pairs} conversations each)")
    yield f"{'mode':<14}{'store':<7}{'TTFT median':>12}{'p95':>11}{'computed':>11}{'reused':>9}   requests and prefilled tokens per replica"
    loads = figures.loads(results)
    for store in (False, True):
        for mode in MODES:
            turns = [t for t in figures.second_turns(results, mode, store) if t.ok]
            sample = figures.ttft(turns)
            computed, reused = (figures.Sample.of(getattr(t, k) for t in turns).mean for k in ("computed", "reused"))
            per_replica = loads.get(mode, {}).get(store, {})
            load = "  ".join(f"{r or '?'}: {n} / {tokens:,}" for r, (n, tokens) in sorted(per_replica.items()))
            yield (f"{mode:<14}{'on' if store else 'off':<7}{_number(sample.median):>9} ms{_number(sample.p95):>8} ms"
                   f"{_number(computed):>11}{_number(reused):>9}   {load}")


def _checks(results):
    yield _rule("checks")
    for check in figures.checks(results):
        yield f"{'ok ' if check.ok else 'NO '} {check.promise:<56} {check.measured}"
