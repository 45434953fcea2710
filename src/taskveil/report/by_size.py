"""Error and bias by size of task and by declared group: who pays for privacy.

Small tasks and tasks unlike the others are where noise and clipping hurt. All figures here are statistics of people's rows that
no epsilon covers: for someone entitled to all rows, or for a simulation; an owner sees its own line alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binom

from taskveil.estimators.summary import change
from taskveil.report.chart import Chart, axis, bars, number
from taskveil.report.gain_charts import in_units
from taskveil.report.records import Run
from taskveil.report.words import CLIPPING_NOT_MEASURED

BANDS = 4
FEWEST = 8  # tasks that are worth splitting into bands
CONFIDENCE = 0.95
OTHERS = "no group"
HEAD = ("tasks", "how many", "error alone", "error shared", "change", "cut off by clipping")


@dataclass(frozen=True)
class Band:
    """Tasks of one size or group: medians over them."""

    name: str
    tasks: int
    alone: float
    shared: float
    change: float
    clipped: float | None  # mean share of a message's length

    def cells(self) -> tuple[str, ...]:
        cut = "-" if self.clipped is None else f"{100 * self.clipped:.3g} %"
        return (self.name, str(self.tasks), number(self.alone), number(self.shared), f"{100 * self.change:+.0f} %", cut)

    def words(self) -> str:
        cut = "" if self.clipped is None else f"; clipping cut {100 * self.clipped:.3g} % of a message on average"
        return (
            f"{self.name} ({self.tasks} tasks): median error {self.alone:.4g} alone, {self.shared:.4g} shared "
            f"({100 * self.change:+.0f} %){cut}"
        )


def bands_by_size(gain: Mapping[str, Mapping[str, Any]], error: str = "error") -> list[Band]:
    """Quarters of the tasks by their number of rows; one band where there are few tasks or one size."""
    measured = {name: t for name, t in gain.items() if "rows" in t}
    if not measured:
        return []
    rows = np.array([t["rows"] for t in measured.values()])
    inner = np.quantile(rows, np.arange(1, BANDS) / BANDS, method="lower") if len(rows) >= FEWEST else []
    ends = sorted({*map(int, inner), int(rows.max())})
    bands, low = [], int(rows.min())
    for high in ends:
        inside = [t for t in measured.values() if low <= t["rows"] <= high]
        label = f"{low} rows" if low == high else f"{low} to {high} rows"
        bands += [_band(label, inside, error)] if inside else []
        low = high + 1
    return bands


def bands_by_group(gain: Mapping[str, Mapping[str, Any]], groups: Mapping[str, str], error: str = "error") -> list[Band]:
    """One band for every declared group, in the order of their names."""
    if not groups:
        return []
    named: dict[str, list[Mapping[str, Any]]] = {}
    for task, figures in gain.items():
        named.setdefault(groups.get(task, OTHERS), []).append(figures)
    return [_band(name, named[name], error) for name in sorted(named)]


def _band(name: str, tasks: Sequence[Mapping[str, Any]], error: str) -> Band:
    alone, shared = (float(np.median([t[f"{error}_{which}"] for t in tasks])) for which in ("alone", "shared"))
    cut = [t["clipped"] for t in tasks if "clipped" in t]
    return Band(
        name, len(tasks), alone, shared, float(np.median([change(t) for t in tasks])), float(np.mean(cut)) if cut else None
    )


def median_with_interval(values: Sequence[float]) -> str:
    """Median over tasks with an interval of at least 95 % confidence, by order statistics: no shape is assumed."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    n = len(ordered)
    low = int(binom.ppf((1 - CONFIDENCE) / 2, n, 0.5)) - 1
    if low < 0:
        return f"{np.median(ordered):.4g}, too few tasks for an interval"
    return f"{np.median(ordered):.4g}, 95 % interval {ordered[low]:.4g} to {ordered[n - 1 - low]:.4g}"


def sizes(run: Run) -> list[Chart]:
    """Error and what clipping took, by size and by declared group; nothing on a page about one task."""
    gain = run.gain or ((run.comparison or {}).get("gain") or {}).get("tasks", {})
    if len(gain) < 2:
        return []
    error, metric = in_units(gain, run.gain_metric if run.gain else "error")
    made = [
        ("sizes", "Error by size of task", bands_by_size(gain, error)),
        ("groups", "Error by group", bands_by_group(gain, run.groups, error)),
    ]
    return [_chart(name, title, bands, metric) for name, title, bands in made if bands]


def _chart(name: str, title: str, bands: list[Band], metric: str) -> Chart:
    sides = (("alone", [b.alone for b in bands], "@orange"), ("shared", [b.shared for b in bands], "@blue"))
    names = [b.name for b in bands]
    traces = [bars(names, y, colour, "%{x}, " + side + ": %{y:.4g}<extra></extra>", name=side) for side, y, colour in sides]
    cut = [b.clipped for b in bands if b.clipped is not None]
    nothing = " No bar is drawn, because every error is zero." if not any(b.alone or b.shared for b in bands) else ""
    caption = f"Median error of {sum(b.tasks for b in bands)} tasks, alone and shared.{nothing}"
    if cut and max(cut) < 0.0005:
        caption += " Clipping cut nothing from their messages."
    elif cut:
        caption += f" Clipping cut {100 * min(cut):.3g} to {100 * max(cut):.3g} % of a message; such tasks count less."
    else:
        caption += f" {CLIPPING_NOT_MEASURED}"
    note = "Each task's own estimate on held-out rows of its own; medians over tasks are statistics of everybody's rows."
    layout: dict[str, Any] = {"xaxis": axis("", type="category"), "yaxis": axis(metric, rangemode="tozero"), "barmode": "group"}
    layout["bargap"] = max(0.2, 1 - 0.25 * len(bands))  # a single band is a bar, not a wall
    return Chart(name, title, caption, traces, layout, HEAD, [b.cells() for b in bands], note)
