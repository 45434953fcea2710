"""Canary tasks of a one-run audit: rows, coins, and how far their two worlds lie apart in a planned release.

    pairs    canary i has its rows on two features that nearly repeat each other, and its targets follow what little tells them
             apart: its model, along their sum or their difference, is several times as long as what may be sent. Whatever keeps
             messages short (a clip, a unit vector) brings it to length; where nothing does, it stands out. Under replace-one its
             other world is the opposite canary: furthest apart where vectors are summed. As many directions as features
    axes     the same with rows on axis i alone: where gradients are sent, which are short along pairs
    signs    rows along a vector of signs; under replace-one the other world is another one, orthogonal to it. Furthest apart
             where second moments are summed, in which nearly as many fit side by side as there are entries

Under add-remove the other world is the null task. Which of them is used follows from the plan, and from what they would send
in the first round (one_run.py).

After a run they took part in (fit --audit-canaries) they are nobody's tasks (`without_canaries`).

The canaries stood after the real tasks. The record keeps their number, because the plan, the sizes and the certificate are those
of a run with them; models, names, units and every figure are cut to the real tasks, so that nobody predicts for a canary, no page
shows one and no gain counts one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.audits.canaries import LARGE
from taskveil.errors import OptionError
from taskveil.methods.base import Billboard, Models
from taskveil.names import canary_names
from taskveil.privacy.contributions import Contribution, MomentSum, OuterSum, TaskStack, VectorSum
from taskveil.tasks.task import TaskSet

PAIRS, AXES, SIGNS = "pairs", "axes", "signs"
FEW_ROWS = 8  # with fewer a task would keep its own constant, and send nothing (methods/local.py)
ROWS = {PAIRS: 32, AXES: FEW_ROWS, SIGNS: FEW_ROWS}  # along what tells features apart a penalised model grows with their root
CLOSE = 1 / 8  # what tells the features of a pair apart, of their range
FEW = 8  # features below which vectors of signs are no directions of their own


@dataclass(frozen=True)
class Canaries:
    """K canary tasks and their coins."""

    coins: np.ndarray
    replaced: bool  # replace-one; otherwise present or null
    shape: str = AXES

    def flipped(self) -> Canaries:
        """The other world of every canary."""
        return replace(self, coins=~self.coins)

    def join(self, tasks: TaskSet) -> TaskSet:
        """The same tasks with the canaries after them; inside declared ranges, where there are any."""
        k = len(self.coins)
        if not set(canary_names(k)).isdisjoint(tasks.task_names):
            raise OptionError("some tasks are named like canary tasks (audit-canary-...); rename them, or audit with many runs")
        rows = ROWS[self.shape]
        of_task = np.repeat(np.arange(k), rows)
        side, across = np.tile([1.0, -1.0], len(of_task) // 2), np.tile([1.0, 1.0, -1.0, -1.0], len(of_task) // 4)
        middle, reach = _ranges(tasks)
        directions, sign = self._worlds(tasks.n_features)
        X = side[:, None] * directions[of_task]
        if self.shape == PAIRS:
            X = CLOSE * X + (1 - CLOSE) * across[:, None] * _partners(directions)[of_task]
        X = middle + X * reach
        y = self._targets(tasks, sign[of_task] * side)
        ends = tasks.offsets[-1] + rows * np.arange(1, k + 1)
        groups = {name: np.concatenate([v, np.repeat(v[:1], len(X))]) for name, v in tasks.groups.items()}
        return replace(
            tasks, X=np.ascontiguousarray(np.concatenate([tasks.X, X])), y=np.concatenate([tasks.y, y]),
            offsets=np.concatenate([tasks.offsets, ends]), task_names=(*tasks.task_names, *canary_names(k)), row_index=None,
            person=None, groups=groups,
        )  # fmt: skip

    def _worlds(self, d: int) -> tuple[np.ndarray, np.ndarray]:
        """Directions (K, d) and signs of the targets (K,); a sign of zero is the null task."""
        k, null = len(self.coins), np.where(self.coins, 1.0, 0.0)
        if self.shape != SIGNS:
            own = _pairs(d) if self.shape == PAIRS else np.eye(d)
            return own[np.arange(k) % len(own)], np.where(self.coins, 1.0, -1.0) if self.replaced else null
        rng = np.random.default_rng(20250124)  # directions are public
        signs = rng.choice([-1.0, 1.0], (k, d))
        if not self.replaced:
            return signs, null
        halves = rng.permuted(np.tile(np.where(np.arange(d) % 2, -1.0, 1.0), (k, 1)), axis=1)
        return signs * np.where(self.coins[:, None], 1.0, halves), np.ones(k)

    def _targets(self, tasks: TaskSet, sign: np.ndarray) -> np.ndarray:
        if tasks.kind == "survival":
            raise OptionError("one-run audits have canaries for regression and for two classes, not for survival: use tv.audit")
        if tasks.kind != "regression":
            assert tasks.classes is not None
            if len(tasks.classes) != 2:
                raise OptionError("one-run audits have canaries for regression and for two classes")
            parity = np.tile([1, 0, 0, 1], len(sign) // 4)  # explained by no direction
            return np.asarray(tasks.classes)[np.where(sign == 0, parity, sign > 0).astype(int)]
        declared = tasks.bounds.target if tasks.bounds is not None else None
        low, high = declared or (-LARGE, LARGE)
        return np.asarray((low + high) / 2 + sign * (high - low) / 2)


def _pairs(d: int) -> np.ndarray:
    """Sum and difference of neighbouring features: as many orthogonal directions as there are features, but for an odd one."""
    return np.kron(np.eye(d // 2), [[1.0, 1.0], [1.0, -1.0]]) @ np.eye(d - d % 2, d)


def _partners(directions: np.ndarray) -> np.ndarray:
    """The difference to every sum, the sum to every difference."""
    other = directions.copy()
    other[:, 1::2] *= -1.0
    return other


def null_tasks(count: int, n_features: int, kind: str) -> TaskSet:
    """Tasks that send nothing: rows of zeros, targets of zero."""
    names = [f"null-{i:05d}" for i in range(count)]
    y = np.zeros(count * FEW_ROWS) if kind == "regression" else np.tile([0, 1], count * FEW_ROWS // 2)
    positions = np.repeat(np.arange(count), FEW_ROWS)
    X = np.zeros((count * FEW_ROWS, n_features))
    classes = None if kind == "regression" else np.array([0, 1])
    return TaskSet.from_arrays(X, y, positions, task_names=names, kind=kind, classes=classes)


def parts_apart(what: Contribution, shape: str, replaced: bool, n_features: int) -> tuple[float, float]:
    """Squared distance of a canary's worlds in a sum of this kind: of what is linear in its message, and of what is quadratic.

    Zero where messages are not of model size: there canaries say nothing in particular.
    """
    d = n_features
    linear, square = (1.0, 1.0) if not replaced else (2.0, 2.0) if shape == SIGNS else (4.0, 0.0)
    if isinstance(what, MomentSum):
        return linear * what.mean_weight**2, square * what.moment_weight**2
    if isinstance(what, OuterSum):
        return 0.0, square * what.bound**4
    if isinstance(what, TaskStack) or (isinstance(what, VectorSum) and math.prod(what.message_shape) in (d, d + 1)):
        return linear * what.bound**2, 0.0
    return 0.0, 0.0


def _ranges(tasks: TaskSet) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half width of every feature's declared range; 0 and 1 where nothing is declared."""
    if tasks.bounds is None or not tasks.bounds.covers(tasks.feature_names):
        return np.zeros(tasks.n_features), np.ones(tasks.n_features)
    low, high = tasks.bounds.arrays(tasks.feature_names)
    return (low + high) / 2, (high - low) / 2


def without_canaries(estimator: Any, count: int) -> None:
    """Cut a fitted estimator to its real tasks, in place."""
    real = slice(0, len(estimator.task_names_) - count)
    size, record = len(estimator.task_names_), estimator.record_
    estimator.task_names_ = tuple(estimator.task_names_[real])
    cut = {id(b): _board(b, real) for b in record.billboards}
    models = _models(record.models, real, size)
    boards = [cut[id(b)] for b in record.billboards]
    own = {name: value[real] for name, value in record.extra.items() if name == "clipped"}
    estimator.record_ = replace(record.without_states(), models=models, billboards=boards, canaries=count, extra=own)
    estimator.models_, estimator.scaling_ = models, estimator.scaling_.take(real)
    estimator.task_warnings_ = {n: w for n, w in estimator.task_warnings_.items() if n in set(estimator.task_names_)}
    estimator._training, estimator._gain = estimator._training.take(real), None
    estimator._tasks = estimator._tasks.take_tasks(range(real.stop))
    estimator._set_coefficients(estimator.method_, estimator.scaling_, models)


def _models(models: Models, real: slice, size: int) -> Models:
    extra = {name: value[real] if len(value) == size else value for name, value in models.extra.items()}
    kept = None if models.kept is None else models.kept[real]
    return Models(models.coef[real], models.intercept[real], kept, extra)


def _board(board: Billboard, real: slice) -> Billboard:
    values = {name: value[real] if name in board.per_task else value for name, value in board.values.items()}
    return replace(board, values=values, accepted=None)
