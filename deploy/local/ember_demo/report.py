"""The HTML report: one file that needs nothing beside it, and the plots as PNG files next to it."""

import base64
import html
import math
import os
import pathlib

from . import figures
from .results import MODES, WAYS

STYLE = pathlib.Path(__file__).with_name("report.css").read_text(encoding="utf-8")


def write(results, folder, images):
    """images: {plot name: path of a PNG}, as plots.draw_all makes them. Returns the report's
    path.
    """
    path = os.path.abspath(os.path.join(folder, "report.html"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(render(results, {name: _inline(image) for name, image in images.items()}))
    return path


def _inline(path):
    with open(path, "rb") as file:
        return "data:image/png;base64," + base64.b64encode(file.read()).decode()


def render(results, images):
    """images: {plot name: src}."""
    parts = [
        _section(
            "The same second turn, read in four ways",
            _ways_text(results),
            images["ways"],
            "TTFT by way",
            _ways_table(results),
        ),
        _section(
            "What a remote load spends its time on",
            _breakdown_text(results),
            images["breakdown"],
            "time of a remote load",
        ),
        _section(
            "Routing, without and with the store",
            "Two-turn conversations with fresh ids and a long system prompt. "
            "Random routing (<code>?sticky=0</code>) meets a cold replica about every other time; "
            "stickiness avoids that; "
            "with the store a cold replica loads instead of computing.",
            images["modes"],
            "TTFT by mode",
            _modes_table(results),
        ),
        _section(
            "Tokens computed and reused", _tokens_text(results), images["tokens"], "tokens by mode"
        ),
        _section(
            "Load per replica",
            "Prompt tokens that each replica prefilled, both turns together; the number above a "
            "bar is its "
            "requests. What stickiness costs shows here: it can't move work away from a busy "
            "replica.",
            images["load"],
            "load",
        ),
        _section("Survival", _survival_text(results), None, "", _survival_table(results)),
        _section(
            "Truth",
            f"Greedy answers of {len(results.four_ways)} conversations, read in all four ways, "
            f"compared byte for byte. "
            "(The model is small and often wrong; what matters here is that it says the same.) Where "
            "two words are nearly as likely, the engine alone can answer differently computed again "
            "and continued in its own memory; a load must give one of those two.",
            None,
            "",
            _truth_table(results),
        ),
        _section("What was promised", "", None, "", _checks_table(results)),
        _section("Machine and settings", "", None, "", _settings_table(results)),
    ]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
        f"content='width=device-width'><title>EmberKV demo</title>"
        f"<style>{STYLE}</style><main><h1>EmberKV: one prompt, computed once</h1><p "
        f"class=lead>{headline(results)}</p>"
        f"{_tiles(results)}{''.join(parts)}<footer>Made by <code>deploy/demo</code>. Times are "
        f"taken by the client, from the request sent to "
        f"the first piece of the answer; tokens are the engine's own "
        f"counts.</footer></main></html>\n"
    )


def headline(results):
    """One sentence with the measured figures."""
    local, remote, recompute = (
        figures.ttft(results.way(way)) for way in ("local", "remote", "recompute")
    )
    if not (local.values and remote.values and recompute.values):
        return "The run did not get far enough to compare the ways."
    prompt = figures.Sample.of(t.prompt for t in results.way("recompute")).median
    return (
        f"With {prompt:,.0f} prompt tokens, the second turn's first token took "
        f"<b>{local.median:,.0f} ms</b> on the replica that had them, "
        f"<b>{remote.median:,.0f} ms</b> on another one that loaded them from the store, and "
        f"<b>{recompute.median:,.0f} ms</b> on one "
        f"that had to compute them: the store makes a cold replica "
        f"<b>{recompute.median / remote.median:.1f} times</b> as fast."
    )


def _tiles(results):
    remote, recompute = (figures.ttft(results.way(way)).median for way in ("remote", "recompute"))
    equal, survived, ours = (
        figures.equal_answers(results),
        figures.survived_kills(results),
        figures.overhead(results),
    )
    tiles = (
        (
            "–" if math.isnan(remote / recompute) else f"{remote / recompute:.2f} ×",
            "remote load, of recompute",
        ),
        (
            f"{ours.median:.1f} ms" if ours.values else "–",
            "our part of a load: match, transfer, rebuild",
        ),
        (
            f"{sum(equal.values):.0f} of {len(equal)}",
            "conversations with equal answers in all ways",
        ),
        (
            f"{sum(survived.values):.0f} of {len(survived)}",
            f"turns loaded after the kills; {len(results.failed())} requests failed",
        ),
    )
    return (
        "<div class=tiles>"
        + "".join(f"<div class=tile><b>{a}</b><span>{b}</span></div>" for a, b in tiles)
        + "</div>"
    )


def _section(title, text, image, alt, table=""):
    picture = f"<img src='{image}' alt='{html.escape(alt)}'>" if image else ""
    return f"<section><h2>{title}</h2>{f'<p>{text}</p>' if text else ''}{picture}{table}</section>"


def _table(header, rows):
    """Cells that are tuples are (text, class)."""

    def cell(tag, value):
        text, kind = value if isinstance(value, tuple) else (value, "")
        return f"<{tag}{f' class={kind}' if kind else ''}>{text}</{tag}>"

    lines = ["".join(cell("th", h) for h in header)] + [
        "".join(cell("td", c) for c in row) for row in rows
    ]
    return (
        "<div class=wide><table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table></div>"
    )


def _n(value, digits=0):
    return ("–" if math.isnan(value) else f"{value:,.{digits}f}", "n")


def _median(turns, attribute):
    return figures.Sample.of(getattr(t, attribute) for t in turns).median


def _ways_text(results):
    return (
        "Placement is forced: the warm replica, another replica with the store, the same one "
        "without it, and the warm replica again "
        f"after it and a store node were killed and restarted empty (by then the store has the "
        f"second turn's tokens too). Medians of {len(results.four_ways)} conversations."
    )


def _ways_table(results):
    rows = []
    for way in WAYS:
        turns = results.way(way)
        sample = figures.ttft(turns)
        megabytes = figures.Sample.of(t.work["bytes"] / 1e6 for t in turns if t.work.get("bytes"))
        rows.append(
            [
                way,
                _n(sample.median),
                _n(sample.p95),
                _n(_median(turns, "computed")),
                _n(_median(turns, "reused")),
                _n(megabytes.median, 1),
            ]
        )
    return _table(
        [
            "way",
            ("TTFT median, ms", "n"),
            ("p95, ms", "n"),
            ("computed", "n"),
            ("reused", "n"),
            ("loaded, MB", "n"),
        ],
        rows,
    )


def _breakdown_text(results):
    ours = figures.overhead(results)
    if not ours.values:
        return "The agents reported no times for these requests."
    return (
        f"Match, transfer and rebuild are EmberKV's part: {ours.median:.1f} ms in the median "
        f"({ours.values[0]:.1f} to {ours.values[-1]:.1f}). "
        f"The rest is the engine reading the slot file and prefilling the tokens after the last "
        f"whole segment."
    )


def _modes_table(results):
    rows, loads = [], figures.loads(results)
    for mode in MODES:
        for store in (False, True):
            turns = [t for t in figures.second_turns(results, mode, store) if t.ok]
            sample = figures.ttft(turns)
            routes = ", ".join(
                f"{sum(t.route == r for t in turns)} {r}"
                for r in ("local", "remote", "recompute")
                if any(t.route == r for t in turns)
            )
            load = ", ".join(
                f"{html.escape(r or '?')}: {n}"
                for r, (n, _) in sorted(loads.get(mode, {}).get(store, {}).items())
            )
            rows.append(
                [
                    mode,
                    "on" if store else "off",
                    _n(len(turns)),
                    _n(sample.median),
                    _n(sample.p95),
                    (routes, "w"),
                    (load, "w"),
                ]
            )
    return _table(
        [
            "mode",
            "store",
            ("turns", "n"),
            ("median, ms", "n"),
            ("p95, ms", "n"),
            "it came from",
            "requests",
        ],
        rows,
    )


def _tokens_text(results):
    turns = [t for t in figures.second_turns(results, "sticky", False) if t.ok]
    cold = [t for t in figures.second_turns(results, "random", False) if t.ok]
    if not turns or not cold:
        return ""
    reused, computed = (_median(turns, k) for k in ("reused", "computed"))
    return (
        f"The arithmetic of a second turn on real counts: it is {reused:,.0f} tokens of history + "
        f"{computed:,.0f} new ones. A replica that has "
        f"the history computes {computed:,.0f}, a cold one {reused + computed:,.0f}; random "
        f"routing without the store computed "
        f"{figures.Sample.of(t.computed for t in cold).mean:,.0f} on average."
    )


def _survival_text(results):
    event = results.survival
    if not event:
        return "The run ended before the kills."
    during = event.during
    answered = (
        f"was answered by {html.escape(during.replica)} after {during.ttft_ms:,.0f} ms "
        f"({during.route})"
        if during.ok
        else f"failed: {html.escape(during.error)}"
    )
    return (
        f"KILL -9 of {html.escape(' and '.join(event.killed))}: the warm replica with its agent, "
        f"and one store node of three. The next turn, asked at "
        f"once, {answered}. Both came back empty after {event.restart_s:.1f} s; then the restarted "
        f"replica was asked for every conversation."
    )


def _survival_table(results):
    rows = []
    for item in results.four_ways:
        turn = item.second.get("after kills")
        if turn is not None:
            rows.append(
                [
                    html.escape(item.conversation),
                    html.escape(turn.replica),
                    html.escape(turn.route or turn.error),
                    _n(turn.ttft_ms),
                    _n(turn.reused),
                    _n(turn.computed),
                    _n(turn.work.get("bytes", 0) / 1e6, 1),
                ]
            )
    return _table(
        [
            "conversation",
            "answered by",
            "from",
            ("TTFT, ms", "n"),
            ("reused", "n"),
            ("computed", "n"),
            ("loaded, MB", "n"),
        ],
        rows,
    )


def _mark(ok):
    return ("yes", "good") if ok else ("no", "bad")


def _checks_table(results):
    return _table(
        ["promise", "measured", "kept"],
        [
            [html.escape(c.promise), html.escape(c.measured), _mark(c.ok)]
            for c in figures.checks(results)
        ],
    )


def _truth_table(results):
    rows = []
    for item in results.four_ways:
        answers = [item.second[way].answer if way in item.second else "" for way in WAYS]
        shown = (
            html.escape(answers[0])
            if item.answers_equal()
            else "<br>".join(
                f"{way}: {html.escape(a) or '(none)'}" for way, a in zip(WAYS, answers)
            )
        )
        rows.append(
            [html.escape(item.conversation), _mark(item.answers_equal()), (shown, "answer")]
        )
    return _table(["conversation", "equal", "answer to the second turn"], rows)


def _settings_table(results):
    size = results.size
    settings = {
        **results.machine,
        "engine options": "one thread a replica, 2 slots, unified KV cache, flash attention",
        "size": f"{size.name}: {size.conversations} conversations in four ways, up to {size.pairs} "
        f"pairs a mode, {size.answer_tokens} answer tokens",
        "store": f"3 nodes, {size.memory} of memory each, two copies",
        "requests": f"{len(results.turns)} in {results.experiment_s:,.0f} s",
    }
    return _table([], [[html.escape(k), html.escape(str(v))] for k, v in settings.items()])
