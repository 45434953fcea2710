"""Charts of the guarantee: budget over rounds, noise over signal, attack against claim. From public plans only."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from taskveil.errors import TaskveilError
from taskveil.estimators.planning import HOPELESS, WORTH, noise_and_signal
from taskveil.report.chart import COLOURS, Chart, axis, bars, level, line, number
from taskveil.report.records import Run

ACCOUNTING_SECONDS = 3.0
POINTS = 12


def budget(run: Run) -> list[Chart]:
    """Epsilon certified after every round; recomputed from the plan, which is public."""
    plan = run.plan
    if plan is None or plan.budget.epsilon is None or not plan.releases:
        return []
    steps = _spent(plan)
    if not steps:
        return []
    several = len(plan.rounds()) > 1
    ticks = -(-len(plan.rounds()) // 10)  # whole rounds, about ten of them
    x = [text for text, _ in steps]
    planned = level(plan.budget.epsilon, f"planned: epsilon {plan.budget.epsilon:g}", "@red")
    trace = line(
        x, [e for _, e in steps], "@blue", "%{x}: epsilon %{y:.4g}<extra></extra>", shape="hv", name="spent",
        marker={"size": 8, "color": "@blue"}, fill="tozeroy", fillcolor="@faint",
    )  # fmt: skip
    most = max(plan.budget.epsilon, steps[-1][1])
    layout = {
        "xaxis": axis("after round", dtick=ticks) if several else axis("after release", type="category"),
        "yaxis": axis(f"epsilon at delta {plan.budget.delta:.2g}", range=[0, 1.25 * most]),
        "shapes": [planned], "showlegend": True,
    }  # fmt: skip
    title = "Budget spent over " + ("rounds" if several else "releases")
    text = f"Epsilon grows to {steps[-1][1]:.3g} over {len(plan.releases)} release(s) at delta {plan.budget.delta:.3g}."
    note = "What the accountant certifies if a run stops there." + (" It adds up less than linearly." if len(steps) > 2 else "")
    return [Chart("budget", title, text, [trace], layout, ("after", "epsilon"), [(str(t), number(e)) for t, e in steps], note)]


def _spent(plan: Any) -> list[tuple[Any, float]]:
    """(round or release, epsilon); ends first, then as many in between as a few seconds allow."""
    rounds = plan.rounds()
    if len(rounds) > 1:
        counts = [sum(len(rs) for _, rs in rounds[: k + 1]) for k in range(len(rounds))]
        marks = [t for t, _ in rounds]
    else:
        counts = list(range(1, len(plan.releases) + 1))
        marks = [r.name for r in plan.releases]
    every = max(1, math.ceil(len(counts) / POINTS))
    wanted = sorted({len(counts) - 1, 0, *range(every - 1, len(counts), every)}, key=lambda k: (k not in (0, len(counts) - 1), k))
    spent, started = {}, time.monotonic()
    for k in wanted:
        if time.monotonic() - started > ACCOUNTING_SECONDS:
            break
        try:
            value = float(replace(plan, releases=plan.releases[: counts[k]]).epsilon())
        except (TaskveilError, ValueError):
            return []
        if math.isfinite(value):
            spent[k] = value
    start = [(0, 0.0)] if len(rounds) > 1 else [("start", 0.0)]
    return start + [(marks[k], spent[k]) for k in sorted(spent)]


def noise(run: Run) -> list[Chart]:
    """Noise over signal of every release, from public sizes: what `taskveil plan` says."""
    if run.plan is None or run.public is None or run.plan.budget.epsilon is None or not run.plan.releases:
        return []
    if str(run.plan.budget.unit) == "record" and run.public.task_rows is None:
        return []  # pages that hold no number of rows: tasks in their place would make the noise look many times too large
    series: dict[str, list[tuple[int, float]]] = {}
    for planned in run.plan.releases:
        noise, signal = noise_and_signal(planned, run.public)
        if signal:
            series.setdefault(planned.name, []).append((planned.round, noise / signal))
    if not series:
        return []
    every = max(1, math.ceil(max(map(len, series.values())) / 60))
    traces = []
    for k, (name, points) in enumerate(series.items()):
        x = [f"round {t}" if len(points) == 1 else t for t, _ in points[::every]]
        y, hover = [v for _, v in points[::every]], name + ": %{y:.3g}<extra></extra>"
        traces.append(bars(x, y, COLOURS[k % len(COLOURS)], hover, name=name))
    values = [v for points in series.values() for _, v in points]
    low, top = min(values), max(values)
    ratios = f"Ratio {low:.2g}" if low == top else f"Ratios from {low:.2g} to {top:.2g}"
    marks = [(WORTH, "stands clear below", "@green"), (HOPELESS, "noise as large as signal", "@red")]
    shown = [mark for mark in marks if mark[0] == WORTH or mark[0] < 1.6 * top]
    lines = [level(y, words, colour) for y, words, colour in shown]
    rows = [(name, str(t), number(v)) for name, points in series.items() for t, v in points]
    layout = {
        "xaxis": axis("round" if len(run.plan.rounds()) > 1 else ""), "barmode": "group", "showlegend": True, "shapes": lines,
        "yaxis": axis("noise / signal", range=[0, 1.25 * max(top, WORTH)]), "bargap": 0.45 if len(rows) < 8 else 0.15,
    }  # fmt: skip
    text = f"{ratios}; below {WORTH:g} what tasks share stands clear of the noise."
    note = "Typical size of the noise over the size of the sum if tasks agree on a few directions. From public sizes."
    head = ("release", "round", "noise / signal")
    return [Chart("noise", "Noise to signal per round", text, traces, layout, head, rows[:400], note)]


def audit(run: Run) -> list[Chart]:
    """What an attack showed at least, beside what is claimed at most."""
    rows: list[tuple[str, Any, Any, str]] = [
        (str(a.get("target", "?")), a.get("lower_bound"), a.get("claimed_epsilon"), str(a.get("verdict", ""))) for a in run.audits
    ]
    rows = [r for r in rows if isinstance(r[1], (int, float)) and isinstance(r[2], (int, float))]
    if not rows:
        return []
    names = [r[0].replace(" (", "<br>(", 1).replace(", ", ",<br>") for r in rows]
    traces = []
    for bad, name, colour in ((False, "attack shows at least", "@blue"), (True, "attack refutes the claim", "@red")):
        these = [(n, r[1]) for n, r in zip(names, rows) if (r[3] == "refuted") == bad]
        if these:
            shown, bounds = zip(*these)
            hover = "at least %{x:.3g}<extra></extra>"
            traces.append(bars(bounds, shown, colour, hover, orientation="h", name=name))
    marker = {"symbol": "line-ns-open", "size": 34, "line": {"width": 3, "color": "@orange"}, "color": "@orange"}
    hover, claims = "claimed: at most %{x:.3g}<extra></extra>", [r[2] for r in rows]
    traces.append(line(claims, names, "@orange", hover, "markers", name="claimed at most", marker=marker))
    refuted = sum(r[3] == "refuted" for r in rows)
    nothing = "" if all(r[1] for r in rows) else " No bar is drawn where an attack showed nothing: at least 0."
    layout = {
        "xaxis": axis("epsilon", rangemode="tozero"), "barmode": "overlay", "bargap": 0.55,
        "yaxis": axis("", type="category", tickfont={"size": 11}, categoryorder="array", categoryarray=names[::-1]),
    }  # fmt: skip
    text = f"{refuted} of {len(rows)} audit(s) refute their claim.{nothing}"
    head = ("target", "attack shows at least", "claimed at most", "verdict")
    table = [(r[0], number(r[1]), number(r[2]), r[3]) for r in rows]
    note = "An attack can refute a claim, never prove it. What was attacked stands in the certificate, under attack."
    height = max(260, 130 + 64 * len(rows))
    return [Chart("audit", "Attacked: lower bound against claim", text, traces, layout, head, table, note, height)]
