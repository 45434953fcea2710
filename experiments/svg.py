"""Small line charts as SVG, so that results have pictures without a plotting service. White ground, readable in light and dark pages.

A line is {"x": [...], "y": [...]} with optional "std" (drawn as bars), "panel" (lines of one panel share a frame) and "label" (the
legend's word, its name otherwise). Lines of one label have one colour in all panels. {"cells": matrix} is a heat map with a panel of
its own: blue below zero, red above, white at zero, each map on the scale of its largest entry.
"""

from __future__ import annotations

import math
import textwrap
from html import escape
from pathlib import Path
from typing import Any

COLOURS = ("#1668a8", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#be123c", "#0f766e", "#475569", "#111827", "#4d7c0f")
DASHES = ("", "6 3", "2 3", "8 3 2 3")
PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, BOTTOM, GAP = 430, 320, 78, 46, 60, 24
TITLE, LEGEND_WIDTH, LEGEND_LINE = 40, 286, 21  # an entry of the legend is wider where its words are
SIZE, MARK = 14, 13  # of letters: two panels side by side stay legible on half a page
LETTER = 7.4  # width of a letter of an axis mark, in the picture's units


def write_chart(path: Path, title: str, series: dict[str, Any], axes: dict[str, str]) -> None:
    """`series`: name -> line; x numbers or words; `axes`: x, y (what they show), log ("x", "y" or "xy"), y_max (where the frame ends).

    What lies above `y_max` is named at the top of its panel instead of squeezing the rest.
    """
    lines = {k: v for k, v in series.items() if isinstance(v, dict) and len(v.get("x", ())) and "y" in v}
    maps = {k: v["cells"] for k, v in series.items() if isinstance(v, dict) and "cells" in v}
    if not lines and not maps:
        return
    panels: dict[str, dict[str, Any]] = {}
    for name, line in lines.items():
        panels.setdefault(line.get("panel") or "", {})[line.get("label") or name] = line
    labels = list(dict.fromkeys(label for panel in panels.values() for label in panel))
    panels |= {name: {"cells": cells} for name, cells in maps.items()}
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    width, entry = columns * PANEL_WIDTH, max(LEGEND_WIDTH, *(46 + round(LETTER * len(label)) for label in ("", *labels)))
    beside = max(1, width // entry)
    below = TITLE + rows * PANEL_HEIGHT
    height = below + LEGEND_LINE * -(-len(labels) // beside) + 8
    body = [_legend(labels, below, beside, entry)]
    for place, (heading, panel) in enumerate(panels.items()):
        across, down = place % columns * PANEL_WIDTH, TITLE + place // columns * PANEL_HEIGHT
        drawn = _heat_map(heading, panel["cells"]) if "cells" in panel else _panel(heading, panel, labels, axes)
        body.append(f'<g transform="translate({across} {down})">{drawn}</g>')
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{escape(title)}" '
        f'font-family="system-ui, sans-serif" font-size="{SIZE}">'
        f'<clipPath id="inside"><rect x="{LEFT}" y="{TOP}" width="{PANEL_WIDTH - LEFT - GAP + 4}" height="{PANEL_HEIGHT - TOP - BOTTOM}"/></clipPath>'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        f'<text x="16" y="26" font-size="16" font-weight="600" fill="#111">{escape(title)}</text>' + "".join(body) + "</svg>\n"
    )


def _panel(heading: str, lines: dict[str, Any], labels: list[str], axes: dict[str, str]) -> str:
    words = [x for v in lines.values() for x in v["x"] if isinstance(x, str)]
    places = {w: i for i, w in enumerate(dict.fromkeys(words))}
    log = axes.get("log", "")
    points = {name: [_point(x, y, s, places, log) for x, y, s in _triples(v)] for name, v in lines.items()}
    points = {name: [p for p in found if math.isfinite(p[1])] for name, found in points.items()}
    every = [p for found in points.values() for p in found]
    if not every:
        return ""
    top = _scale(float(axes["y_max"]), "y" in log) if "y_max" in axes else math.inf
    above = [name for name, found in points.items() if found and min(p[1] for p in found) > top]
    inside = [e for p in every for e in p[1:] if p[1] <= top] or [e for p in every for e in p[1:]]
    frame = _Frame([p[0] for p in every], [min(e, top) for e in inside], bool(places))
    head = f'<text x="{LEFT}" y="{TOP - 24}" font-weight="600" fill="#111">{escape(heading)}</text>' if heading else ""
    drawn = "".join(
        _line(frame, found, labels.index(name), not places) for name, found in points.items() if found and name not in above
    )
    if above:
        note = textwrap.shorten("above the frame: " + ", ".join(above), 70, placeholder=" ...")
        head += f'<text x="{LEFT}" y="{TOP - 8}" font-size="{MARK - 2}" fill="#555">{escape(note)}</text>'
    return head + _axes(frame, lines, places, axes, log) + f'<g clip-path="url(#inside)">{drawn}</g>'


def _heat_map(heading: str, cells: list[list[float]]) -> str:
    """One rectangle a cell, joined to its neighbour in a row where both have the same colour."""
    wide, high = PANEL_WIDTH - LEFT - GAP, PANEL_HEIGHT - TOP - BOTTOM
    largest = max((abs(v) for row in cells for v in row), default=0.0) or 1.0
    across, down = wide / len(cells[0]), high / len(cells)
    parts = [f'<text x="{LEFT}" y="{TOP - 24}" font-weight="600" fill="#111">{escape(heading)}</text>']
    for i, row in enumerate(cells):
        start, colours = 0, [_heat(v / largest) for v in row]
        for j in range(1, len(row) + 1):
            if j == len(row) or colours[j] != colours[start]:
                parts.append(
                    f'<rect x="{LEFT + start * across:.1f}" y="{TOP + i * down:.1f}" width="{(j - start) * across + 0.3:.1f}" '
                    f'height="{down + 0.3:.1f}" fill="{colours[start]}"/>'
                )
                start = j
    note = f"white 0, darkest ±{largest:.3g}"
    parts.append(f'<text x="{LEFT}" y="{PANEL_HEIGHT - BOTTOM + 16}" fill="#333" font-size="{MARK}">{note}</text>')
    return "".join(parts)


def _heat(share: float) -> str:
    """Sixteen shades from white to red (above zero) or blue (below)."""
    fade = round(255 * (1 - round(16 * min(abs(share), 1.0)) / 16)) if math.isfinite(share) else 0
    return f"#{255:02x}{fade:02x}{fade:02x}" if share > 0 else f"#{fade:02x}{fade:02x}{255:02x}"


class _Frame:
    def __init__(self, xs: list[float], ys: list[float], words: bool) -> None:
        y0, y1 = min(ys), max(ys)
        pad = 0.06 * (y1 - y0 or abs(y1) or 1.0)
        side = 0.5 if words else 0.04 * (max(xs) - min(xs)) or 0.5
        self.x0, self.x1 = min(xs) - side, max(xs) + side
        self.y0, self.y1 = y0 - pad, y1 + pad

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - self.x0) / (self.x1 - self.x0) * (PANEL_WIDTH - LEFT - GAP)
        down = PANEL_HEIGHT - BOTTOM - (y - self.y0) / (self.y1 - self.y0) * (PANEL_HEIGHT - TOP - BOTTOM)
        return round(across, 1), round(down, 1)


def _triples(v: dict[str, Any]) -> list[tuple[Any, float, float]]:
    spread = v.get("std") or [0.0] * len(v["y"])
    return list(zip(v["x"], v["y"], spread, strict=True))


def _point(x: Any, y: float, std: float, places: dict[str, int], log: str) -> tuple[float, float, float, float]:
    """Place, value, and one standard deviation below and above, on the axis' scale."""
    place = float(places[x]) if isinstance(x, str) else _scale(float(x), "x" in log)
    low = y - std if "y" not in log or y - std > 0 else y / 2
    return place, _scale(y, "y" in log), _scale(low, "y" in log), _scale(y + std, "y" in log)


def _scale(value: float, log: bool) -> float:
    if value is None or not math.isfinite(value):
        return math.nan
    return math.log10(max(value, 1e-300)) if log else float(value)


def _style(number: int) -> tuple[str, str]:
    return COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]


def _line(frame: _Frame, points: list[tuple[float, float, float, float]], number: int, joined: bool) -> str:
    """A line with a band of one standard deviation, and dots where points are few; points over words are not joined and have bars."""
    colour, dash = _style(number)
    parts = []
    if joined:
        path = " ".join(f"{a},{b}" for a, b in (frame.at(x, y) for x, y, _, _ in points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>')
        edge = [frame.at(x, low) for x, _, low, _ in points] + [frame.at(x, high) for x, _, _, high in reversed(points)]
        if any(p[2] != p[3] for p in points):
            parts.append(f'<polygon points="{" ".join(f"{a},{b}" for a, b in edge)}" fill="{colour}" opacity="0.15"/>')
        if len(points) > 12:
            return "".join(parts)
    for x, y, low, high in points:
        (a, b), (_, b_low), (_, b_high) = frame.at(x, y), frame.at(x, low), frame.at(x, high)
        if b_low - b_high > 1 and not joined:
            parts.append(
                f'<line x1="{a}" y1="{b_low}" x2="{a}" y2="{b_high}" stroke="{colour}" stroke-width="1.2" opacity="0.7"/>'
            )
        parts.append(f'<circle cx="{a}" cy="{b}" r="3" fill="{colour}"/>')
    return "".join(parts)


def _legend(labels: list[str], top: int, beside: int, entry: int) -> str:
    """Below the panels, so many entries of one width beside each other."""
    parts = []
    for number, label in enumerate(labels):
        colour, dash = _style(number)
        left, y = 16 + number % beside * entry, top + 6 + LEGEND_LINE * (number // beside)
        parts.append(
            f'<line x1="{left}" y1="{y}" x2="{left + 22}" y2="{y}" stroke="{colour}" stroke-width="3" stroke-dasharray="{dash}"/>'
        )
        parts.append(f'<text x="{left + 30}" y="{y + 5}" fill="#111">{escape(label)}</text>')
    return "".join(parts)


def _axes(frame: _Frame, lines: dict[str, Any], places: dict[str, int], axes: dict[str, str], log: str) -> str:
    base, right = PANEL_HEIGHT - BOTTOM, PANEL_WIDTH - GAP
    parts = [
        f'<line x1="{LEFT}" y1="{base}" x2="{right}" y2="{base}" stroke="#333"/>',
        f'<line x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{base}" stroke="#333"/>',
    ]
    room = max(6, int((right - LEFT) / max(len(places), 1) / LETTER))  # letters between two words
    for x, text in _x_marks(lines, places, log):
        across, _ = frame.at(x, frame.y0)
        for k, part in enumerate(textwrap.wrap(text, min(room, 13))[:3] if places else [text]):
            parts.append(
                f'<text x="{across}" y="{base + 17 + 14 * k}" text-anchor="middle" fill="#333" font-size="{MARK}">{escape(part)}</text>'
            )
    for y, text in _y_marks(frame, "y" in log):
        _, down = frame.at(frame.x0, y)
        parts.append(f'<text x="{LEFT - 8}" y="{down + 4}" text-anchor="end" fill="#333" font-size="{MARK}">{text}</text>')
        parts.append(f'<line x1="{LEFT}" y1="{down}" x2="{right}" y2="{down}" stroke="#e2e2e2"/>')
    middle, centre = (LEFT + right) / 2, (TOP + base) / 2
    if not places:
        parts.append(
            f'<text x="{middle}" y="{PANEL_HEIGHT - 20}" text-anchor="middle" fill="#111">{escape(axes.get("x", ""))}</text>'
        )
    parts.append(
        f'<text x="16" y="{centre}" transform="rotate(-90 16 {centre})" text-anchor="middle" fill="#111">{escape(axes.get("y", ""))}</text>'
    )
    return "".join(parts)


def _x_marks(lines: dict[str, Any], places: dict[str, int], log: str) -> list[tuple[float, str]]:
    if places:
        return [(float(i), w) for w, i in places.items()]
    numbers = sorted({float(x) for v in lines.values() for x in v["x"]})
    if len(numbers) > 8 and "x" not in log:
        return _round_marks(numbers[0], numbers[-1])
    numbers = numbers if len(numbers) <= 8 else [numbers[round(i * (len(numbers) - 1) / 6)] for i in range(7)]
    marks: list[tuple[float, str]] = []
    span = (_scale(numbers[-1], "x" in log) - _scale(numbers[0], "x" in log)) or 1.0
    per_letter = LETTER / (PANEL_WIDTH - LEFT - GAP) * 1.08 * span
    for number in numbers:  # marks that would touch the one before are left out
        place, text = _scale(number, "x" in log), f"{number:.3g}"
        if not marks or place - marks[-1][0] > per_letter * ((len(text) + len(marks[-1][1])) / 2 + 1.5):
            marks.append((place, text))
    return marks


def _y_marks(frame: _Frame, log: bool) -> list[tuple[float, str]]:
    if not log:
        return _round_marks(frame.y0, frame.y1)
    decades = range(math.floor(frame.y0), math.ceil(frame.y1) + 1)
    narrow = frame.y1 - frame.y0 < 1.5
    steps = (1, 1.5, 2, 3, 4, 5, 7) if frame.y1 - frame.y0 < 0.7 else (1, 2, 5) if narrow or frame.y1 - frame.y0 < 3 else (1,)
    marks = [(math.log10(s) + d, f"{s * 10.0**d:g}") for d in decades for s in steps]
    inside = [m for m in marks if frame.y0 <= m[0] <= frame.y1]
    return inside or [(y, f"{10**y:.3g}") for y in (frame.y0, frame.y1)]


def _round_marks(low: float, high: float) -> list[tuple[float, str]]:
    """About five round numbers from `low` to `high`."""
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(k * unit for k in (1, 2, 2.5, 5, 10) if k * unit >= 0.999 * rough)
    return [(k * step, f"{k * step:.4g}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
