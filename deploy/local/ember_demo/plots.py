"""The report's plots. Each function draws Results into one figure; draw_all saves them as PNG
files.
"""

import math
import os

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from . import figures
from .results import MODES, WAYS

INK, FAINT = "#22303c", "#d5dce3"
WAY_COLOURS = {
    "recompute": "#c8553d",
    "local": "#2a8f6d",
    "remote": "#2b6cb0",
    "after kills": "#6b4fa0",
}
ROUTE_COLOURS = {way: WAY_COLOURS[way] for way in ("recompute", "remote", "local")}
STORE_COLOURS = {False: "#b4bfc9", True: "#a9c6e3"}
COMPUTED, REUSED = "#c8553d", "#8cc5ae"
PART_COLOURS = {
    "tokenize_ms": "#8c96a0",
    "match_ms": "#f2b134",
    "transfer_ms": "#2b6cb0",
    "rebuild_ms": "#7fb3dd",
    "restore_ms": "#6b4fa0",
    "rest": "#d5dce3",
}
PART_NAMES = {
    "tokenize_ms": "template and tokens",
    "match_ms": "match in the store",
    "transfer_ms": "transfer",
    "rebuild_ms": "rebuild the slot file",
    "restore_ms": "engine restores it",
    "rest": "prefill of the new tokens, first token, HTTP",
}
STYLE = {
    "font.size": 10.5,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def draw_all(results, folder):
    """Returns {name: path} of the PNG files written."""
    paths = {}
    with matplotlib.rc_context(STYLE):
        for name, draw in (
            ("ways", ways),
            ("modes", modes),
            ("tokens", tokens),
            ("load", load),
            ("breakdown", breakdown),
        ):
            figure = draw(results)
            paths[name] = os.path.join(folder, f"{name}.png")
            figure.savefig(paths[name], dpi=160, facecolor="white")
    return paths


def _axes(width, height):
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.tick_params(length=0)
    return figure, axes


def _dots(axes, positions, samples, horizontal):
    for position, sample in zip(positions, samples):
        values, same = list(sample.values), [position] * len(sample)
        axes.scatter(
            *((values, same) if horizontal else (same, values)),
            s=13,
            color=INK,
            alpha=0.55,
            zorder=3,
            linewidths=0,
        )


def ways(results):
    figure, axes = _axes(7.6, 2.7)
    samples = [figures.ttft(results.way(way)) for way in WAYS]
    rows = range(len(WAYS))
    axes.barh(rows, [s.median for s in samples], color=[WAY_COLOURS[w] for w in WAYS], height=0.62)
    _dots(axes, rows, samples, horizontal=True)
    longest = max((s.values[-1] for s in samples if s.values), default=1)
    for row, sample in zip(rows, samples):
        if sample.values:
            axes.text(
                sample.values[-1] + longest * 0.015,
                row,
                f"{sample.median:,.0f} ms",
                va="center",
                weight="bold",
            )
    axes.set_yticks(
        rows, ["computed again", "local hit", "loaded from the store", "loaded after the kills"]
    )
    axes.invert_yaxis()
    axes.set_xlim(0, longest * 1.14)
    axes.grid(axis="x", color=FAINT)
    axes.set_xlabel(
        "time to first token of the second turn, ms (bar: median, dots: each conversation)"
    )
    return figure


def modes(results):
    figure, axes = _axes(7.6, 3.4)
    highest = max((t.second.ttft_ms for t in results.pairs), default=1)
    for store in (False, True):
        for number, mode in enumerate(MODES):
            position = number + (0.2 if store else -0.2)
            turns = [t for t in figures.second_turns(results, mode, store) if t.ok]
            median = figures.ttft(turns).median
            axes.bar(position, median, width=0.37, color=STORE_COLOURS[store])
            for route, colour in ROUTE_COLOURS.items():
                values = [t.ttft_ms for t in turns if t.route == route]
                axes.scatter(
                    [position - 0.12] * len(values),
                    values,
                    s=22,
                    color=colour,
                    zorder=3,
                    edgecolors="white",
                    linewidths=0.6,
                )
            if turns:
                axes.text(
                    position + 0.03,
                    median + highest * 0.02,
                    f"{median:,.0f}",
                    ha="center",
                    weight="bold",
                )
    axes.set_xticks(range(len(MODES)), ["random  (?sticky=0)", "sticky", "cache_aware"])
    axes.set_ylim(0, highest * 1.1)
    axes.set_ylabel("TTFT of the second turn, ms")
    axes.grid(axis="y", color=FAINT)
    entries = [
        Patch(color=c, label=f"store {'on' if s else 'off'}, median")
        for s, c in STORE_COLOURS.items()
    ]
    entries += [
        Line2D([], [], color=c, marker="o", linestyle="", label=f"{r} turn")
        for r, c in ROUTE_COLOURS.items()
    ]
    figure.legend(
        handles=entries, loc="outside upper center", ncols=5, fontsize=8.5, columnspacing=1.2
    )
    return figure


def tokens(results):
    figure, axes = _axes(7.6, 3.1)
    cells = [(mode, store) for mode in MODES for store in (False, True)]
    turns = [[t for t in figures.second_turns(results, *cell) if t.ok] for cell in cells]
    computed = [figures.Sample.of(t.computed for t in ts).mean for ts in turns]
    reused = [figures.Sample.of(t.reused for t in ts).mean for ts in turns]
    rows = range(len(cells))
    axes.barh(rows, computed, color=COMPUTED, height=0.66, label="computed")
    axes.barh(rows, reused, left=computed, color=REUSED, height=0.66, label="reused")
    for row, (c, r) in enumerate(zip(computed, reused)):
        if not math.isnan(c):
            axes.text(c + r, row, f"  {c:,.0f} + {r:,.0f}", va="center")
    axes.set_yticks(rows, [f"{mode}, store {'on' if store else 'off'}" for mode, store in cells])
    axes.invert_yaxis()
    axes.margins(x=0.16)
    axes.set_xlabel("prompt tokens of the second turn, mean, as the engine counted them")
    axes.grid(axis="x", color=FAINT)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def load(results):
    figure, axes = _axes(7.6, 3.1)
    table = figures.loads(results)
    replicas = sorted({r for mode in table.values() for cell in mode.values() for r in cell if r})
    cells = [(mode, store) for mode in MODES for store in (False, True)]
    for number, replica in enumerate(replicas):
        positions = [i + (number - (len(replicas) - 1) / 2) * 0.36 for i in range(len(cells))]
        entries = [table.get(m, {}).get(s, {}).get(replica, [0, 0]) for m, s in cells]
        bars = axes.bar(
            positions,
            [e[1] for e in entries],
            width=0.34,
            color=("#2b6cb0", "#f2b134")[number % 2],
            label=replica,
        )
        axes.bar_label(bars, [str(e[0]) for e in entries], padding=2, fontsize=9)
    axes.set_xticks(
        range(len(cells)),
        [f"{mode}\nstore {'on' if store else 'off'}" for mode, store in cells],
        fontsize=9,
    )
    axes.set_ylabel("prompt tokens prefilled")
    axes.margins(y=0.14)
    axes.grid(axis="y", color=FAINT)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper right", ncols=len(replicas) or 1
    )
    return figure


def breakdown(results):
    figure, axes = _axes(7.6, 2.3)
    rows = [
        (name, [t for t in results.way(name) if t.work.get("bytes")])
        for name in ("remote", "after kills")
    ]
    for row, (_, turns) in enumerate(rows):
        left = 0.0
        for part, colour in PART_COLOURS.items():
            values = figures.Sample.of(_part(t, part) for t in turns)
            if values.values:
                axes.barh(
                    row,
                    values.median,
                    left=left,
                    color=colour,
                    height=0.6,
                    label=PART_NAMES[part] if row == 0 else None,
                )
                left += values.median
        if not turns:
            axes.text(
                0,
                row,
                "  nothing was loaded, or the agents reported no times",
                va="center",
                color="#7a8794",
            )
    axes.set_yticks(range(len(rows)), ["remote load", "after the kills"])
    axes.invert_yaxis()
    axes.set_xlabel("ms, medians")
    axes.grid(axis="x", color=FAINT)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9
    )
    return figure


def _part(turn, part):
    if part != "rest":
        return turn.work.get(part, 0.0)
    return max(0.0, turn.ttft_ms - sum(turn.work.get(p, 0.0) for p in PART_NAMES))
