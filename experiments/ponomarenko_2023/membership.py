"""Did this row take part? A curious server against the federated SVM, blind to the masks.

The updates of T rounds span a space inside the span of a participant's rows. A candidate row is scored by the share of its squared
length inside that space. With d > n_k and T large every row that ever moved lies inside, whatever the masks were; fresh random masks
make the updates *more* varied, and the span complete sooner.
"""

from __future__ import annotations

import numpy as np
from sklearn.metrics import roc_auc_score

from taskveil.audits.row_reconstruction import fitted, span


def membership(updates: np.ndarray, members: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Area under the curve, and true positives at 1 % false ones, of members (c, d) against other rows."""
    basis = span(updates)
    inside, outside = (share_inside(basis, fitted(rows, updates.shape[1])) for rows in (members, others))
    auc = roc_auc_score(np.repeat([1, 0], [len(inside), len(outside)]), np.concatenate([inside, outside]))
    return float(auc), float(np.mean(inside > np.quantile(outside, 0.99)))


def share_inside(basis: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """|projection|^2 / |row|^2."""
    squares = np.einsum("nd,nd->n", rows, rows)
    return np.sum((rows @ basis.T) ** 2, axis=1) / np.maximum(squares, 1e-300)
