"""The charts of a page, in their order, each from records that were cut to their reader already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from taskveil.report.billboard import pictures
from taskveil.report.by_size import sizes
from taskveil.report.chart import Chart
from taskveil.report.comparison_charts import curves, timings
from taskveil.report.curve_charts import curve, survival
from taskveil.report.gain_charts import gain, own_model
from taskveil.report.privacy_charts import audit, budget, noise
from taskveil.report.records import Run


def charts(run: Run) -> list[Chart]:
    """All charts that this run has figures for."""
    makers: list[Callable[[Run], list[Chart]]] = [
        curves, gain, sizes, own_model, survival, budget, curve, noise, audit, pictures, timings,
    ]  # fmt: skip
    return [chart for make in makers for chart in make(run)]


def paired(made: list[Chart]) -> list[Chart]:
    """The charts of one section; no narrow one stands alone in a row of two."""
    made, narrow = list(made), 0
    for k, chart in enumerate(made):
        last = k + 1 == len(made) or made[k + 1].wide
        if not chart.wide and last and narrow % 2 == 0:
            made[k] = replace(chart, wide=True)
        narrow = 0 if chart.wide else narrow + 1
    return made
