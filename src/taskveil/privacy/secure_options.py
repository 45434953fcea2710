"""What a secure sum is asked to withstand: how many tasks may collude, how many must be there."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from taskveil.checks import AnyOf, Choice, Number, Rule, Whole, check_table, optional
from taskveil.errors import OptionError
from taskveil.privacy.integer_tables import LAWS

SECURITY_BITS = 40  # a sparse mask graph may fail with probability 2^-40 per release; that is added to delta


SHARE_OR_COUNT = AnyOf(Number(at_least=0, below=1), Whole(0, 10**9))
SECURE: dict[str, Rule] = {
    "colluders": SHARE_OR_COUNT,
    "dropouts": SHARE_OR_COUNT,
    "min_cohort": optional(Whole(1, 10**9)),
    "grid_bits": Whole(4, 24),
    "law": Choice(*LAWS),
}


def checked_secure(wanted: Any) -> dict[str, Any]:
    """What a caller asks of secure sums, every entry inside its rule."""
    check_table(wanted, SECURE, "secure")
    return dict(wanted)


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
        for name in ("grid_bits", "law"):
            SECURE[name].check(name, getattr(self, name))

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
        checked_secure({"colluders": colluders, "dropouts": dropouts, "min_cohort": min_cohort, **options})
        colluding = _count(colluders, n_tasks)
        if 0 < colluders < 1:
            colluding = max(1, colluding)
        smallest = n_tasks - _count(dropouts, n_tasks) if min_cohort is None else int(min_cohort)
        return cls(n_tasks, colluding, smallest, **options)

    @property
    def shares(self) -> int:
        """h: honest noise shares in every total that is opened."""
        return self.min_cohort - self.colluders

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def _count(share: float, n_tasks: int) -> int:
    return math.floor(share * n_tasks + 1e-9) if share < 1 else int(share)
