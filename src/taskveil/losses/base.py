"""What a loss must offer: value and derivatives in the score, elementwise; and how solvers linearise it.

A loss l(s, y) looks at one score s and one target y. Value and derivatives are elementwise and vectorised; means over
rows and sums over tasks are taken by the solvers. Letters: s score, y target.

Solvers that average over priors (solvers/evidence.py) fit any loss by weighted least squares on its working response; a loss
whose rows count together (Cox) recomputes what they share there. Arrays of that part are (tasks, rows), rows of weight 0 do not
count.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from taskveil.tasks.block import TaskBlock

Array = NDArray[np.floating]
SCORE_RANGE = 6.0


class Loss(ABC):
    """A convex loss of one score; members state their constants as class attributes.

    name          the name in the table
    targets       what y is: "numbers", "labels" (-1/+1), "counts" (>= 0) or "times" (negative: censored)
    smoothness    Lipschitz constant of the derivative in s (inf where the loss has a kink, or none)
    kernel        number of its branch in solvers/kernels.py, or None: the solvers then use NumPy
    quadratic     whether its second derivative is 1 everywhere
    strengths     what is believed of signal-to-noise ratios beforehand: centre, width below and above it, in decades (as wide
                  above as below, six rows of pure noise would pass for slopes)
    likelihood    whether minus the loss is a row's log likelihood, with no noise variance to be estimated
    prior_rows    else what the belief in noise variance one is worth, in rows
    step_size     length at which a step from the public model is cut off, in common units
    rowwise       whether a task's loss is a sum over its rows; if not, `working` is its own and solvers/cox.py minimises it
    score_range   working scores further from zero do not change a row's weight further: separable tasks stay finite
    """

    name: str
    targets: str = "numbers"
    smoothness: float
    kernel: int | None = None
    quadratic: bool = False
    strengths: tuple[float, float, float] = (0.0, 2.0, 1.0)
    likelihood: bool = False
    prior_rows: float = 0.0
    step_size: float = 1.0
    score_range: float = SCORE_RANGE
    rowwise: bool = True

    @property
    def labels(self) -> bool:
        """Whether targets are labels: a task of one class then has its best intercept at infinity."""
        return self.targets == "labels"

    @abstractmethod
    def value(self, scores: Array, y: Array) -> Array:
        """l(s, y)."""

    @abstractmethod
    def derivative(self, scores: Array, y: Array) -> Array:
        """dl/ds (a subgradient where l has a kink)."""

    def second_derivative(self, scores: Array, y: Array) -> Array:
        """d2l/ds2, where it exists."""
        raise NotImplementedError(f"the {self.name} loss has no second derivative; use a first-order solver")

    def first_scores(self, y: Array, weights: Array) -> Array:
        """(k,) the constant score from which a fit starts; finite for every task."""
        return np.zeros(len(y))

    def working(self, scores: Array, y: Array, weights: Array) -> tuple[Array, Array]:
        """Weights and responses (k, n) of the least squares problem that stands for the loss at these scores."""
        bend = self.second_derivative(scores, y)
        return weights * bend, scores - self.derivative(scores, y) / bend

    def without_information(self, y: Array, weights: Array) -> NDArray[np.bool_]:
        """(k,) tasks whose rows say nothing about coefficients where there is an intercept: one class, no event."""
        return np.zeros(len(y), dtype=bool)

    def surprise(self, scores: Array, block: TaskBlock) -> Array:
        """(N, r) what rows call for beyond these scores, in units of the score: minus the slope over a typical curvature."""
        return -self.derivative(scores, block.y) / (self.smoothness if np.isfinite(self.smoothness) else 1.0)

    def intercepts(self, scores: Array, block: TaskBlock) -> Array:
        """(m, r) the best intercepts beside scores (N, r); finite for every task, 0 without rows."""
        raise NotImplementedError(f"the {self.name} loss has no intercepts of its own")
