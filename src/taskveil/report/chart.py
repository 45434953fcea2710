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
