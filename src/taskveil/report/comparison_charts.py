"""Charts of a comparison: error over epsilon, and how long training took."""

from __future__ import annotations

from typing import Any

from taskveil.estimators.metrics import LOWER_IS_BETTER
from taskveil.report.chart import COLOURS, Chart, axis, level, line, lying, number
from taskveil.report.records import Run
from taskveil.report.words import METRICS

LONGEST_TITLE = 34  # letters
DASHES = ("dash", "dot", "dashdot", "longdash", "longdashdot")


def curves(run: Run) -> list[Chart]:
    """Error (or score) over epsilon, with the spread over repeats; what needs no epsilon as dashed levels."""
    if run.comparison is None:
        return []
    rows, metric = run.comparison["results"], run.comparison["metric"]
    levels: list[dict[str, Any]] = []
    lines: dict[tuple[str, str], list[Any]] = {}
    far = [r for r in rows if r["method"] == "constant" and not _in_sight(r["mean"], rows)]
    for r in rows:
        if r in far:
            continue
        if r["epsilon"] is None:
            name = f"{r['method']}, no noise" if r["method"] != "local" else "each task alone"
            levels.append(level(r["mean"], name, "@muted", DASHES[len(levels) % len(DASHES)]))
        else:
            lines.setdefault((r["method"], r["variant"]), []).append(r)
    traces = [_line(named, results, COLOURS[i % len(COLOURS)]) for i, (named, results) in enumerate(lines.items())]
    epsilons = sorted({r["epsilon"] for r in rows if r["epsilon"] is not None})
    if not traces:
        return []
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    ticks = {"tickmode": "array", "tickvals": epsilons, "ticktext": [f"{e:g}" for e in epsilons], "type": "log"}
    return [
        Chart(
            "curves",
            "Privacy against error" if better == "lower" else "Privacy against score",
            f"{_sentence(METRICS.get(metric, metric))} on held-out rows: {len(lines)} private method(s), "
            f"{len(epsilons)} budget(s); {better} is better."
            + "".join(f" A constant for each task ({number(r['mean'])}) is too far off to be drawn." for r in far),
            traces,
            {
                "xaxis": axis("epsilon (more privacy to the left)", **ticks),
                "yaxis": axis(_short(metric), range=_reach([r for r in rows if r not in far])),
                "shapes": levels,
                "showlegend": True,
            },
            ("method", "variant", "epsilon", metric, "spread"),
            [(r["method"], r["variant"], number(r["epsilon"]), number(r["mean"]), number(r["std"])) for r in rows],
            _note(run.comparison["repeats"]),
            380,
            True,
        )
    ]


def _sentence(words: str) -> str:
    """With a capital at its start, and the capitals it has: AUC stays AUC."""
    return words[:1].upper() + words[1:]


def _short(metric: str) -> str:
    """A name that fits beside an axis: on a telephone a longer one is cut off."""
    words = METRICS.get(metric, metric)
    if len(words) <= LONGEST_TITLE:
        return words
    return words.rpartition("(")[2].removesuffix(")") if words.endswith(")") else metric


def _reach(rows: list[dict[str, Any]]) -> list[float]:
    """From the lowest to the highest that is drawn, spread and levels with it, and some room; a lone point has some too."""
    ends = [r["mean"] + side * r["std"] for r in rows for side in (-1.0, 1.0)]
    room = 0.06 * (max(ends) - min(ends)) or 0.1 * abs(ends[0]) or 1.0
    return [min(ends) - room, max(ends) + room]


def _in_sight(value: float, rows: list[dict[str, Any]]) -> bool:
    """Whether a level may be drawn without pressing all others into one line."""
    rest = [r["mean"] + side * r["std"] for r in rows if r["method"] != "constant" for side in (-1.0, 1.0)]
    room = 2.0 * (max(rest) - min(rest))
    return min(rest) - room <= value <= max(rest) + room


def _line(named: tuple[str, str], results: list[dict[str, Any]], colour: str) -> dict[str, Any]:
    """One method: its mean over epsilon, with bars."""
    method, variant = named
    results = sorted(results, key=lambda r: r["epsilon"])
    spread = {"type": "data", "array": [r["std"] for r in results], "color": colour, "thickness": 1.5, "width": 5}
    hover = "epsilon %{x:g}: %{y:.4f} ± %{error_y.array:.4f}<extra>%{fullData.name}</extra>"
    return line(
        [r["epsilon"] for r in results], [r["mean"] for r in results], colour, hover, marker={"size": 9, "color": colour},
        name=method if variant == "sound" else f"{method} ({variant})", error_y=spread,
    )  # fmt: skip


def _note(repeats: int) -> str:
    spread = f"Bars: standard deviation over {repeats} repeats." if repeats > 1 else "One repeat: how figures vary is not known."
    return f"{spread} Dashed: what needs no epsilon. Choosing a method by these figures is not covered by any epsilon."


def timings(run: Run) -> list[Chart]:
    """Training time of every setting of a comparison."""
    if run.comparison is None:
        return []
    rows = run.comparison["results"]
    names = [r["method"] + ("" if r["epsilon"] is None else f", epsilon {r['epsilon']:g}") for r in rows]
    seconds, text = [r["seconds"] for r in rows], "Seconds per fit for every setting."
    trace = lying(seconds, names, "@purple", "%{y}: %{x:.3g} s<extra></extra>")
    layout = {"xaxis": axis("seconds per fit", rangemode="tozero"), "yaxis": axis("", type="category")}
    table = [(name, number(s)) for name, s in zip(names, seconds)]
    height = 150 + 24 * len(rows)
    return [Chart("seconds", "Training time", text, [trace], layout, ("setting", "seconds"), table, height=height)]
