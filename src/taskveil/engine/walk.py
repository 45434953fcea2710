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
        """The pull is taken implicitly: stable however strong it is."""
        return (weights - self.eta * (gradient - self.pull * target)) / (1 + self.eta * self.pull)
