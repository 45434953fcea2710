"""What a structure must offer: a penalty g on the matrix of all task models, and its proximal map.

Inside this folder W has one column per task: features x tasks (d, m). The rest of the package keeps models as
(tasks, outputs, features); `matrix` and `models` convert, without copying where the memory order allows it.
With several outputs, structures about features (trace norm, l2,1) see tasks x outputs columns, and structures
about tasks (relationship, l1,2) see one column of outputs x features numbers per task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


class Structure(ABC):
    """A convex penalty g(W).

    name            the name in the table
    column          "output": a column is one output of one task; "task": a column is one whole task
    """

    name: str
    column: str = "output"

    @abstractmethod
    def value(self, W: Array) -> float:
        """g(W)."""

    @abstractmethod
    def prox(self, W: Array, step: float | Array) -> Array:
        """argmin_V (1/2)|V - W|_F^2 + step g(V); where g is a sum over columns, also with one step per column."""

    def map_from_covariance(self, S: Array, threshold: float, lift: float = 0.0) -> Array:
        """The (d, d) map M with M W = prox(W, threshold) for S = WW', where the prox can be written so."""
        raise NotImplementedError(f"the prox of {self.name} is not a function of WW'; use trace_norm or group_sparse")

    def matrix(self, models: Array) -> Array:
        """Models (tasks, outputs, features) as the matrix with columns that g looks at."""
        m, r, d = models.shape
        return models.reshape(m * r, d).T if self.column == "output" else models.reshape(m, r * d).T

    def models(self, W: Array, shape: tuple[int, ...]) -> Array:
        """The inverse of `matrix` for models of this shape."""
        return np.ascontiguousarray(W.T).reshape(shape)


def shrinkage(squares: Array, threshold: float, lift: float = 0.0) -> Array:
    """max(0, 1 - threshold / sqrt(max(squares + lift, 0))): the factor by which soft-thresholding shrinks.

    A zero threshold gives ones everywhere; otherwise what is not positive after the lift gets factor 0.
    """
    if threshold == 0.0:
        return np.ones_like(squares)
    root = np.sqrt(np.maximum(squares + lift, 0.0))
    # Dividing only where the factor is positive avoids 0/0 without a warning filter.
    return np.divide(root - threshold, root, out=np.zeros_like(root), where=root > threshold)
