"""Mean-regularised learning inside public groups, or along a fixed public relationship between tasks.

    min sum_k [ l_k(w_k) + (lambda/2) |w_k - sum_c A_kc wbar_c|^2 ],   wbar_c the A-weighted mean of the w_k in group c

A (tasks x groups) is public and fixed: rows are non-negative and sum to one. Cluster labels are its 0/1 case (Hu, Wu, Smith
2023, remark after Corollary 2; Evgeniou, Micchelli, Pontil 2005), a matrix of task similarities its general case, a
column of ones is `mean`. One round is ONE release of all groups' sums: a task's part is A_k (outer) clip(g_k), of norm
|A_k|_2 |clip(g_k)| <= gamma, so the sensitivity is that of `mean`, and disjoint clusters cost nothing extra. A relationship
learned from data is not public: see method `relationship`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taskveil.errors import OptionError
from taskveil.methods.base import PublicInfo
from taskveil.methods.neural import NeuralMethod
from taskveil.methods.options import with_groups
from taskveil.privacy.plan import Budget


@with_groups
@dataclass(eq=False, repr=False)
class ClusteredMean(NeuralMethod):
    __doc__ = "Mean-regularised within public groups. " + (NeuralMethod.__doc__ or "")

    name = "clustered-mean"
    forms: ClassVar[dict[str, str]] = {"paper": ".papers.hu_2023:ClusteredMean"}
    weighs_tasks = False

    clusters: Any = None
    relationship: Any = None

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        self.membership(public)

    def n_groups(self, public: PublicInfo) -> int:
        """How many public groups there are."""
        return int(self.membership(public).shape[1])

    def membership(self, public: PublicInfo) -> np.ndarray:
        """A, (tasks, groups)."""
        if (self.clusters is None) == (self.relationship is None):
            raise OptionError(
                "method 'clustered-mean' needs either clusters (one public label per task, in the order of the tasks) or a "
                "public relationship matrix (tasks x groups)"
            )
        if self.clusters is not None:
            _, code = np.unique(np.asarray(self.clusters), return_inverse=True)
            A = np.eye(code.max(initial=0) + 1)[code]
        else:
            A = np.asarray(self.relationship, dtype=np.float64)
        if A.ndim != 2 or A.shape[0] != public.n_tasks:
            raise OptionError(f"expected one public label or row for each of the {public.n_tasks} tasks, got shape {A.shape}")
        if not (np.isfinite(A).all() and (A >= 0).all() and np.allclose(A.sum(axis=1), 1.0)):
            raise OptionError("rows of a relationship matrix must be non-negative and sum to one")
        return A
