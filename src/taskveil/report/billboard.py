"""Pictures of what is on the billboard, before the first and after the last round. Only public arrays come here."""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.report.chart import Chart, axis, bars, number
from taskveil.report.records import Board, Run

ORDER = ("structure", "features", "relationship", "omega", "map", "second-moment", "mean", "centre", "share")
LARGEST_SIDE = 20  # rows and columns whose names can be read
MOST = 2
TITLES = {
    "structure": "Shared directions",
    "relationship": "How tasks relate",
    "omega": "How tasks relate",
    "map": "The map every task applies",
    "second-moment": "Noisy second moment of the models",
    "mean": "The shared model",
    "centre": "The shared centre",
    "share": "How much each shared direction counts",
    "features": "How much each feature counts",
}


def pictures(run: Run) -> list[Chart]:
    """Up to two pictures, the most telling arrays first."""
    if not run.boards:
        return []
    after = shown(run.boards[-1])
    before = shown(run.boards[0]) if len(run.boards) > 1 else {}
    names = sorted(after, key=lambda n: (ORDER.index(n) if n in ORDER else len(ORDER), -after[n].size))
    names = [n for n in names if after[n].size > 1 and np.isfinite(after[n]).all() and np.any(after[n])]
    last = run.boards[-1].round
    return [_picture(n, after[n], before.get(n), run, last) for n in names[:MOST]]


def shown(board: Board) -> dict[str, np.ndarray]:
    """Arrays of numbers with one or two axes; basis and share of the subspace as the one matrix they stand for."""
    arrays = {}
    for name, value in board.values.items():
        array = np.asarray(value)
        if array.dtype.kind not in "fiu" or array.size == 0 or array.ndim > 3:
            continue
        array = np.squeeze(array.astype(float))
        arrays[name] = array.reshape(-1, array.shape[-1]) if array.ndim > 2 else array
    basis, share = arrays.pop("basis", None), arrays.get("share")
    if basis is not None and basis.ndim == 2 and share is not None and share.shape == (basis.shape[1],):
        arrays["structure"] = (basis * share) @ basis.T
    return {n: a for n, a in arrays.items() if a.ndim in (1, 2)}


def _picture(name: str, after: np.ndarray, before: np.ndarray | None, run: Run, last: int) -> Chart:
    same = before is not None and before.shape == after.shape
    if after.ndim == 1:
        return _bars(name, after, before if same else None, run, last)
    return _maps(name, after, before if same else None, run, last)


def _bars(name: str, after: np.ndarray, before: np.ndarray | None, run: Run, last: int) -> Chart:
    labels = _labels(after.size, run, "direction" if name == "share" else "entry")
    keep = np.argsort(-np.abs(after), kind="stable")[:40]
    x = [labels[j] for j in keep]
    traces = []
    if before is not None and np.any(before):
        traces.append(bars(x, before[keep].tolist(), "@muted", name="before"))
    traces.append(bars(x, after[keep].tolist(), "@green", name=f"after round {last}"))
    rows = [(labels[j], number(float(after[j]))) for j in keep]
    layout = {"xaxis": axis("", type="category"), "yaxis": axis("value on the billboard", zeroline=True)}
    return _chart(name, f"{after.size} values after round {last}.", traces, layout, ("", "value"), rows, note(run))


def _chart(name: str, *shown: Any) -> Chart:
    return Chart(f"board-{name}", TITLES.get(name, f"On the billboard: {name}"), *shown)


def note(run: Run) -> str:
    """Where the values come from; noise is in them where there was some."""
    private = run.plan is not None and run.plan.budget.epsilon is not None
    return "From the billboard, which every participant saw" + (": noise is part of it." if private else ".")


def _maps(name: str, after: np.ndarray, before: np.ndarray | None, run: Run, last: int) -> Chart:
    kept = _largest(after)
    z, rows, columns = _reduced(after, kept, run)
    top = float(np.abs(z).max()) or 1.0
    trace = {
        "type": "heatmap", "z": np.round(z, 5).tolist(), "x": columns, "y": rows, "zmin": -top, "zmax": top,
        "colorscale": "@diverging", "colorbar": {"thickness": 10, "outlinewidth": 0},
        "hovertemplate": "%{y} / %{x}: %{z:.3g}<extra></extra>",
    }  # fmt: skip
    layout: dict[str, Any] = {
        "xaxis": axis("", type="category", showgrid=False, tickangle=-45),
        "yaxis": axis("", type="category", autorange="reversed", showgrid=False),
    }
    traces = [trace]
    if before is not None and np.any(before) and not np.allclose(before, after):
        first, _, _ = _reduced(before, kept, run)
        traces = [trace | {"z": np.round(first, 5).tolist(), "showscale": False, "xaxis": "x2"}, trace]
        layout["xaxis2"] = layout["xaxis"] | {"domain": [0, 0.46], "title": {"text": "before"}}
        layout["xaxis"] = layout["xaxis"] | {"domain": [0.54, 1], "title": {"text": f"after round {last}"}}
    size = " x ".join(map(str, after.shape))
    strong = np.argsort(-np.abs(z), axis=None, kind="stable")[:20]
    table = [(rows[i // z.shape[1]], columns[i % z.shape[1]], number(float(z.flat[i]))) for i in strong]
    drawn = "" if z.size == after.size else f" Drawn: the {' x '.join(map(str, z.shape))} part with the largest entries."
    caption = f"A {size} matrix after round {last}. Largest entry: {table[0][0]} with {table[0][1]}, {table[0][2]}.{drawn}"
    return _chart(name, caption, traces, layout, ("row", "column", "value"), table, note(run), 420)


def _largest(matrix: np.ndarray) -> list[np.ndarray]:
    """Which rows and columns are drawn: those with the largest entries, in their order; the same ones of a symmetric matrix."""
    size = np.abs(matrix)
    return [np.sort(np.argsort(-size.max(axis=other), kind="stable")[:LARGEST_SIDE]) for other in (1, 0)]


def _reduced(matrix: np.ndarray, kept: list[np.ndarray], run: Run) -> tuple[np.ndarray, list[str], list[str]]:
    """The rows and columns that are drawn, with their names."""
    rows, columns = ([_labels(n, run, "")[j] for j in keep] for n, keep in zip(matrix.shape, kept))
    return matrix[np.ix_(*kept)], rows, columns


def _labels(n: int, run: Run, word: str) -> list[str]:
    """Feature names where the length fits (with the intercept's behind them), task names likewise, else numbers."""
    for names in (run.feature_names, run.task_names, (*run.feature_names, "intercept")):
        if word != "direction" and n == len(names) > (names is run.task_names):
            return list(names)
    return [f"{word} {j + 1}".strip() for j in range(n)]
