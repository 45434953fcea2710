"""DP-AGGR as printed (Pathak, Rane & Raj 2010; MP-MTL sections 4.6 and 5.1): the noise that a per-record bound asks for.

One model has per-record sensitivity 2/(n_min lambda) (1-Lipschitz loss, |x| <= 1), turned into a per-task one by MP-MTL Prop. 3
with n = n_max: the task's whole data moves the sum by at most 2 n_max/(n_min lambda). That is the sensitivity of messages clipped
to K = n_max/(n_min lambda), so the same clipping makes it true for every loss: `n_min` and `n_max` must be declared.
"""

from __future__ import annotations

from collections.abc import Sequence

from taskveil.errors import OptionError
from taskveil.methods import dp_aggr
from taskveil.methods.base import PublicInfo
from taskveil.privacy.contributions import Contribution, VectorSum
from taskveil.privacy.plan import Budget, Request


class DpAggr(dp_aggr.DpAggr):
    """l2-Laplace noise, clipping by declared numbers of rows."""

    variants = ("paper",)

    @property
    def strength(self) -> float:
        """The ridge penalty, from which the printed sensitivity follows."""
        return 0.1 if self.penalty is None else self.penalty

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        bound = self._bound() if budget.epsilon is not None else Contribution.unbounded
        what = VectorSum((public.n_outputs, public.n_features), bound)
        return [Request(dp_aggr.RELEASE, 1, what, mechanism="l2-laplace")]

    def _bound(self) -> float:
        if not (self.n_min and self.n_max and 0 < self.n_min <= self.n_max):
            raise OptionError(
                "dp-aggr in its paper variant needs the declared smallest and largest number of rows of a task: "
                "n_min=..., n_max=... (--set n_min=30 --set n_max=30)"
            )
        return self.n_max / (self.n_min * self.strength)
