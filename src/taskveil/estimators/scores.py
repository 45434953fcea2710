"""Scores of rows under the model of each row's own task."""

from __future__ import annotations

import numpy as np


def gathered_scores(X: np.ndarray, coef: np.ndarray, intercept: np.ndarray, position: np.ndarray) -> np.ndarray:
    """x'w + b with each row's own model, a chunk of rows at a time to bound memory."""
    scores = np.empty((X.shape[0], coef.shape[1]))
    for start in range(0, X.shape[0], 65536):
        part = slice(start, start + 65536)
        of = position[part]
        scores[part] = np.einsum("nd,nrd->nr", X[part], coef[of]) + intercept[of]
    return scores
