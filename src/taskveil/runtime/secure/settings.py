"""What all parties of one secure sum agree on beforehand; every figure is public."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from taskveil.errors import OptionError
from taskveil.runtime.secure import keys
from taskveil.runtime.secure.graph import choose_degree, failure_probability
from taskveil.runtime.secure.masks import Ring


@dataclass(frozen=True)
class SecureSettings:
    """Sizes and tolerances of a secure sum.

    `colluders` tasks may hand everything they hold to the server; `min_cohort` tasks must deliver, or nothing
    is released. `degree` neighbours per task share masks; `threshold` of a task's share holders (its
    neighbours and itself) open one of its two secrets.
    """

    n_tasks: int
    length: int  # coordinates
    bits: int  # the ring is the integers modulo 2^bits
    colluders: int
    min_cohort: int
    degree: int
    threshold: int

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 64 or self.length < 1:
            raise OptionError("expected a ring of 1 to 64 bits and at least one coordinate")
        if self.n_tasks < 2:
            raise OptionError("a secure sum needs at least two tasks: the total of one task is its own message")
        if not self.colluders < self.min_cohort <= self.n_tasks:
            raise OptionError(
                f"expected colluders < min_cohort <= tasks, got {self.colluders}, {self.min_cohort} and "
                f"{self.n_tasks}; "
                f"lower the shares or enrol more tasks"
            )

    @classmethod
    def choose(
        cls,
        n_tasks: int,
        length: int,
        bits: int,
        colluders: int = 1,
        min_cohort: int | None = None,
        security_bits: float = 40.0,
    ) -> SecureSettings:
        """Graph degree and threshold from the tolerances."""
        smallest = n_tasks if min_cohort is None else min_cohort
        degree, threshold = choose_degree(n_tasks, colluders, n_tasks - smallest, security_bits)
        return cls(n_tasks, length, bits, colluders, smallest, degree, threshold)

    @property
    def ring(self) -> Ring:
        return Ring(self.bits)

    @property
    def dropouts(self) -> int:
        return self.n_tasks - self.min_cohort

    @property
    def complete(self) -> bool:
        return self.degree >= self.n_tasks - 1

    @property
    def failure_probability(self) -> float:
        """Chance, over the random graph, that more than the total can be learnt; it is added to delta."""
        return failure_probability(self.n_tasks, self.colluders, self.dropouts, self.degree, self.threshold)

    def digest(self) -> bytes:
        return _digest(self)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> SecureSettings:
        return cls(**data)


@lru_cache(maxsize=64)
def _digest(settings: SecureSettings) -> bytes:
    return keys.digest(repr(sorted(asdict(settings).items())).encode())


def share_to_count(share: float, n_tasks: int) -> int:
    """A tolerated share of the tasks as a whole number of tasks, rounded down."""
    if not 0 <= share < 1:
        raise OptionError(f"a share of the tasks lies in [0, 1), got {share}")
    return math.floor(share * n_tasks + 1e-9)
