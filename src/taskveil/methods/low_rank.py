"""Low-rank multi-task learning: MP-MTL Algorithm 2 (trace norm).

    min_W sum_i L_i(X_i w_i, y_i) + penalty |W|_*          (eq. 2)

Release     S = sum_i w_i w_i', once of directions (the default with noise) or every round of clipped models; Frobenius
            sensitivity sqrt(2) K^2 (replace-one), K^2 (add-remove); see privacy/contributions.py.
Noise       symmetric Gaussian (default) or two-sided Wishart; composed over rounds.
"""

from __future__ import annotations

from typing import ClassVar

from taskveil.methods.one_release import OneReleaseMethod
from taskveil.methods.proximal import ProximalMethod
from taskveil.structures import STRUCTURES


class LowRank(OneReleaseMethod):
    __doc__ = "Trace norm over all task models (MP-MTL Alg. 2). " + (ProximalMethod.__doc__ or "")

    name = "low-rank"
    forms: ClassVar[dict[str, str]] = dict.fromkeys(("paper", "preprint"), ".papers.liang_2020:LowRank")
    structure = STRUCTURES.get("trace_norm")
    reference = "Liang et al., Model-Protected Multi-Task Learning, Algorithm 2"
