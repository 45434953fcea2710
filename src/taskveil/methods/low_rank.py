"""Low-rank multi-task learning: MP-MTL Algorithm 2 (trace norm), sound and as printed.

    min_W sum_i L_i(X_i w_i, y_i) + penalty |W|_*          (eq. 2)

Release     S = sum_i w_i w_i', once of directions (the default with noise) or every round of clipped models; Frobenius
            sensitivity sqrt(2) K^2 (replace-one), K^2 (add-remove); see privacy/contributions.py.
Sound       symmetric Gaussian noise (default) or two-sided Wishart noise; composed over rounds.
Paper       one-sided Wishart noise W_d(d+1, K^2/(2 eps_t) I). Not differentially private: see
            privacy/mechanisms/paper_wishart.py for the proof and the certificate for the number.
"""

from __future__ import annotations

from taskveil.methods.proximal import ProximalMethod
from taskveil.structures import STRUCTURES


class LowRank(ProximalMethod):
    __doc__ = "Trace norm over all task models (MP-MTL Alg. 2). " + (ProximalMethod.__doc__ or "")

    name = "low-rank"
    one_release = True
    structure = STRUCTURES.get("trace_norm")
    reference = "Liang et al., Model-Protected Multi-Task Learning, Algorithm 2"
