"""The quadratic penalty of local problems: (mu/2) (w - c)' A (w - c)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Penalty:
    """A and the centres: `matrix` None (identity), (d,) or (d, d); `centre` None (zero) or (m, r, d)."""

    matrix: Array | None = None
    centre: Array | None = None

    def full(self, d: int) -> Array:
        if self.matrix is None:
            return np.eye(d)
        return np.diag(self.matrix) if np.ndim(self.matrix) == 1 else np.asarray(self.matrix, dtype=float)

    def centres(self, shape: tuple[int, ...]) -> Array:
        return np.zeros(shape) if self.centre is None else np.broadcast_to(self.centre, shape)
