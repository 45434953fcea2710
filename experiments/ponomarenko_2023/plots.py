"""Line charts as small SVG files: nothing to install, nothing to render."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

COLOURS = ("#1b6ca8", "#d1495b", "#2e933c", "#8f5fbf", "#e08e0b", "#30b7b2", "#555555", "#a03e99")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 760, 400, 70, 48, 34, 190


def line_chart(
    path: Path, title: str, series: dict[str, tuple[list[float], list[float]]], labels: tuple[str, str], log_y: bool = False
) -> None:
    """One line per series; `log_y` for quantities over many decades."""
    xs = np.concatenate([np.asarray(x, float) for x, _ in series.values()])
    ys = np.concatenate([np.asarray(y, float) for _, y in series.values()])
    ys = np.log10(np.maximum(ys, 1e-12)) if log_y else ys
    x0, x1, y0, y1 = 0.0, float(xs.max()), float(ys.min()), float(ys.max()) + 1e-12
    place_x = lambda v: LEFT + (v - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)  # noqa: E731
    place_y = lambda v: HEIGHT - BOTTOM - (v - y0) / (y1 - y0) * (HEIGHT - BOTTOM - TOP)  # noqa: E731
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
        f'<text x="{(WIDTH - RIGHT + LEFT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(labels[0])}</text>',
        f'<text x="16" y="{HEIGHT / 2}" transform="rotate(-90 16 {HEIGHT / 2})" text-anchor="middle">{escape(labels[1])}</text>',
    ]
    for tick in np.linspace(y0, y1, 5):
        shown = f"{10**tick:.0e}" if log_y else f"{tick:.3g}"
        y = place_y(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{shown}</text>')
    for tick in np.linspace(x0, x1, 6):
        parts.append(f'<text x="{place_x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:.3g}</text>')
    for i, (name, (x, y)) in enumerate(series.items()):
        v = np.log10(np.maximum(np.asarray(y, float), 1e-12)) if log_y else np.asarray(y, float)
        points = " ".join(f"{place_x(a):.1f},{place_y(b):.1f}" for a, b in zip(x, v))
        colour, at = COLOURS[i % len(COLOURS)], TOP + 16 * i + 8
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" points="{points}"/>')
        parts.append(
            f'<line x1="{WIDTH - RIGHT + 12}" x2="{WIDTH - RIGHT + 32}" y1="{at}" y2="{at}" stroke="{colour}" stroke-width="3"/>'
        )
        parts.append(f'<text x="{WIDTH - RIGHT + 38}" y="{at + 4}">{escape(name)}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")
