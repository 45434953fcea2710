"""Small line charts as SVG, so that results have pictures without a plotting service. Light and dark readable."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Any

COLOURS = ("#1668a8", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#be123c", "#0f766e", "#475569", "#9d174d")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 70, 210, 44, 54


def write_chart(path: Path, title: str, series: dict[str, Any], axes: dict[str, str]) -> None:
    """`series`: name -> {"x": [...], "y": [...], "std": [...] or absent}; x numbers or words; axes: x, y, log."""
    lines = {k: v for k, v in series.items() if isinstance(v, dict) and "x" in v and "y" in v}
    if not lines:
        return
    words = [x for v in lines.values() for x in v["x"] if isinstance(x, str)]
    places = {w: i for i, w in enumerate(dict.fromkeys(words))}
    log = axes.get("log", "")
    points = {
        name: [(_place(x, places, "x" in log), _scale(y, "y" in log), s) for x, y, s in _triples(v)]
        for name, v in lines.items()
    }
    xs = [p[0] for v in points.values() for p in v]
    ys = [p[1] for v in points.values() for p in v if math.isfinite(p[1])]
    if not xs or not ys:
        return
    frame = _Frame(min(xs), max(xs), min(ys), max(ys))
    body = [_axes(frame, lines, places, axes, log)]
    for number, (name, chosen) in enumerate(points.items()):
        body.append(_line(frame, chosen, COLOURS[number % len(COLOURS)], name, number))
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}" '
        'font-family="system-ui, sans-serif" font-size="12">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
        f'<text x="{LEFT}" y="24" font-size="15" fill="#111">{escape(title)}</text>' + "".join(body) + "</svg>\n"
    )


class _Frame:
    def __init__(self, x0: float, x1: float, y0: float, y1: float) -> None:
        pad = 0.06 * (y1 - y0 or abs(y1) or 1.0)
        self.x0, self.x1 = (x0, x1) if x1 > x0 else (x0 - 1, x1 + 1)
        self.y0, self.y1 = y0 - pad, y1 + pad

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - self.x0) / (self.x1 - self.x0) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - (y - self.y0) / (self.y1 - self.y0) * (HEIGHT - TOP - BOTTOM)
        return round(across, 1), round(down, 1)


def _triples(v: dict[str, Any]) -> list[tuple[Any, float, float]]:
    spread = v.get("std") or [0.0] * len(v["y"])
    return list(zip(v["x"], v["y"], spread, strict=True))


def _place(x: Any, places: dict[str, int], log: bool) -> float:
    return float(places[x]) if isinstance(x, str) else _scale(float(x), log)


def _scale(value: float, log: bool) -> float:
    return math.log10(max(value, 1e-300)) if log else float(value)


def _line(frame: _Frame, points: list[tuple[float, float, float]], colour: str, name: str, number: int) -> str:
    chosen = [frame.at(x, y) for x, y, _ in points if math.isfinite(y)]
    path = " ".join(f"{x},{y}" for x, y in chosen)
    dots = "".join(f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in chosen)
    top = TOP + 10 + 18 * number
    legend = (
        f'<rect x="{WIDTH - RIGHT + 14}" y="{top - 8}" width="12" height="4" fill="{colour}"/>'
        f'<text x="{WIDTH - RIGHT + 32}" y="{top - 2}" fill="#111">{escape(name[:28])}</text>'
    )
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}{legend}'


def _axes(frame: _Frame, lines: dict[str, Any], places: dict[str, int], axes: dict[str, str], log: str) -> str:
    parts = [
        f'<line x1="{LEFT}" y1="{HEIGHT - BOTTOM}" x2="{WIDTH - RIGHT}" y2="{HEIGHT - BOTTOM}" stroke="#333"/>',
        f'<line x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{HEIGHT - BOTTOM}" stroke="#333"/>',
    ]
    marks = [(float(i), w) for w, i in places.items()]
    if not marks:
        numbers = sorted({float(x) for v in lines.values() for x in v["x"]})
        numbers = numbers if len(numbers) <= 8 else [numbers[round(i * (len(numbers) - 1) / 6)] for i in range(7)]
        marks = [(_scale(x, "x" in log), f"{x:g}") for x in numbers]
    for x, text in marks:
        across, _ = frame.at(x, frame.y0)
        parts.append(f'<text x="{across}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" fill="#333">{escape(text)}</text>')
    for k in range(5):
        y = frame.y0 + (frame.y1 - frame.y0) * k / 4
        _, down = frame.at(frame.x0, y)
        shown = 10**y if "y" in log else y
        parts.append(f'<text x="{LEFT - 8}" y="{down + 4}" text-anchor="end" fill="#333">{shown:.3g}</text>')
        parts.append(f'<line x1="{LEFT}" y1="{down}" x2="{WIDTH - RIGHT}" y2="{down}" stroke="#ddd"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle" fill="#111">{escape(axes.get("x", ""))}</text>')
    parts.append(
        f'<text x="16" y="{HEIGHT / 2}" transform="rotate(-90 16 {HEIGHT / 2})" text-anchor="middle" fill="#111">'
        f"{escape(axes.get('y', ''))}</text>"
    )
    return "".join(parts)
