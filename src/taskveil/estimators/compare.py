"""Methods and budgets side by side, on held-out rows. A simulation: its figures are not private.

Every repeat is a fresh split (or a fresh draw of a synthetic set), the same for all methods. Noise is seeded, so that a
comparison can be repeated; the certificates of such runs are void for release, and what is listed here are the
statements the same run would make with real randomness.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.estimators import estimator_for
from taskveil.estimators.certify import simulated_statements
from taskveil.estimators.metrics import SHOWN, check_metric, default_metric, evaluate
from taskveil.estimators.recommend import cost, recommendation
from taskveil.methods.base import Method
from taskveil.tasks.robust import medians
from taskveil.tasks.task import TaskSet

ONCE = ("local", "pooled")  # baselines without a budget: listed once, epsilon null
CONSTANT = "constant"
NOT_PRIVATE = (
    "Figures of a comparison are computed from held-out rows of all tasks without noise: they are not private, and "
    "choosing a method by them is not covered by any epsilon printed here."
)


@dataclass
class Setting:
    """One row of the table: a method at one epsilon."""

    method: Method | None  # None: the constant of each task
    epsilon: float | None
    scores: list[float] = field(default_factory=list)
    also: dict[str, list[float]] = field(default_factory=dict)  # other metrics
    seconds: list[float] = field(default_factory=list)
    last: Any = None  # the estimator of the last repeat

    def measure(self, estimator: Any, test: TaskSet, metric: str) -> None:
        """Adds this repeat's error on `test`, by the metric asked for and by the others that a page shows."""
        self.scores.append(evaluate(estimator, test, metric))
        for name in SHOWN[test.kind]:
            if name != metric:
                self.also.setdefault(name, []).append(evaluate(estimator, test, name))


def compare(
    splits: Callable[[int], tuple[TaskSet, TaskSet]],
    methods: Sequence[Method],
    epsilons: Sequence[float | None],
    *,
    repeats: int = 3,
    metric: str | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Run every (method, epsilon) on every repeat; `splits(repeat)` gives train and test tasks."""
    if repeats < 1:
        raise OptionError(f"repeats must be at least 1, got {repeats}")
    settings = list(_settings(methods, epsilons))
    constant = Setting(None, None)
    done, train = 0, None
    for repeat in range(repeats):
        train, test = splits(repeat)
        metric = check_metric(metric or default_metric(train.kind, options.get("loss")), train.kind)
        constant.measure(Constant(train, options.get("loss")), test, metric)
        for setting in settings:
            _one(setting, train, test, metric, seed + repeat, options)
            done += 1
            if progress is not None:
                progress(done, repeats * len(settings))
    assert train is not None and metric is not None
    rows = [_constant_row(constant), *(_row(s, options) for s in settings)]
    return {
        "metric": metric,
        "data": describe(train),
        "results": rows,
        "recommendation": recommendation(rows, metric),
        "cost": cost(rows),
        "repeats": repeats,
        "seed": seed,
        "note": NOT_PRIVATE,
        "gain": _last_gain(settings),
    }


def _settings(methods: Sequence[Method], epsilons: Sequence[float | None]) -> Iterator[Setting]:
    for method in methods:
        for epsilon in [None] if method.name in ONCE else epsilons:
            yield Setting(method, epsilon)


def _one(setting: Setting, train: TaskSet, test: TaskSet, metric: str, seed: int, options: dict[str, Any]) -> None:
    from sklearn.base import clone

    assert setting.method is not None
    kind = estimator_for(train.kind)
    own = dict(options)
    if options.get("variant") not in ("sound", *setting.method.forms):
        own.pop("variant", None)
    if setting.epsilon is None:
        own = {k: v for k, v in own.items() if k not in ("mechanism", "aggregation", "variant")}
    noise_seed = zlib.crc32(f"{seed}/{setting.method.name}/{setting.epsilon}".encode())
    started = time.perf_counter()
    estimator = kind(clone(setting.method), epsilon=setting.epsilon, seed=seed, insecure_noise_seed=noise_seed, **own).fit(train)
    setting.seconds.append(time.perf_counter() - started)
    setting.measure(estimator, test, metric)
    setting.last = estimator


def _row(setting: Setting, options: dict[str, Any]) -> dict[str, Any]:
    assert setting.method is not None
    plan = setting.last.record_.plan
    return {
        "method": setting.method.name,
        "variant": setting.last.certificate_.variant,
        "mechanism": plan.releases[0].mechanism.name if plan.releases else None,
        "epsilon": setting.epsilon,
        "delta": plan.budget.delta if setting.epsilon is not None else None,
        "neighbours": options.get("neighbours", "replace-one"),
        **_figures(setting),
        "seconds": float(np.mean(setting.seconds)),
        "statements": simulated_statements(setting.last.method_, setting.last.record_, setting.last.preparation_),
    }


def _constant_row(setting: Setting) -> dict[str, Any]:
    """The constant of each task, which nobody trains and nobody shares."""
    none = dict.fromkeys(("mechanism", "epsilon", "delta", "neighbours"))
    return {"method": CONSTANT, "variant": "sound", **none, **_figures(setting), "seconds": 0.0, "statements": []}


def _figures(setting: Setting) -> dict[str, Any]:
    scores = np.asarray(setting.scores)
    also = {name: float(np.mean(values)) for name, values in setting.also.items()}
    return {
        "mean": float(scores.mean()),
        "std": float(scores.std(ddof=1)) if scores.size > 1 else 0.0,
        "scores": [float(s) for s in scores],
        "also": {name: value if np.isfinite(value) else None for name, value in also.items()},
        "repeats": int(scores.size),
    }


def _last_gain(settings: list[Setting]) -> dict[str, Any] | None:
    """Per-task gain of the last private setting, for the report's owner page."""
    private = [s for s in settings if s.epsilon is not None and s.last.method_.linear]
    if not private:
        return None
    chosen = private[-1]
    return {"method": chosen.last.method_.name, "epsilon": chosen.epsilon, "tasks": chosen.last.gain_.to_dict()}


def describe(tasks: TaskSet) -> dict[str, Any]:
    """Sizes, kind and target of the data, for the head of a comparison."""
    return {
        "tasks": tasks.n_tasks,
        "features": tasks.n_features,
        "training_rows": tasks.n_rows,
        "kind": tasks.kind,
        "target": tasks.target_name,
        "bounds": "declared" if tasks.bounds is not None else "none",
    }


class Constant:
    """The constant baseline, which every model has to beat: a task's own training mean (median with loss "huber"), or its shares.

    Shares are smoothed by one row that is spread over the classes as the rows of all tasks are. It predicts the rows of a TaskSet
    with the same tasks, as far as `metrics.evaluate` asks.
    """

    def __init__(self, train: TaskSet, loss: str | None = None):
        self.classes_ = train.classes
        of = train.task_of_row()
        values = train.y[:, None] if train.classes is None else np.eye(train.n_classes)[train.codes()]
        if loss == "huber":
            overall = np.median(values, axis=0)
            self.levels = np.where(train.sizes > 0, medians(train.y, train.offsets), overall)[:, None]
            return
        overall = values.mean(axis=0)
        sums = np.stack([np.bincount(of, column, minlength=train.n_tasks) for column in values.T], axis=1)
        rows = train.sizes[:, None]
        if train.classes is None:
            self.levels = np.where(rows > 0, sums / np.maximum(rows, 1), overall)
        else:
            self.levels = (sums + overall) / (rows + 1.0)

    def score(self, test: TaskSet) -> float:
        """Concordance of a model that ranks nothing."""
        return 0.5

    def predict_proba(self, test: TaskSet) -> np.ndarray:
        """(rows, classes): the shares of the labels in each row's task, smoothed by those of all tasks."""
        return self.levels[test.task_of_row()]

    def decision_function(self, test: TaskSet) -> np.ndarray:
        """The same for every row of a task: it ranks nothing, so its AUC is one half."""
        shares = self.predict_proba(test)
        return shares[:, 1] if shares.shape[1] == 2 else shares

    def predict(self, test: TaskSet) -> np.ndarray:
        """(rows,): the mean target, or the commonest label, of each row's task."""
        levels = self.levels[test.task_of_row()]
        return levels[:, 0] if self.classes_ is None else self.classes_[levels.argmax(axis=1)]
