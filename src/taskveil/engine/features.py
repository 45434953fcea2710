"""Public feature maps for images: fixed formulas and public random numbers, nothing learned from anybody's rows.

Under client-level noise every parameter costs: the noise on a mean of m clients has norm about sqrt(p) z gamma / m. Good
features that need no training let a small model do the work of a large one (Tramer & Boneh 2021 make the same point).

    gradients    histograms of edge directions over a grid of cells (after Dalal & Triggs 2005): 7 x 7 cells of 4 x 4
                 pixels, 8 directions, softly assigned, every row scaled to length one
    projection   a public Gaussian projection to `width` numbers, then rows of length one again
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.errors import OptionError

DIRECTIONS = 8
PUBLIC_SEED = 20231104  # part of the feature map's definition, not a secret


class FeatureMap:
    """Rows (n, d) -> (n, n_features); the same for every task."""

    def __init__(self, description: Any, n_inputs: int):
        options = dict(description) if isinstance(description, dict) else {"name": description}
        self.name, self.width = options.pop("name", None), options.pop("width", None)
        if self.name not in (None, "gradients", "projection") or options:
            raise OptionError(f"features must be None, 'gradients' or 'projection', with a width; got {description!r}")
        self.n_inputs = n_inputs
        self._cells = _cell_weights(n_inputs) if self.name == "gradients" else None
        self._projection = self._make_projection()

    @property
    def n_features(self) -> int:
        if self._projection is not None:
            return int(self._projection.shape[1])
        return self._inner

    @property
    def _inner(self) -> int:
        return DIRECTIONS * self._cells.shape[1] if self._cells is not None else self.n_inputs

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """The features as float32, computed a few thousand rows at a time."""
        if self.name is None:
            return np.asarray(X, dtype=np.float32)
        out = np.empty((X.shape[0], self.n_features), np.float32)
        for start in range(0, X.shape[0], 4096):
            part = slice(start, start + 4096)
            out[part] = self._features(np.asarray(X[part], dtype=np.float32))
        return out

    def _features(self, rows: np.ndarray) -> np.ndarray:
        if self._cells is not None:
            rows = edge_histograms(rows, self._cells)
        if self._projection is not None:
            rows = unit_rows(rows @ self._projection)
        return rows

    def _make_projection(self) -> np.ndarray | None:
        if self.width is None:
            if self.name == "projection":
                raise OptionError("features 'projection' need a width, for example {'name': 'projection', 'width': 64}")
            return None
        rng = np.random.Generator(np.random.Philox(key=PUBLIC_SEED))
        gaussian = rng.standard_normal((self._inner, int(self.width)))
        basis, _ = np.linalg.qr(gaussian) if self.width <= self._inner else (gaussian, None)
        return (basis * math.sqrt(self._inner / self.width)).astype(np.float32)


def edge_histograms(rows: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Per cell, how much ink boundary runs in each direction; square roots, then rows of length one."""
    side = math.isqrt(rows.shape[1])
    images = rows.reshape(-1, side, side)
    down, right = np.gradient(images, axis=1), np.gradient(images, axis=2)
    size = np.hypot(down, right)
    angle = np.mod(np.arctan2(down, right), 2 * np.pi) * (DIRECTIONS / (2 * np.pi))
    low = np.floor(angle).astype(np.int64) % DIRECTIONS
    share = angle - np.floor(angle)
    histogram = np.zeros((images.shape[0], DIRECTIONS, side * side), np.float32)
    for b in range(DIRECTIONS):
        part = np.where(low == b, 1 - share, 0) + np.where((low + 1) % DIRECTIONS == b, share, 0)
        histogram[:, b] = (part * size).reshape(images.shape[0], -1)
    return unit_rows(np.sqrt(histogram @ cells).reshape(images.shape[0], -1))


def unit_rows(rows: np.ndarray) -> np.ndarray:
    norms = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    return rows / np.where(norms > 0, norms, 1.0)[:, None]


def _cell_weights(n_inputs: int, cell: int = 4) -> np.ndarray:
    """(pixels, cells): bilinear weights of every pixel for the cell centres."""
    side = math.isqrt(n_inputs)
    if side * side != n_inputs or side % cell:
        raise OptionError(f"features 'gradients' need square images whose side is a multiple of {cell}; got {n_inputs}")
    centres = np.arange(side // cell) * cell + (cell - 1) / 2
    line = np.maximum(0, 1 - np.abs(np.arange(side)[:, None] - centres[None, :]) / cell)
    return np.einsum("ia,jb->ijab", line, line).reshape(n_inputs, -1).astype(np.float32)
