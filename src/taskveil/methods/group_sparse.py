"""Group-sparse multi-task learning: MP-MTL Algorithm 3 (l2,1 norm), sound and as printed.

    min_W sum_i L_i(X_i w_i, y_i) + penalty |W|_{2,1}      (eq. 3)

Release     only the diagonal of S = sum_i w_i w_i' is needed: d numbers instead of d^2; once of directions (the default
            with noise) or every round of clipped models. Sensitivity K^2 / sqrt(2) K^2
            in l2, K^2 / 2 K^2 in l1 (add-remove / replace-one).
Sound       Gaussian noise (default) or Laplace noise (pure).
Paper       Wishart noise on the whole matrix, whose diagonal is then used: not differentially private.
"""

from __future__ import annotations

import numpy as np

from taskveil.methods.base import PublicInfo, ServerSide
from taskveil.methods.proximal import ProximalMethod, ProximalServer
from taskveil.privacy.contributions import Contribution, DiagonalSum, OuterSum
from taskveil.privacy.plan import Plan
from taskveil.structures import STRUCTURES
from taskveil.structures.group_sparse import GroupSparse as Structure


class GroupSparse(ProximalMethod):
    __doc__ = "l2,1 norm: few features matter, the same for all tasks (MP-MTL Alg. 3). " + (ProximalMethod.__doc__ or "")

    name = "group-sparse"
    one_release = True
    structure = STRUCTURES.get("group_sparse")
    reference = "Liang et al., Model-Protected Multi-Task Learning, Algorithm 3"

    def contribution(self, public: PublicInfo, bound: float, paper: bool) -> Contribution:
        kind = OuterSum if paper else DiagonalSum
        return kind(public.n_features, bound, public.n_outputs)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return GroupSparseServer(self, public, plan)


class GroupSparseServer(ProximalServer):
    def noise_norm(self, columns: int) -> float:
        return float(np.sqrt(columns) + np.sqrt(2 * np.log(self.public.n_features + 1)))

    def make_map(self, S: np.ndarray, threshold: float, lift: float) -> np.ndarray:
        """Factors (d,) from the diagonal; the paper takes its absolute value (step 6)."""
        diagonal = S if S.ndim == 1 else np.abs(np.diagonal(S))
        return Structure().factors(diagonal, threshold, lift)
