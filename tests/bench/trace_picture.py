#!/usr/bin/env python3
"""The trace_rank lines of `./tests/bench/run router --only simulated --trace FILE ... --json LINES` as a picture:

  tests/bench/trace_picture.py LINES PICTURE.svg

A row a trace, a field a figure, a bar a policy. Times are on a logarithmic scale."""
import json
import math
import pathlib
import sys

FIELDS = [("ttft_p50", "TTFT p50, s", 1e-3, True), ("ttft_p99", "TTFT p99, s", 1e-3, True), ("hit", "hit ratio", 1, False),
          ("imbalance_computed", "work, most/mean", 1, False)]
WIDTH, BAR, GAP, LEFT, TOP = 250, 16, 5, 110, 44
OURS, OTHER = "#c0392b", "#9aa5b1"


def text(x, y, content, anchor="start", weight="normal"):
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-weight="{weight}">{content}</text>'


def shown(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def panel(rows, field, scale, logarithmic, x, y):
    """The bars of one figure of one trace."""
    values = [row[field] * scale for row in rows]
    most, least = max(values), min(values) / 2
    for i, (row, value) in enumerate(zip(rows, values)):
        share = math.log(value / least) / math.log(most / least) if logarithmic else value / most
        top = y + i * (BAR + GAP)
        color = OURS if row["policy"] == "cache_aware" else OTHER
        yield f'<rect x="{x}" y="{top}" width="{max(1, share * (WIDTH - 90)):.1f}" height="{BAR}" fill="{color}"/>'
        yield text(x + share * (WIDTH - 90) + 4, top + BAR - 4, shown(value))


def draw(lines):
    traces = {}
    for line in lines:
        if line["metric"] == "trace_rank":
            traces.setdefault(line["trace"], []).append(line)
    out, y = [], TOP
    for trace, rows in traces.items():
        out.append(text(8, y - 26, trace, weight="bold"))
        for i, row in enumerate(rows):
            out.append(text(LEFT - 6, y + i * (BAR + GAP) + BAR - 4, row["policy"], "end"))
        for i, (field, name, scale, logarithmic) in enumerate(FIELDS):
            x = LEFT + i * WIDTH
            out.append(text(x, y - 8, name))
            out.extend(panel(rows, field, scale, logarithmic, x, y))
        y += len(rows) * (BAR + GAP) + TOP
    size = f'width="{LEFT + len(FIELDS) * WIDTH}" height="{y - 20}"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
                      '<rect width="100%" height="100%" fill="white"/>', *out, "</svg>", ""])


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    lines = [json.loads(line) for line in pathlib.Path(sys.argv[1]).read_text().splitlines()]
    pathlib.Path(sys.argv[2]).write_text(draw(lines))


if __name__ == "__main__":
    main()
