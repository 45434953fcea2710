"""`svm`: one support vector machine per participant, w + v_k, trained jointly (Ponomarenko-Timofeev et al.).

    min_{w, v}  1/2 |w|^2 + (C2/2) sum_k |v_k|^2 + C1 sum_ik l((w + v_k)'x_ik, y_ik)

l is the hinge loss for classification and the epsilon-insensitive loss for regression. C2 says how alike participants are:
large C2 gives one pooled model, small C2 separate ones. Without privacy (`epsilon=None`) the exact optimum is reached in few
rounds and the certificate says "none": un-noised updates, masked or not, show membership. With epsilon the personal parts
are clipped and summed with Gaussian noise (private.py), per task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taskveil.checks import Choice, Rule
from taskveil.errors import OptionError
from taskveil.methods.base import Billboard, Disclosure, Models, PublicInfo, ServerSide, TaskSide
from taskveil.methods.local import SilentServer
from taskveil.methods.options import with_groups
from taskveil.methods.svm.central import CentralTasks
from taskveil.methods.svm.coordinator import SvmServer
from taskveil.methods.svm.margins import NO_GUARANTEE, MarginMethod
from taskveil.methods.svm.masks import MODES as MASK_MODES
from taskveil.methods.svm.masks import UNMASKED, Masks
from taskveil.methods.svm.private import PrivateServer, private_rounds
from taskveil.methods.svm.tasks import FIGURES, PERSONAL, UPDATE, SvmTasks
from taskveil.privacy.contributions import Contribution, VectorSum
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.svm_problem import SCOPES
from taskveil.tasks.block import TaskBlock

MOST_ROUNDS = 1000


@with_groups
@dataclass(eq=False, repr=False)
class Svm(MarginMethod):
    """Support vector machines with a part shared by all tasks and a part of each task's own.

    rounds, C1, C2, fit_intercept, tol, insensitivity, class_weight, clip   see `MarginMethod`
    scope          "joint"; "local" (w = 0: single SVMs of cost C1/C2) and "pooled" (v = 0) are the baselines
    mode           "federated" rounds, or "sequential": all rows in one process, w updated at once (no privacy)
    coordinator    "auto", "quasi-newton" or "safe" (see coordinator.py)
    local_passes   passes over a participant's rows per round of the safe coordinator; None: 50, or 1 with masks
    masks          see masks.py; never a privacy guarantee
    step           eta of the private server; None: 1/(1 + K C2)
    """

    name = "svm"
    rules: ClassVar[dict[str, Rule]] = {
        "scope": Choice(*SCOPES), "mode": Choice("federated", "sequential"), "mask_mode": Choice(*MASK_MODES),
        "coordinator": Choice("auto", "quasi-newton", "safe"),
    }  # fmt: skip
    forms: ClassVar[dict[str, str]] = {"paper": ".papers.ponomarenko_2023:Svm"}
    reference = "Ponomarenko-Timofeev et al., Multi-Task Model Personalization for Federated Supervised SVM"

    scope: str = "joint"
    mode: str = "federated"
    coordinator: str = "auto"
    local_passes: int | None = None
    masks: Masks = UNMASKED
    step: float | None = None

    # ------------------------------------------------------------- plan

    @property
    def shares_nothing(self) -> bool:  # type: ignore[override]
        return self.scope == "local"

    @property
    def central(self) -> bool:
        """Whether no rounds are run: everything happens where all rows are (or where one task's rows are)."""
        return self.scope != "joint" or self.mode == "sequential"

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        self.masks.parsed()
        self.loss_of(public)
        if budget.epsilon is not None:
            self._check_private()

    def _check_private(self) -> None:
        if self.scope == "pooled" or (self.scope == "joint" and self.mode == "sequential"):
            raise OptionError(f"scope {self.scope!r}, mode {self.mode!r} pools un-noised rows: it needs epsilon=None")
        if self.masks.law is not None:
            raise OptionError("a mask adds no guarantee to a private run and would only slow it down; leave mask=None")

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        if self.central:
            return []
        shape = (public.n_outputs, self.width(public))
        rounds = range(1, self.n_rounds(public, budget) + 1)
        if budget.epsilon is not None:
            return [Request(PERSONAL, t, VectorSum(shape, self.clip)) for t in rounds]
        update, figures = VectorSum(shape, Contribution.unbounded), VectorSum((public.n_outputs, 2), Contribution.unbounded)
        return [Request(name, t, what) for t in rounds for name, what in ((UPDATE, update), (FIGURES, figures))]

    def n_rounds(self, public: PublicInfo, budget: Budget) -> int:
        """How many rounds there are: as given, or as many as the noise lets be useful."""
        if self.rounds is not None:
            return int(self.rounds)
        if budget.epsilon is None:
            return MOST_ROUNDS
        return private_rounds(public, budget, self.width(public))

    # ------------------------------------------------------------ sides

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        if self.central:
            return CentralTasks(self, block, public, plan)
        return SvmTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        if self.central:
            return SilentServer(self, public, plan)
        if plan.budget.epsilon is not None:
            return PrivateServer(self, public, plan)
        return SvmServer(self, public, plan)

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        """A task that sends nothing needs the last w only: its own part follows from it and its rows."""
        return billboards[-1:]

    def keeps_history(self, plan: Plan) -> bool:
        return False

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        if "shared" not in billboard.values:
            return None
        w = billboard.values["shared"][None]
        d = public.n_features
        intercept = w[:, :, d] if self.has_intercept(public) else np.zeros(w.shape[:2])
        return Models(w[:, :, :d], intercept)

    # ---------------------------------------------------------- wording

    def disclosure(self, public: PublicInfo, plan: Plan) -> Disclosure:
        if plan.budget.epsilon is None:
            return Disclosure(not_protected=() if self.shares_nothing else (NO_GUARANTEE,))
        assumption = (
            f"every personal part v_k is clipped to norm {self.clip:g} before it is summed; the number of rounds "
            f"({len(plan.rounds())}), C1, C2 and the step are public and fixed beforehand"
        )
        return Disclosure(() if self.central else (assumption,))

    # ------------------------------------------------------------ pieces

    def effort(self) -> dict[str, Any]:
        """Local work of one round under the safe coordinator."""
        passes = self.local_passes or (1 if self.masks.law is not None else 50)
        return {"cycles": 1, "passes": passes, "shrink": 0.1, "precision": 0.0}
