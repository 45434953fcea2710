"""l2-Laplace noise for messages that a paper scales by a sensitivity estimated from the data. NOT private.

Paper        DP-MTRL as MP-MTL section 5.1 modifies it: noise exp(-eps |b| / s_i) with s_i from Lipschitz constants
             estimated on the task's own rows. A task divides its model by s_i, this mechanism adds unit-sensitivity
             noise, everybody multiplies by s_i again.
Why not DP   s_i is a function of the data (and published), and an estimated Lipschitz constant is smaller than the true one:
             nothing bounds how far one record moves the message. Variants paper and preprint only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from taskveil.errors import OptionError
from taskveil.privacy.contributions import Contribution, TaskStack
from taskveil.privacy.events import UncertifiedEvent
from taskveil.privacy.mechanisms.laplace import L2Laplace
from taskveil.privacy.units import Neighbours

REASON = (
    "the noise is scaled by Lipschitz constants estimated from the data, which neither bound the sensitivity nor are "
    "private themselves"
)


@dataclass(frozen=True)
class PaperL2Laplace(L2Laplace):
    """Density proportional to exp(-claimed_epsilon |b|) on every task's row."""

    name = "paper-l2-laplace"
    family = "paper"
    claimed_epsilon: float = 0.0

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return isinstance(contribution, TaskStack)

    @classmethod
    def calibrated(cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound") -> Self:
        if variant not in ("paper", "preprint"):
            raise OptionError("mechanism 'paper-l2-laplace' is not private and exists only for variant='paper'")
        return cls(1.0 / parameter, parameter)

    def event(self, contribution: Contribution, neighbours: Neighbours) -> UncertifiedEvent:  # type: ignore[override]
        return UncertifiedEvent(REASON, self.claimed_epsilon, 0.0)
