"""What `svm` and `mocha` share: the options of the problem, its loss, its intercept, its class weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.losses.base import Loss
from taskveil.losses.epsilon_insensitive import EpsilonInsensitive
from taskveil.losses.hinge import Hinge
from taskveil.methods.base import Method, PublicInfo
from taskveil.solvers.svm_problem import balanced_factors

NO_GUARANTEE = (
    "un-noised updates of w: a curious server finds out which rows a participant holds. Random masks do not change that "
    "(docs/svm_masks.md); train with epsilon for a guarantee"
)


@dataclass(eq=False, repr=False)
class MarginMethod(Method):
    """Options of the problem.

    rounds         communication rounds; None: until `tol` without privacy, from public sizes with it
    C1, C2         cost of a loss, weight of the personal parts; both positive
    fit_intercept  an appended constant feature, regularised like the others
    tol            relative duality gap at which a run without privacy stops
    insensitivity  half width of the free band of regression, in units of the scaled target
    class_weight   None, "balanced" (per task, from its own labels) or {-1: a, 1: b}
    clip           gamma, the norm to which a private personal part is clipped (outputs and intercept together)
    """

    rounds: int | None = None
    C1: float = 1.0
    C2: float = 1.0
    fit_intercept: bool = True
    tol: float = 1e-6
    insensitivity: float = 0.1
    class_weight: Any = None
    clip: float = 1.0

    def has_intercept(self, public: PublicInfo) -> bool:
        """Whether models have an intercept."""
        return bool(self.fit_intercept and public.fit_intercept)

    def width(self, public: PublicInfo) -> int:
        """Length of a message for one output: features, and the intercept where there is one."""
        return public.n_features + self.has_intercept(public)

    def loss_of(self, public: PublicInfo) -> Loss:
        """The loss with a margin for this kind of target."""
        return EpsilonInsensitive(self.insensitivity) if public.kind == "regression" else Hinge()

    def class_factors(self, y: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """What multiplies C1, per row."""
        if self.class_weight is None:
            return np.ones(y.size)
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            return balanced_factors(y, offsets)
        try:
            low, high = float(self.class_weight[-1]), float(self.class_weight[1])
        except (KeyError, TypeError, ValueError, IndexError):
            raise OptionError(
                f"class_weight must be None, 'balanced' or {{-1: weight, 1: weight}}; got {self.class_weight!r}"
            ) from None
        if not (low > 0 and high > 0):
            raise OptionError("class weights must be positive")
        return np.where(y > 0, high, low)
