"""Model-protected multi-task learning as printed (Liang et al. 2020): Algorithms 1 to 4. Not differentially private.

noise     one-sided Wishart W_d(d+1, K^2/(2 eps_t) I) on the whole second moment, whatever is used of it: see
          privacy/mechanisms/paper_wishart.py for the proof and the certificate for the number. The preprint has sensitivity
          2K in place of K^2
step 3    a task goes on with the clipped model, not only sends it
step 9    one map, one gradient step per release, at one public step size; nothing lifts the eigenvalues of the noise
Alg. 4    starts at P = Q = W0, twice the model, and its step 1/L is too long: (P, Q) has twice the curvature
"""

from __future__ import annotations

import numpy as np

from taskveil.methods import group_sparse, low_rank, low_rank_sparse, relationship
from taskveil.methods.base import PublicInfo, ServerSide, TaskSide, View
from taskveil.methods.proximal import ProximalMethod
from taskveil.methods.proximal_sides import ProximalServer, ProximalTasks
from taskveil.privacy.bounds import clip_rows
from taskveil.privacy.plan import Budget, Plan
from taskveil.tasks.block import TaskBlock


class PrintedTasks(ProximalTasks):
    """Steps 3 and 9-11 as printed."""

    free_steps = 1
    from_rows = True

    def kept(self, W: np.ndarray) -> np.ndarray:
        return clip_rows(W.reshape(W.shape[0], -1), self.method.bound).reshape(W.shape)

    def _steps(self, view: View) -> np.ndarray:
        return np.full(self.block.n_tasks, float(view["step"]))


class PrintedServer(ProximalServer):
    """Steps 6-8 as printed: the threshold is eta lambda."""

    def private_threshold(self, eta: float) -> float:
        penalty = self.method.penalty
        return eta * penalty if penalty is not None else 0.02 * self.method.bound * float(np.sqrt(self.public.n_tasks))

    def lift(self, t: int) -> float:
        return 0.0


class Printed(ProximalMethod):
    """What the printed forms have in common."""

    variants = ("paper", "preprint")
    tasks, server = PrintedTasks, PrintedServer
    usual_rounds = 20


class LowRank(Printed):
    """Algorithm 2."""

    name, structure, reference = low_rank.LowRank.name, low_rank.LowRank.structure, low_rank.LowRank.reference


class GroupSparseServer(PrintedServer, group_sparse.GroupSparseServer):
    """The server of Algorithm 3 as printed."""


class GroupSparse(Printed):
    """Algorithm 3: noise on the whole matrix, whose diagonal is then used."""

    name, structure = group_sparse.GroupSparse.name, group_sparse.GroupSparse.structure
    server, reference = GroupSparseServer, group_sparse.GroupSparse.reference


class TwoPartTasks(PrintedTasks, low_rank_sparse.TwoPartTasks):
    """Tasks of the two-part form as printed: the own part starts at the model learned alone."""

    def first_own(self, W: np.ndarray) -> np.ndarray:
        """The own part before the first round: all of the model W."""
        return W.copy()


class TwoPartServer(PrintedServer, low_rank_sparse.TwoPartServer):
    """The server of the low-rank two-part form as printed."""


class GroupSparseTwoPart(PrintedServer, low_rank_sparse.GroupSparseTwoPart):
    """The server of the group-sparse two-part form as printed."""


class LowRankSparse(Printed, low_rank_sparse.LowRankSparse):
    """Algorithm 4."""

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return TwoPartTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        kind = GroupSparseTwoPart if self.shared == "group_sparse" else TwoPartServer
        return kind(self, public, plan)


class Relationship(relationship.Relationship):
    """The W'W form of Algorithm 1; without noise the models themselves."""

    variants = ("paper", "preprint")

    def released(self, budget: Budget) -> str:
        return relationship.MODELS if budget.epsilon is None else relationship.GRAM
