"""What all parties of one secure sum agree on beforehand; every figure is public and counts sites."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache

from taskveil.errors import OptionError
from taskveil.runtime.secure import keys
from taskveil.runtime.secure.graph import choose_degree, holders_suffice
from taskveil.runtime.secure.masks import Ring


@dataclass(frozen=True)
class SecureSettings:
    """Sizes and tolerances of a secure sum.

    `colluders` sites may hand everything they hold to a server that lies; `min_cohort` sites must deliver and sign,
    or nothing is released. `degree` neighbours per site share masks; `threshold` of a site's share holders (its
    neighbours and itself) open one of its two secrets. Why these rules: graph.py.
    """

    n_sites: int
    length: int  # coordinates
    bits: int  # the ring is the integers modulo 2^bits
    colluders: int
    min_cohort: int
    degree: int
    threshold: int

    def __post_init__(self) -> None:
        n, c, d = self.n_sites, self.colluders, self.dropouts
        if not 1 <= self.bits <= 64 or self.length < 1:
            raise OptionError("expected a ring of 1 to 64 bits and at least one coordinate")
        if n < 2:
            raise OptionError("a secure sum needs at least two sites: the total of one site is its own message")
        if c < 1 or d < 0 or n <= 2 * d + c:
            raise OptionError(
                f"expected at least one colluder and sites > 2 dropouts + colluders, got {n} sites, {d} dropouts and {c} "
                f"colluders; lower them or enrol more sites"
            )
        sparse = not self.complete
        if sparse and (self.degree % 2 or not c + d < self.degree < n - d):
            raise OptionError(f"expected an even number of neighbours between {c + d + 1} and {n - d - 1}, got {self.degree}")
        if not self.withstands(self.holders):
            raise OptionError(
                f"expected 2 threshold > holders + colluders and threshold > colluders + dropouts, got a threshold of "
                f"{self.threshold} with {self.holders} holders, {c} colluders and {d} dropouts; use SecureSettings.choose"
            )

    @classmethod
    def choose(
        cls, n_sites: int, length: int, bits: int, colluders: int = 1, min_cohort: int | None = None, complete: bool = False
    ) -> SecureSettings:
        """Graph degree and threshold from the tolerances; `complete` for few sites with slow networks between them."""
        smallest = n_sites if min_cohort is None else min_cohort
        degree, threshold = choose_degree(n_sites, colluders, n_sites - smallest, complete)
        return cls(n_sites, length, bits, colluders, smallest, degree, threshold)

    @property
    def ring(self) -> Ring:
        return Ring(self.bits)

    @property
    def dropouts(self) -> int:
        return self.n_sites - self.min_cohort

    @property
    def complete(self) -> bool:
        return self.degree >= self.n_sites - 1

    @property
    def holders(self) -> int:
        """Most shares that are dealt of one secret."""
        return min(self.degree + 1, self.n_sites)

    def withstands(self, holders: int) -> bool:
        """Whether a secret of which so many shares are dealt is safe from a server with two stories."""
        return holders_suffice(holders, self.threshold, self.colluders, self.dropouts)

    def digest(self) -> bytes:
        return _digest(self)


@lru_cache(maxsize=64)
def _digest(settings: SecureSettings) -> bytes:
    return keys.digest(repr(sorted(asdict(settings).items())).encode())
