"""What a secure sum is asked to withstand: how many tasks may collude, how many must be there."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from taskveil.errors import OptionError
from taskveil.privacy.integer_tables import LAWS

SECURITY_BITS = 40  # a sparse mask graph may fail with probability 2^-40 per release; that is added to delta


@dataclass(frozen=True)
class SecureOptions:
    """Public figures of every secure sum of a run.

    Noise shares are sized for `min_cohort` - `colluders` honest tasks: whatever the others do, that many
    shares are in every total that is ever opened, and colluders cannot subtract them.
    """

    n_tasks: int
    colluders: int
    min_cohort: int
    grid_bits: int = 12  # the largest message is at least 2^grid_bits grid steps long
    law: str = "discrete-gaussian"

    def __post_init__(self) -> None:
        if self.n_tasks < 2:
            raise OptionError("aggregation 'secure' needs at least two tasks; use 'local' for a single one")
        if not 0 <= self.colluders < self.min_cohort <= self.n_tasks:
            raise OptionError(
                f"aggregation 'secure' expects colluders < min_cohort <= tasks; got {self.colluders}, "
                f"{self.min_cohort} and {self.n_tasks}"
            )
        if not 4 <= self.grid_bits <= 24:
            raise OptionError(f"grid_bits must lie between 4 and 24; got {self.grid_bits!r}")
        if self.law not in LAWS:
            raise OptionError(f"unknown integer noise {self.law!r}: expected one of {', '.join(LAWS)}")

    @classmethod
    def for_tasks(
        cls,
        n_tasks: int,
        colluders: float = 0.05,
        dropouts: float = 0.0,
        min_cohort: int | None = None,
        **options: Any,
    ) -> SecureOptions:
        """Options from tolerated shares of the tasks (below 1) or numbers of tasks (1 and above).

        A share that rounds to no colluder still means one: every task knows its own noise, so a statement
        about other tasks needs at least one.
        """
        colluding = _count(colluders, n_tasks)
        if 0 < colluders < 1:
            colluding = max(1, colluding)
        smallest = n_tasks - _count(dropouts, n_tasks) if min_cohort is None else int(min_cohort)
        return cls(n_tasks, min(colluding, smallest - 1), smallest, **options)

    @property
    def shares(self) -> int:
        """h: honest noise shares in every total that is opened."""
        return self.min_cohort - self.colluders

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _count(share: float, n_tasks: int) -> int:
    if share < 0 or (share >= 1 and int(share) != share):
        raise OptionError(
            f"expected a share of the tasks in [0, 1) or a whole number of tasks; got {share!r}"
        )
    return math.floor(share * n_tasks + 1e-9) if share < 1 else int(share)
