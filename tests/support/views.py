"""Views that a lying server may send, and rows that preparation lets through: for tests that a site answers all of them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from hypothesis import strategies as st

from taskveil import methods
from taskveil.methods.base import Method, PublicInfo, View
from taskveil.methods.published import Shown, published
from taskveil.privacy.plan import Budget, Plan, make_plan
from taskveil.tasks.block import TaskBlock

N_TASKS, FEATURES = 4, 3
OPTIONS: dict[str, dict[str, Any]] = {"clustered-mean": {"clusters": [0, 0, 1, 1]}}
HUGE = 1e150  # what preparation lets through where rows or targets are used as they come
LEAST = 5e-324  # above zero: whatever is divided by it overflows
ROWS = ("plain", "constant", "one class", "one row", "tiny", "extreme", "raw")
MIXES = ("zero", "low", "high", "random", "signs", "small", "least")


def setting(name: str, kind: str, *, epsilon: float = 1.0, **more: Any) -> tuple[Method, PublicInfo, Plan]:
    options = {**OPTIONS.get(name, {}), **more.pop("options", {})}
    method = methods.get(name, **options)
    unit = more.pop("unit", method.units[0])
    rows = (12,) * N_TASKS if unit == "record" else None
    public = PublicInfo(N_TASKS, FEATURES, 1, kind, declared_bounds=True, task_rows=rows)
    method = method.under(unit, more.get("variant", "sound"))
    budget = method.adjust(Budget(epsilon, 1e-5, unit, neighbours="add-remove", **more))
    method.check(public, budget)
    return method, public, make_plan(method.requests(public, budget), budget)


def rows_of(case: str, kind: str, seed: int, tasks: int = 2, raw_features: bool = False) -> TaskBlock:
    """A block of `tasks` tasks. "raw": a target of any size, and features too where the method takes rows as they come."""
    rng = np.random.default_rng(seed)
    n = 1 if case == "one row" else 12
    X = rng.uniform(-1, 1, (n * tasks, FEATURES))
    y = rng.uniform(-1, 1, n * tasks)
    if case == "constant":
        X[:, 1:], y = 0.5, np.full_like(y, 0.25)
    if case == "tiny":
        X, y = X * 1e-150, y * 1e-150
    if case == "extreme":
        X, y = np.sign(X), np.sign(y) * np.sqrt(n)
    if case == "raw":
        y = y * HUGE
        X = X * HUGE if raw_features else X / np.linalg.norm(X, axis=1, keepdims=True)
    if kind == "classification":
        y = np.where(y > 0, 1.0, -1.0) if case != "one class" else np.ones_like(y)
    return TaskBlock(X, y, np.arange(tasks + 1) * n, kind=kind)


def values_of(shown: Shown, mix: str, rng: np.random.Generator, n_tasks: int) -> np.ndarray:
    """An array inside its range: at an end of it, somewhere in it, or at both ends by turns."""
    shape = (n_tasks, *shown.shape[1:]) if shown.per_task else shown.shape
    part = {"zero": 0.0, "low": shown.low, "high": shown.high, "least": LEAST}.get(mix)
    if part is not None:
        values = np.full(shape, part)
    elif mix == "signs":
        values = np.where(rng.random(shape) < 0.5, shown.low, shown.high)
    else:
        values = rng.uniform(shown.low, shown.high, shape) * (1e-6 if mix == "small" else 1.0)
    return np.clip(values, shown.low, shown.high).astype(shown.dtype)


def view_of(method: Method, public: PublicInfo, plan: Plan, round: int, mix: str, seed: int, n_tasks: int = 2) -> View:
    rng, shown = np.random.default_rng(seed), published(method, public, plan)
    assert shown is not None
    mixes = dict.fromkeys(shown.at(round), mix)
    if mix == "each its own":
        mixes = {name: MIXES[int(rng.integers(len(MIXES)))] for name in mixes}
    values = {name: values_of(one, mixes[name], rng, n_tasks) for name, one in shown.at(round).items()}
    return View(round, values, None, None)


def admissible() -> st.SearchStrategy[tuple[str, str, int, int]]:
    """(rows, mix, round, seed)."""
    return st.tuples(st.sampled_from(ROWS), st.sampled_from((*MIXES, "each its own")), st.integers(0, 2), st.integers(0, 2**31))


def answer(name: str, kind: str, case: str, mix: str, round: int, seed: int, **more: Any) -> list[np.ndarray]:
    """Every number a task side makes of such rows and such a view: messages of `step`, models of `finish`."""
    method, public, plan = setting(name, kind, **more)
    round = min(round, len(plan.rounds()))
    block = rows_of(case, kind, seed, raw_features=plan.budget.unit.value == "record")
    if method.schedule == "asynchronous":
        block = block.take([0])
    view = view_of(method, public, plan, round, mix, seed, block.n_tasks)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tasks = method.task_side(block, public, plan)
        state = tasks.start()
        made: list[Any] = []
        if round < len(plan.rounds()):
            state, message = tasks.step(state, view)
            made += list(message.values())
        if round:
            models = tasks.finish(state, view)
            made += [models.coef, models.intercept]
    return [a for m in made for a in ([m] if isinstance(m, np.ndarray) else _parts(m))]


def _parts(message: Any) -> list[np.ndarray]:
    return [message.X, message.slopes] if hasattr(message, "slopes") else [np.asarray(message.value)]
