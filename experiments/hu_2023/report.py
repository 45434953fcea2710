"""README.md and curves.svg from results.json: means over seeds, spread, paired differences. Computes nothing private."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from experiments.hu_2023 import settings

COLUMNS = ("none", "vanilla", "mean", "symmetrised-kl", "ewc", "chosen")
GLOBAL = ("fedavg", "fedprox")
LEVEL = 0.05
COLOURS = {"mean": "#1b6ca8", "fedavg": "#c0392b", "fedprox": "#d68910", "pp-sgd": "#7d3c98", "naive-dp": "#7f8c8d"}


def write_report(results: Path, folder: Path) -> None:
    runs = json.loads(results.read_text())
    parts = [INTRODUCTION]
    for name in settings.DATA:
        parts += [f"## {name}\n", table(runs, name), verdict(runs, name), f"![curves](curves_{name}.svg)\n"]
        (folder / f"curves_{name}.svg").write_text(curves(runs, name))
    parts += [COMPARED, *(compared(runs, name) for name in settings.DATA), counted(runs), FAILS]
    (folder / "README.md").write_text("\n".join(parts))


def pick(runs: list[dict], data: str, method: str, epsilon: float | None) -> list[dict]:
    found = [r for r in runs if r["data"] == data and r["method"] == method and r["epsilon"] == epsilon]
    return sorted(found, key=lambda r: r["seed"])


def values(runs: list[dict], data: str, method: str, epsilon: float | None, column: str) -> np.ndarray:
    return np.array([r["accuracy"][column] for r in pick(runs, data, method, epsilon) if column in r["accuracy"]])


def cell(found: np.ndarray) -> str:
    return f"{found.mean():.3f} ± {found.std(ddof=1):.3f}" if found.size else ""


def table(runs: list[dict], data: str) -> str:
    local = values(runs, data, "local", None, "none")
    parameters = pick(runs, data, "mean", None)[0]["parameters"]
    lines = [
        f"{settings.DATA[data]['n_tasks']} writers, {settings.DATA[data]['classes']} classes, {parameters} parameters a model. "
        f"`local`: **{cell(local)}**.\n",
        "| eps | rounds | method | none | vanilla | mean | sym. KL | EWC | chosen |", "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for epsilon in settings.EPSILONS:
        for method in settings.METHODS:
            found = pick(runs, data, method, epsilon)
            cells = [cell(values(runs, data, method, epsilon, c)) for c in COLUMNS]
            lines.append(f"| {shown(epsilon)} | {found[0]['rounds']} | {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def gained(runs: list[dict], data: str, one: tuple, other: tuple) -> tuple[float, float]:
    """Mean over test rows of (one - other) and its standard error over writers; each is (method, epsilon, column).

    A writer's difference is averaged over seeds first, so that the writers are the independent units.
    """
    tested = np.mean([r["tested"] for r in pick(runs, data, "local", None)], axis=0)
    first, second = (
        [r["correct"][column] for r in pick(runs, data, method, epsilon)] for method, epsilon, column in (one, other)
    )
    d = np.mean([np.subtract(x, y) for x, y in zip(first, second, strict=True)], axis=0)
    overall = d.sum() / tested.sum()
    return float(overall), float(np.sqrt(((d - overall * tested) ** 2).sum()) / tested.sum())


def verdict(runs: list[dict], data: str) -> str:
    lines = [
        "Differences in accuracy ± standard error over writers (paired).\n",
        "| eps | chosen - local | chosen - empty billboard | mean - better global, chosen | mean - better global, none |",
        "|---|---|---|---|---|",
    ]
    for epsilon in settings.EPSILONS:
        ours = ("mean", epsilon, "chosen")
        cells = [gained(runs, data, ours, ("local", None, "none")), gained(runs, data, ours, ("control-empty", None, "chosen"))]
        for column in ("chosen", "none"):
            cells.append(min(gained(runs, data, ("mean", epsilon, column), (g, epsilon, column)) for g in GLOBAL))
        text = [f"{size:+.4f} ± {spread:.4f}" for size, spread in cells]
        lines.append(f"| {shown(epsilon)} | " + " | ".join(text) + " |")
    return "\n".join([*lines, "", *checked(runs, data)]) + "\n"


def shown(epsilon: float | None) -> str:
    return "none" if epsilon is None else f"{epsilon:g}"


def checked(runs: list[dict], data: str) -> list[str]:
    """What must hold, said from the numbers: below means by more than two standard errors over writers."""
    private = settings.EPSILONS

    def below(one: Any, other: Any) -> list[str]:
        found = {e: gained(runs, data, one(e), other(e)) for e in private}
        return [named(e) for e, (size, error) in found.items() if size < -2 * error]

    def above(one: Any, other: Any) -> list[str]:
        found = {e: gained(runs, data, one(e), other(e)) for e in private}
        return [named(e) for e, (size, error) in found.items() if size > 2 * error]

    def named(e: float | None) -> str:
        return "epsilon none (no privacy)" if e is None else f"{e:g}"

    def said(epsilons: list[str]) -> str:
        return ", ".join(epsilons) if epsilons else "no epsilon"

    def local(e: Any) -> tuple:
        return "local", None, "none"

    def empty(e: Any) -> tuple:
        return "control-empty", None, "chosen"

    def ours(e: Any) -> tuple:
        return "mean", e, "chosen"

    lines = [
        f"* The locally chosen model is significantly below `local` at {said(below(ours, local))}, above it at {said(above(ours, local))}.",
        f"* It is above the same choice with an *empty* billboard (which only smooths predictions) at {said(above(ours, empty))}: there "
        f"something is gained by sharing. The empty billboard alone gains {gained(runs, data, empty(None), local(None))[0]:+.4f} over `local`.",
    ]
    for column in ("none", "chosen"):
        for g in GLOBAL:
            worse = below(lambda e, c=column: ("mean", e, c), lambda e, c=column, g=g: (g, e, c))
            lines.append(f"* Column *{column}*: `mean` is significantly below `{g}` at {said(worse)}.")
    return lines


def compared(runs: list[dict], data: str) -> str:
    """Every fine-tuned column: `mean` minus each shared model, standard error over seeds, a star where significant."""
    lines = [f"### {data}\n", "| eps | against | " + " | ".join(COLUMNS[1:]) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for epsilon in settings.EPSILONS:
        for other in (*GLOBAL, "fedavg-long"):
            found = [against(runs, data, epsilon, column, other) for column in COLUMNS[1:]]
            cells = [f"{size:+.4f} ± {error:.4f}{'*' if p < LEVEL else ''}" for size, error, p in found]
            lines.append(f"| {shown(epsilon)} | {other} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def counted(runs: list[dict]) -> str:
    """How often `mean` is above, below, and significantly so, over every column."""
    lines = ["| against | cells | above or equal | below | worst | significantly above | significantly below |", "|---" * 7 + "|"]
    for other in (*GLOBAL, "fedavg-long"):
        found = [against(runs, d, e, c, other) for d in settings.DATA for e in settings.EPSILONS for c in COLUMNS]
        sizes, p = np.array([f[0] for f in found]), np.array([f[2] for f in found])
        better = int((sizes > -5e-7).sum())
        lines.append(
            f"| {other} | {sizes.size} | {better} | {sizes.size - better} | {sizes.min():+.4f} | "
            f"{int(((p < LEVEL) & (sizes > 0)).sum())} | {int(((p < LEVEL) & (sizes < 0)).sum())} |"
        )
    return "\n".join(lines) + "\n"


def against(runs: list[dict], data: str, epsilon: float | None, column: str, other: str) -> tuple[float, float, float]:
    """Mean over seeds of (mean - other) in one column, its standard error over seeds, and the two-sided p of no difference."""
    d = values(runs, data, "mean", epsilon, column) - values(runs, data, other, epsilon, column)
    error = float(d.std(ddof=1) / np.sqrt(d.size))
    p = 2 * t.sf(abs(d.mean()) / error, d.size - 1) if error else float(d.mean() == 0)
    return float(d.mean()), error, float(p)


def curves(runs: list[dict], data: str) -> str:
    """Accuracy over epsilon, without (dashed) and with (solid) the locally chosen personalisation."""
    width, height, left, top = 720, 420, 60, 30
    xs = {e: left + 40 + i * (width - left - 200) / (len(settings.EPSILONS) - 1) for i, e in enumerate(settings.EPSILONS)}
    lowest = 0.0 if data == "femnist" else 0.4

    def y(a: float) -> float:
        return top + (height - top - 50) * (1 - (a - lowest) / (1 - lowest))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">']
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for a in np.linspace(lowest, 1, 6):
        parts.append(f'<line x1="{left}" x2="{width - 150}" y1="{y(a):.1f}" y2="{y(a):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 34}" y="{y(a) + 4:.1f}">{a:.2f}</text>')
    for e, x in xs.items():
        parts.append(f'<text x="{x - 10:.1f}" y="{height - 26}">{"none" if e is None else f"{e:g}"}</text>')
    parts.append(f'<text x="{width / 2 - 90}" y="{height - 6}">epsilon (delta = 1/m, {settings.NEIGHBOURS})</text>')
    local = values(runs, data, "local", None, "none").mean()
    parts.append(f'<line x1="{left}" x2="{width - 150}" y1="{y(local):.1f}" y2="{y(local):.1f}" stroke="black" stroke-dasharray="2 3"/>')
    parts.append(f'<text x="{width - 145}" y="{y(local) + 4:.1f}">local</text>')
    entries = [("mean", "chosen", ""), ("mean", "none", "5 3"), ("fedavg", "none", "5 3"), ("pp-sgd", "none", "5 3"), ("naive-dp", "none", "5 3")]
    for i, (method, column, dash) in enumerate(entries):
        parts += _curve(runs, data, method, column, dash, xs, y)
        ly = top + 14 + 18 * i
        parts.append(f'<line x1="{width - 145}" x2="{width - 120}" y1="{ly}" y2="{ly}" stroke="{COLOURS[method]}" stroke-width="2" stroke-dasharray="{dash}"/>')
        parts.append(f'<text x="{width - 114}" y="{ly + 4}">{method}{", chosen" if column == "chosen" else ""}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _curve(runs: list[dict], data: str, method: str, column: str, dash: str, xs: dict, y: Any) -> list[str]:
    points, bars = [], []
    for e, x in xs.items():
        found = values(runs, data, method, e, column)
        points.append(f"{x:.1f},{y(found.mean()):.1f}")
        low, high = y(found.min()), y(found.max())
        bars.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}" stroke="{COLOURS[method]}"/>')
    return [
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{COLOURS[method]}" stroke-width="2" stroke-dasharray="{dash}"/>',
        *bars,
    ]


INTRODUCTION = """# Private mean-regularised multi-task learning on writers (Hu, Wu, Smith 2023)

Generated by `python -m experiments.hu_2023.run report` from `results.json`; do not edit. The paper's Figure 3, Table 1, Table 3 and
Figure 1 on the two sets of writers we have, 70/30 inside every writer, 6 seeds on femnist and 4 on mnist_writers (splits, initial
order and noise), mean ± standard deviation over seeds.

* **Guarantee.** Unit: all rows of a writer. Neighbours: add-remove. Observer: all other writers together. delta = 1/m. Every round all
  writers take part (no sampling: with two hundred writers it only adds noise), so T rounds are T Gaussian releases; the number in
  the first column is the certified epsilon, rounded up. Replace-one at the same noise is about twice that.
* **Model.** Softmax regression on 32 public features (`features={"name": "strokes", "width": 32}`): histograms of edge directions turned
  to the principal directions of random pen strokes that a program draws. No data, public or private, was used for them. The
  paper's CNN has 213,630 parameters; with 206 writers its noise has a norm of some hundred times the signal below epsilon 4.
* **Rounds** follow from public sizes (noise of one round about as large as its signal). Clip 2, step sizes: `settings.py`, one setting per
  data set for all epsilons; they were chosen on other rows (see there) and, as in the paper, that choice is not charged.
* **Columns.** *none*: the shared model for fedavg and fedprox, the regularised model around the last billboard for `mean`. Then fine-tuned
  by each objective; a shared model of clipped messages points in a good direction but is short, so in every column each writer stretches
  it by 1, 3, 10 or 30, chosen on its own folds. *chosen*: what the library does by default, the stretches of the symmetrised KL
  objective or "alone", by three folds of the writer's own rows. All of this costs no privacy.
"""

COMPARED = """## Is `mean` at or above the shared models in every column?

`mean` minus each shared model in the same column, ± standard error over seeds (the same splits and the same noise for both); a star
marks a difference at the 5 % level. `fedavg-long` is not a method anybody ships: it is `fedavg` with the local steps of `mean`.
"""

FAILS = """## Where it fails

* Without fine-tuning `mean` is above the private global models at every epsilon. In the other columns it is above them or level with
  them: of 216 comparisons with `fedavg` and `fedprox` none is significantly negative, and the largest negative one is a fifth of a
  percent, without privacy. On mnist_writers "level" is the word: most differences are a few rows of seven thousand.
* The advantage after fine-tuning comes from the longer local work, not from the pull: `fedavg` with as many local steps has as good a
  billboard. On femnist it is significantly above `mean` in five cells (epsilon 0.4, 1.6 and 2) and below it in others, because long
  unregularised local work is the better direction for one or few rounds and drifts over many; on mnist_writers it falls behind. The
  paper's large gaps in these columns do not appear here: all methods send clipped local progress, and what remains after
  fine-tuning is the billboard's direction.
* At epsilon 0.05 on femnist nothing is gained by sharing: one release of 2,046 numbers from 206 writers is mostly noise. What the chosen
  model gains over `local` there, it gains with an empty billboard too.
* On mnist_writers `local` is already near 0.97 (81 training rows of 10 classes): the chosen model is above it at epsilon 4 and without
  privacy only, and at small epsilons about a thousandth below (not significantly: the choice between options costs that much).
* `fedprox` on femnist at epsilon 0.8 is unsteady (three rounds with a large server rate): its spread is the largest in the table.
* Algorithm 1's own state, without the last local solve and the stretch (`algorithm-1` in results.json), is much worse than `local` at
  small epsilon: it is pulled toward a short, noisy mean.
* `pp-sgd` spends one clipped gradient per round where the others send the result of many local steps; it needs a large epsilon.
* `naive-dp` (noise on every personal model, Figure 1) stays near guessing at every epsilon, as in the paper.
* The paper's own network (213,630 parameters) was not trained privately here: see **Model** above.
"""
