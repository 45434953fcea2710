"""Group-sparse multi-task learning: MP-MTL Algorithm 3 (l2,1 norm).

    min_W sum_i L_i(X_i w_i, y_i) + penalty |W|_{2,1}      (eq. 3)

Release     only the diagonal of S = sum_i w_i w_i' is needed: d numbers instead of d^2; once of directions (the default
            with noise) or every round of clipped models. Sensitivity K^2 / sqrt(2) K^2
            in l2, K^2 / 2 K^2 in l1 (add-remove / replace-one).
Noise       Gaussian (default) or Laplace (pure).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from taskveil.methods.base import PublicInfo
from taskveil.methods.one_release import OneReleaseMethod
from taskveil.methods.proximal import ProximalMethod
from taskveil.methods.proximal_sides import ProximalServer
from taskveil.privacy.contributions import Contribution, DiagonalSum
from taskveil.structures import STRUCTURES
from taskveil.structures.group_sparse import GroupSparse as Structure


class GroupSparseServer(ProximalServer):
    """Keeps the features whose sum stands above the noise."""

    def noise_norm(self, columns: int) -> float:
        return float(np.sqrt(columns) + np.sqrt(2 * np.log(self.public.n_features + 1)))

    def make_map(self, S: np.ndarray, threshold: float, lift: float) -> np.ndarray:
        """Factors (d,) from the diagonal; where the whole matrix was released, from the size of its entries."""
        diagonal = S if S.ndim == 1 else np.abs(np.diagonal(S))
        return Structure().factors(diagonal, threshold, lift)


class GroupSparse(OneReleaseMethod):
    __doc__ = "l2,1 norm: few features matter, the same for all tasks (MP-MTL Alg. 3). " + (ProximalMethod.__doc__ or "")

    name = "group-sparse"
    forms: ClassVar[dict[str, str]] = dict.fromkeys(("paper", "preprint"), ".papers.liang_2020:GroupSparse")
    server = GroupSparseServer
    structure = STRUCTURES.get("group_sparse")
    reference = "Liang et al., Model-Protected Multi-Task Learning, Algorithm 3"

    def contribution(self, public: PublicInfo, bound: float) -> Contribution:
        """What is summed: squares of models, one number for each feature."""
        return DiagonalSum(public.n_features, bound, public.n_outputs)
