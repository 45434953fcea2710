"""Charts of what sharing brings each task, and of one owner's model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskveil.estimators.summary import change
from taskveil.report.chart import Chart, axis, bars, line, lying, names_axis, number
from taskveil.report.records import Run

MOST = 100.0  # per cent: a bar that goes beyond would press all others into the axis
NAMED = 40  # tasks that still fit under each other with their names


def gain(run: Run) -> list[Chart]:
    """Every task's own estimate, alone against shared, sorted by what sharing brings."""
    if run.gain_summary:
        return [_counted(run)]
    if not run.gain:
        return []
    tasks = sorted(run.gain.items(), key=lambda item: change(item[1]))
    which, metric = in_units(run.gain, run.gain_metric)
    rows = [(n, number(t[f"{which}_alone"]), number(t[f"{which}_shared"]), t["kept"], _percent(change(t))) for n, t in tasks]
    head = ("task", f"{metric} alone", f"{metric} shared", "kept", f"change of the {run.gain_metric}")
    gaining = sum(change(t) < 0 for _, t in tasks)
    caption = (
        f"{gaining} of {len(tasks)} tasks have a lower error by sharing; hover or open the table for names."
        if len(tasks) > 1
        else "Error alone and shared."
    )
    note = (
        f"{metric.capitalize()}, estimated by each task on held-out rows of its own. Estimates that also "
        "choose flatter a little; only fresh rows tell."
    )
    if len(tasks) > NAMED:
        traces, layout = _ranked(tasks)
        beyond = sum(100 * change(t) > MOST for _, t in tasks)
        caption += f" Bars end at +{MOST:.0f} %, which the error of {beyond} of them exceeds." if beyond else ""
        if not any(change(t) for _, t in tasks):
            caption = "No bar is drawn, because nothing changed: every task kept the model it learned alone."
        return [Chart("gain", "What sharing brings each task", caption, traces, layout, head, rows, note, 360, True)]
    traces, layout = _dumbbells(tasks, which, metric)
    title = "Alone against shared" + (", task by task" if len(tasks) > 1 else "")
    if any(t[f"{which}_alone"] == t[f"{which}_shared"] for _, t in tasks):
        caption += " Where both are equal, one mark covers the other."
    return [Chart("gain", title, caption, traces, layout, head, rows, note, 130 + 24 * len(tasks), True)]


def _percent(share: float) -> str:
    """A change in per cent; of a task that had next to no error alone, only that it is more than tenfold."""
    return f"{100 * share:+.0f} %" if share <= 10 else "> +1000 %"


def in_units(gain: Mapping[str, Mapping[str, Any]], metric: str) -> tuple[str, str]:
    """Which error is drawn, and its name: in the target's own units wherever it has some."""
    typical = all("typical_error_alone" in task for task in gain.values())
    return ("typical_error", "typical error in the target's units") if typical else ("error", metric)


def _counted(run: Run) -> Chart:
    """Of tasks in partitions: how many there are for every step of change."""
    counted = run.gain_summary
    names, tasks = list(counted["counts"]), list(counted["counts"].values())
    rows = [(name, str(n), f"{100 * n / counted['tasks']:.1f} %") for name, n in counted["counts"].items()]
    colours = ["@blue" if name.endswith("lower") else "@muted" for name in names]
    trace = bars(names, tasks, colours, "%{x}: %{y}<extra></extra>")
    text = f"{counted['gaining']} of {counted['tasks']} tasks have a lower error by sharing; {counted['kept']} keep that model."
    note = (
        f"{run.gain_metric.capitalize()}, estimated by each task on held-out rows of its own, where its partition is. A page for "
        "one owner reads that partition alone."
    )
    layout = {"xaxis": axis("error with sharing, against alone", type="category"), "yaxis": axis("tasks", rangemode="tozero")}
    head = ("change of error", "tasks", "share")
    return Chart("gain", "What sharing brings the tasks", text, [trace], layout, head, rows, note, 360, True)


def _ranked(tasks: list[Any]) -> tuple[list[dict], dict]:
    y = [100 * change(t) for _, t in tasks]
    colours, names = ["@blue" if v < 0 else "@muted" for v in y], [n for n, _ in tasks]
    hover = "%{customdata}: %{y:.0f} %<extra></extra>"
    trace = bars(range(1, len(y) + 1), y, colours, hover, name="change of error", customdata=names)
    plain = {"showarrow": False, "font": {"size": 12}}
    labels = [
        {
            "x": i + 1,
            "y": min(y[i], MOST),
            "text": names[i],
            "xanchor": side,
            "yanchor": "bottom" if y[i] >= 0 else "top",
            **plain,
        }
        for i, side in ((0, "left"), (len(y) - 1, "right"))
    ]
    lowest = min(*y, 0)
    layout = {
        "xaxis": axis("tasks, sorted"),
        "bargap": 0.1,
        "annotations": labels,
        "yaxis": axis("change of error by sharing, %", range=[lowest * 1.15 - 1, min(max(*y, 0), MOST) + 4], zeroline=True),
    }
    return [trace], layout


def _dumbbells(tasks: list[Any], which: str, metric: str) -> tuple[list[dict], dict]:
    names = [n for n, _ in tasks][::-1]
    alone = [t[f"{which}_alone"] for _, t in tasks][::-1]
    shared = [t[f"{which}_shared"] for _, t in tasks][::-1]
    ends, twice = [v for pair in zip(alone, shared) for v in (*pair, None)], [v for n in names for v in (n, n, None)]
    traces = [line(ends, twice, "@muted", "", "lines", width=2, showlegend=False)]
    for name, x, colour, symbol in (("alone", alone, "@orange", "circle"), ("shared", shared, "@blue", "diamond")):
        marker, hover = {"size": 11, "color": colour, "symbol": symbol}, "%{y} " + name + ": %{x:.4g}<extra></extra>"
        traces.append(line(x, names, colour, hover, "markers", name=name, marker=marker))
    return traces, {"xaxis": axis(metric, rangemode="tozero"), "yaxis": names_axis(names)}


def own_model(run: Run) -> list[Chart]:
    """For one owner: the coefficients of its model."""
    if len(run.task_names) != 1 or len(run.coefficients) != 1:
        return []
    ((name, coef),) = run.coefficients.items()
    values = [float(v) for v in coef.reshape(-1, len(run.feature_names))[0]]
    order = sorted(range(len(values)), key=lambda j: -abs(values[j]))[:30]
    rows = [(run.feature_names[j], number(values[j])) for j in order]
    names = [run.feature_names[j] for j in order]
    trace = lying([values[j] for j in order], names, "@blue", "%{y}: %{x:.4g}<extra></extra>")
    layout = {"xaxis": axis("coefficient, in the units of the data", zeroline=True), "yaxis": names_axis(names)}
    text, note = f"The {len(order)} largest coefficients.", "Yours alone: whoever sees these coefficients learns about your rows."
    head, height = ("feature", "coefficient"), 130 + 20 * len(order)
    return [Chart("model", f"Your model: {name}", text, [trace], layout, head, rows, note, height)]
