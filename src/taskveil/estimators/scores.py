"""Scores of rows under the model of each row's own task."""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.methods.base import Method, Models
from taskveil.tasks.prepare.scaling import Scaling


def gathered_scores(X: np.ndarray, coef: np.ndarray, intercept: np.ndarray, position: np.ndarray) -> np.ndarray:
    """x'w + b with each row's own model, a chunk of rows at a time to bound memory."""
    scores = np.empty((X.shape[0], coef.shape[1]))
    for start in range(0, X.shape[0], 65536):
        part = slice(start, start + 65536)
        of = position[part]
        scores[part] = np.einsum("nd,nrd->nr", X[part], coef[of]) + intercept[of]
    return scores


def scores_by_method(
    method: Method, run: Any, models: Models, scaling: Scaling, X: np.ndarray, position: np.ndarray
) -> np.ndarray:
    """The same for models that are not linear; `run` has the public sizes."""
    scores = method.predict_scores(run, models, scaling._rows(X, position), position)
    return np.asarray(scores * scaling.y_scale[position, None] + scaling.y_shift[position, None])
