"""Public knowledge about models, there before the run: one more belief every task weighs by the evidence of its own rows.

A run's own charge is the same for any fixed prior (THEORY section 9). What holds in total depends on where the prior came from:
its origin and a digest are recorded, and `conditional` says that it was computed from protected rows outside this account: the
certificate is then conditional on it. Which weight a task gives it is the task's own work after the last release, and free.

Units: those of the rows a method works on, one standard deviation of a feature or of the target where tasks scale by
themselves, the declared ranges where those are used.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class PublicPrior:
    """A centre, and where a billboard held them, shares of energy along a basis and in single features."""

    origin: str
    sha256: str
    conditional: bool
    mean: Rows  # (r, d)
    share: tuple[float, ...] = ()
    basis: Rows = ()
    features: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("mean", "basis"):
            object.__setattr__(self, name, tuple(tuple(float(v) for v in row) for row in getattr(self, name)))
        for name in ("share", "features"):
            object.__setattr__(self, name, tuple(float(v) for v in getattr(self, name)))

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """mean (r, d), share (d,), basis (d, d), features (d,)."""
        mean = np.array(self.mean)
        d = mean.shape[1]
        return {
            "mean": mean, "share": np.array(self.share) if self.share else np.zeros(d),
            "basis": np.array(self.basis) if self.share else np.eye(d),
            "features": np.array(self.features) if self.features else np.zeros(d),
        }  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    def words(self) -> str:
        """What a certificate has to say about it."""
        which = f"{self.origin}; sha256 {self.sha256[:16]}"
        if self.conditional:
            return (
                f"conditional on the prior ({which}): it was computed from protected rows outside this account, and what it "
                "shows of them adds to this guarantee"
            )
        return f"the prior ({which}) does not depend on protected rows, as its owner states"
