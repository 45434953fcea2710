"""Public feature maps for images: fixed formulas and public random numbers, nothing learned from anybody's rows.

Under client-level noise every parameter costs: the noise on a mean of m clients has norm about
sqrt(p) z gamma / m. Good features that need no training let a small model do the work of a large one
(Tramer & Boneh 2021 make the same point).

    gradients   histograms of edge directions over a grid of cells (after Dalal & Triggs 2005): 7 x 7 cells
                of 4 x 4 pixels on a 28 x 28 image, 8 directions, softly assigned, rows of length one
    strokes     the same, then centred and turned to the leading `width` principal directions of random pen
                strokes that a public program draws, damped by their spread; rows of length one
    projection  a public Gaussian projection of the rows to `width` numbers; rows of length one

A `width` with "gradients" adds the public projection.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from taskveil.errors import OptionError

NAMES = (None, "gradients", "strokes", "projection")
DIRECTIONS = 8
PUBLIC_SEED = 20231104  # part of the feature map's definition, not a secret
N_STROKES = 2000


class FeatureMap:
    """Rows (n, d) -> (n, n_features); the same for every task."""

    def __init__(self, description: Any, n_inputs: int):
        options = dict(description) if isinstance(description, dict) else {"name": description}
        self.name, self.width = options.pop("name", None), options.pop("width", None)
        if self.name not in NAMES or options:
            raise OptionError(f"features must be None, 'gradients', 'strokes' or 'projection', with a width; got {description!r}")
        if self.width is None and self.name in ("strokes", "projection"):
            raise OptionError(f"features {self.name!r} need a width, for example {{'name': {self.name!r}, 'width': 32}}")
        self.n_inputs = n_inputs
        self._edges = self.name in ("gradients", "strokes")
        self._cells = _cell_weights(n_inputs) if self._edges else None
        self._turn = self._make_turn()

    @property
    def n_features(self) -> int:
        return int(self._turn[1].shape[1]) if self._turn is not None else self._inner

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
        if self._turn is not None:
            centre, basis = self._turn
            rows = unit_rows((rows - centre) @ basis)
        return rows

    def _make_turn(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Public centre and basis, (inner,) and (inner, width)."""
        if self.width is None:
            return None
        if self.name == "strokes":
            return _stroke_directions(self.n_inputs, int(self.width))
        rng = np.random.Generator(np.random.Philox(key=PUBLIC_SEED))
        gaussian = rng.standard_normal((self._inner, int(self.width)))
        basis = np.linalg.qr(gaussian)[0] if self.width <= self._inner else gaussian
        return np.zeros(self._inner, np.float32), basis.astype(np.float32)


@lru_cache(maxsize=8)
def _stroke_directions(n_inputs: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    edges = edge_histograms(pen_strokes(N_STROKES, math.isqrt(n_inputs)), _cell_weights(n_inputs))
    centre = edges.mean(axis=0)
    _, size, directions = np.linalg.svd(edges - centre, full_matrices=False)
    basis = directions[:width].T / (size[:width] + 0.1 * size[0])
    return centre.astype(np.float32), basis.astype(np.float32)


def pen_strokes(count: int, side: int) -> np.ndarray:
    """Random drawings of one to three cubic curves, (count, side * side) in [0, 1]; the same on every machine."""
    rng = np.random.Generator(np.random.Philox(key=PUBLIC_SEED))
    across = np.arange(side, dtype=np.float32)
    s = np.linspace(0, 1, 40)[:, None]
    blend = np.stack([(1 - s) ** 3, 3 * (1 - s) ** 2 * s, 3 * (1 - s) * s**2, s**3])[:, :, 0]  # (4, 40)
    drawings = np.zeros((count, side, side), np.float32)
    for i in range(count):
        for _ in range(int(rng.integers(1, 4))):
            points = blend.T @ rng.uniform(0.18 * side, 0.82 * side, (4, 2))  # (40, 2)
            gap = (across - points[:, :1, None]) ** 2 + (across[:, None] - points[:, 1:, None]) ** 2
            drawings[i] = np.maximum(drawings[i], np.clip(side / 17.5 - np.sqrt(gap.min(axis=0)), 0, 1))
    return drawings.reshape(count, -1)


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
