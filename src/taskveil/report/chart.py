"""One chart: traces and layout in Plotly's JSON, the same figures as a table, and a sentence for those who cannot see it.

Colours are names of style-sheet variables ("@blue"); the page's script resolves them, so that light, dark and print differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST = 18  # letters of a name beside an axis
COLOURS = ("@blue", "@orange", "@green", "@purple", "@red", "@brown")


@dataclass(frozen=True)
class Chart:
    """Traces and layout, the same figures as a table (`head`, `rows`), and what is said above and below it."""

    name: str
    title: str
    summary: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any] = field(default_factory=dict)
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    note: str = ""
    height: int = 340
    wide: bool = False

    def figure(self) -> dict[str, Any]:
        base = {
            "margin": {"l": 60, "r": 16, "t": 12, "b": 48},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"},
            "height": self.height,
            "hovermode": "closest",
            "barcornerradius": 3,
        }
        return {"data": self.traces, "layout": base | self.layout}


def bars(x: Sequence[Any], y: Sequence[Any], colour: Any, hover: str | None = None, **more: Any) -> dict[str, Any]:
    """Upright bars; with orientation="h" their names are in `y`. `hover`: what is said over a bar, if not Plotly's own words."""
    said = {} if hover is None else {"hovertemplate": hover}
    return {"type": "bar", "x": list(x), "y": list(y), "marker": {"color": colour}, **said, **more}


def lying(x: Sequence[Any], y: Sequence[Any], colour: Any, hover: str, **more: Any) -> dict[str, Any]:
    """Bars from left to right, the first one on top."""
    return bars(list(x)[::-1], list(y)[::-1], colour, hover, orientation="h", **more)


def line(x: Sequence[Any], y: Sequence[Any], colour: str, hover: str, mode: str = "lines+markers", **more: Any) -> dict[str, Any]:
    """A line through points, or the points; `shape`, `dash` and `width` are the line's own. No `hover`: nothing is said."""
    own: dict[str, Any] = {k: more.pop(k) for k in ("shape", "dash", "width") if k in more}
    style = {"color": colour, "width": 2.5, **own}
    said = {"hovertemplate": hover} if hover else {"hoverinfo": "skip"}
    return {"type": "scatter", "mode": mode, "x": list(x), "y": list(y), "line": style, **said, **more}


def axis(title: str, **more: Any) -> dict[str, Any]:
    return {"title": {"text": title, "standoff": 8}, "automargin": True, "zeroline": False, **more}


def names_axis(names: Sequence[str]) -> dict[str, Any]:
    """An axis of names, long ones cut in the middle: on a telephone they would leave no room for the chart."""
    short = [name if len(name) <= LONGEST else f"{name[:8]}\u2026{name[-8:]}" for name in names]
    return axis("", type="category", tickmode="array", tickvals=list(names), ticktext=short)


def level(y: float, text: str, colour: str = "@muted", dash: str = "dash") -> dict[str, Any]:
    """A dashed line across the chart, named in the legend: words on the chart would lie over what it shows."""
    line = {"color": colour, "width": 1.5, "dash": dash}
    ends = {"xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y}
    return {"type": "line", **ends, "line": line, "name": text, "showlegend": True}


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
