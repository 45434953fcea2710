"""One local step of a client: where a gradient and the pull toward the billboard take its parameters (see rounds.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Walk:
    """What the parameters are drawn to (a tree like them), the step size, the strength of the pull."""

    target: Any
    eta: Any
    pull: Any

    def moved(self, weights: Any, gradient: Any, target: Any) -> Any:
        """(weights - eta (gradient - pull target)) / (1 + eta pull): the pull is taken implicitly, stable however strong it is.

        Written as a change of the weights, so that rounding is as small as the change, and nothing but a number is divided.
        """
        rate = self.eta / (1 + self.eta * self.pull)
        return weights - rate * (gradient + self.pull * (weights - target))
