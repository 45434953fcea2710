"""The figure as plain SVG: relative objective gap over virtual time, one panel per kind of delays."""

from __future__ import annotations

import math
from pathlib import Path

COLOURS = {"asynchronous": "#1b6ca8", "asynchronous, proved steps": "#7fb3d5", "synchronous": "#c0392b"}
WIDTH, HEIGHT, LEFT, TOP = 420, 260, 60, 40


def write_figure(results: dict, path: Path) -> None:
    curves = [r for r in results["runs"] if r["curve"]]
    panels = list(dict.fromkeys(r["delays"] for r in curves))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{(WIDTH + 90) * len(panels)}" height="{HEIGHT + 110}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for k, name in enumerate(panels):
        parts += _panel(k * (WIDTH + 90), name, [r for r in curves if r["delays"] == name], results["target"])
    parts += _legend(HEIGHT + 90)
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")


def _panel(x0: float, title: str, runs: list[dict], target: float) -> list[str]:
    latest = max(t for r in runs for t, _ in r["curve"])
    low = math.log10(target) - 0.2

    def place(t: float, gap: float) -> str:
        x = x0 + LEFT + WIDTH * t / latest
        y = TOP + HEIGHT * min(max(-math.log10(max(gap, 1e-12)) / -low, 0.0), 1.0)
        return f"{x:.1f},{y:.1f}"

    frame = f'<rect x="{x0 + LEFT}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#999"/>'
    out = [frame, f'<text x="{x0 + LEFT}" y="{TOP - 12}">{title}</text>']
    for decade in range(0, math.ceil(-low)):
        y = TOP + HEIGHT * decade / -low
        out.append(f'<text x="{x0 + LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">1e-{decade}</text>')
        out.append(
            f'<line x1="{x0 + LEFT}" x2="{x0 + LEFT + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#eee"/>'
        )
    for k in range(5):
        x = x0 + LEFT + WIDTH * k / 4
        out.append(
            f'<text x="{x:.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{latest * k / 4:.2g}</text>'
        )
    out.append(
        f'<text x="{x0 + LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 36}" text-anchor="middle">virtual seconds</text>'
    )
    for run in runs:
        points = " ".join(place(t, gap) for t, gap in [(0.0, 1.0), *run["curve"]])
        out.append(
            f'<polyline points="{points}" fill="none" stroke="{COLOURS[run["way"]]}" stroke-width="2"/>'
        )
    return out


def _legend(y: float) -> list[str]:
    out = []
    for k, (name, colour) in enumerate(COLOURS.items()):
        x = LEFT + 230 * k
        out.append(f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>')
        out.append(f'<text x="{x + 30}" y="{y + 4}">{name}</text>')
    return out
