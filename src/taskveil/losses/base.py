"""What a loss must offer: value, derivatives and conjugate in the score, elementwise.

A loss l(s, y) looks at one score s and one target y. Everything here is elementwise and vectorised; means
over rows and sums over tasks are taken by the solvers. Letters: s score, y target, u a slope (dual variable).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


class Loss(ABC):
    """A convex loss of one score; members state their constants as class attributes.

    name          the name in the table
    smoothness    Lipschitz constant of the derivative in s (inf where the loss has a kink)
    lipschitz     Lipschitz constant of the loss in s (inf where it has none)
    kernel        number of its branch in solvers/kernels.py, or None: the solvers then use NumPy
    quadratic     whether its second derivative is 1 everywhere
    """

    name: str
    smoothness: float
    lipschitz: float
    kernel: int | None = None
    quadratic: bool = False

    @abstractmethod
    def value(self, scores: Array, y: Array) -> Array:
        """l(s, y)."""

    @abstractmethod
    def derivative(self, scores: Array, y: Array) -> Array:
        """dl/ds (a subgradient where l has a kink)."""

    def second_derivative(self, scores: Array, y: Array) -> Array:
        """d2l/ds2, where it exists."""
        raise NotImplementedError(f"the {self.name} loss has no second derivative; use a first-order solver")

    @abstractmethod
    def conjugate(self, slopes: Array, y: Array) -> Array:
        """l*(u, y) = sup_s u s - l(s, y); inf outside its domain."""
