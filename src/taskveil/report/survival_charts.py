"""The Kaplan-Meier curve of one owner's own rows. It is made of nothing but them, so only their owner's page has it."""

from __future__ import annotations

import numpy as np

from taskveil.report.chart import Chart, axis, number
from taskveil.report.records import Run

ROWS = 12


def survival(run: Run) -> list[Chart]:
    """For one owner: the share of its own rows free of the event, over time."""
    if len(run.task_names) != 1 or len(run.survival) != 1:
        return []
    ((name, curves),) = run.survival.items()
    times, where = np.unique(curves["times"], return_index=True)
    share = curves["kaplan_meier"][where]
    x, y = [0.0, *map(float, times)], [1.0, *map(float, share)]
    trace = {
        "type": "scatter", "mode": "lines", "x": x, "y": y, "line": {"color": "@blue", "width": 2, "shape": "hv"},
        "hovertemplate": "%{x:.4g}: %{y:.1%}<extra></extra>",
    }  # fmt: skip
    shown = sorted({round(k) for k in np.linspace(0, len(x) - 1, ROWS)})
    return [
        Chart(
            "survival",
            f"Your rows over time: {name}",
            "Share free of the event (Kaplan-Meier), from your own rows, none left out.",
            [trace],
            {"xaxis": axis("time", rangemode="tozero"), "yaxis": axis("share free of the event", range=[0, 1.02])},
            ("time", "share"),
            [(number(x[k]), number(y[k])) for k in shown],
            "Yours alone: every step is an event among your rows.",
            360,
        )
    ]
