"""Made-up tasks on which a method is attacked: one canary among others, and the neighbour that takes its place.

The canary task's rows follow y = LARGE * x_1 exactly, so that its model, its update and every gradient point along the first
axis and are cut to the clipping norm; it holds more rows than the others, because whoever weighs tasks by their rows gives
it more weight than the plan allows. The other tasks hold targets of zero and send nothing (a Gram matrix of tasks needs them
to send something: there they are like the canary). Neighbours:

    add-remove   the null task: the same rows with targets of zero, hence the zero message
    replace-one  the opposite model, or an orthogonal one, whichever is further away for what the plan releases

Unit record: one row of the first task instead of the whole task.
`changing` canaries are short, so that they are not clipped and their messages differ from round to round: noise that is
used twice then cancels in differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from taskveil.privacy.contributions import DiagonalSum, MomentSum, OuterSum, TaskGram
from taskveil.privacy.plan import Plan
from taskveil.tasks.task import TaskSet

LARGE = 1e6
SHORT = 0.6
CANARY = 0  # position of the canary's task
DESIGN = 2  # features
ROWS, CANARY_ROWS = 4, 16


@dataclass(frozen=True)
class Canary:
    """What stands in for the protected unit: world 1 the canary, world 0 its neighbour."""

    kind: str = "largest"  # or "changing"
    n_tasks: int = 6
    against: str = "nothing"  # "nothing", "opposite", "orthogonal"
    unit: str = "task"
    others_send: bool = False
    loss: str = "squared"

    def tasks(self, world: int) -> TaskSet:
        """The data of one world; sizes, names and rows are the same in both."""
        rows = np.array(list(product([1.0, -1.0], repeat=DESIGN)))
        sizes = [CANARY_ROWS] + [ROWS] * (self.n_tasks - 1)
        X = np.concatenate([np.tile(rows, (n // len(rows), 1)) for n in sizes])
        of_task = np.repeat(np.arange(self.n_tasks), sizes)
        y = np.zeros(len(X))
        if self.others_send:
            y[of_task != CANARY] = LARGE * X[of_task != CANARY, 0]
        mine = of_task == CANARY
        if self.unit == "record":
            mine &= np.arange(len(X)) == 0
            X[of_task == CANARY] = 0.0  # the other rows of its task are null rows
            X[mine] = self._row(world, rows)
            y[mine] = LARGE if np.any(X[mine]) else 0.0
        else:
            y[mine] = self._targets(world, X[mine])
        kind, y = self._outcome(y, X)
        names = [f"t{i:03d}" for i in of_task]
        return TaskSet.from_arrays(X, y, np.array(names, dtype=object), kind=kind)

    def _targets(self, world: int, X: np.ndarray) -> np.ndarray:
        size = LARGE if self.kind == "largest" else SHORT
        if world == 1:
            return size * X[:, 0]
        return {"nothing": 0.0 * X[:, 0], "opposite": -size * X[:, 0], "orthogonal": size * X[:, 1]}[self.against]

    def _row(self, world: int, rows: np.ndarray) -> np.ndarray:
        first, second = np.eye(rows.shape[1])[:2]
        if world == 1:
            return LARGE * first
        return {"nothing": 0.0 * first, "opposite": -LARGE * first, "orthogonal": LARGE * second}[self.against]

    def _outcome(self, y: np.ndarray, X: np.ndarray) -> tuple[str, np.ndarray]:
        """What goes with the loss: numbers; many events or none; an event sooner or later than that of others; labels."""
        if self.loss == "poisson":
            return "regression", np.maximum(y, 0.0)
        if self.loss == "cox":
            return "survival", np.where(y > 0.0, 1.0 / LARGE, np.where(y < 0.0, LARGE, 1.0))
        return ("classification", self._labels(y, X)) if self.loss == "logistic" else ("regression", y)

    def _labels(self, y: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Classes by the sign of the target; where it is zero, labels that no direction explains."""
        parity = np.where(np.prod(X, axis=1) >= 0, 1.0, 0.0)  # the product of two signs is orthogonal to each
        return np.where(y == 0, parity, (y > 0).astype(float)).astype(int)


def worst_neighbour(plan: Plan) -> str:
    """For replace-one: which of two replacements moves the planned releases further, in units of their noise."""
    lengths = {"opposite": 0.0, "orthogonal": 0.0}
    for planned in plan.releases:
        second_moment = isinstance(planned.contribution, OuterSum | DiagonalSum)
        scale = max(planned.mechanism.scale, 1e-300)
        bound = planned.contribution.bound
        if isinstance(planned.contribution.plain, MomentSum):
            a, b = planned.contribution.plain.mean_weight, planned.contribution.plain.moment_weight
            lengths["opposite"] += 4 * a**2 / scale**2
            lengths["orthogonal"] += 2 * (a**2 + b**2) / scale**2
            continue
        lengths["opposite"] += 0.0 if second_moment else (2 * bound / scale) ** 2
        lengths["orthogonal"] += 2 * (bound**2 if second_moment else bound) ** 2 / scale**2
    return max(lengths, key=lambda name: lengths[name])


def needs_company(plan: Plan) -> bool:
    """A Gram matrix of tasks shows the canary only against others that send something."""
    return any(isinstance(p.contribution, TaskGram) for p in plan.releases)
