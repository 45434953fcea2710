"""What a secure sum is asked to withstand: how many sites may collude, how many must be there.

A site is whoever holds keys: it knows all its own noise, however many tasks it answers for. So noise shares, colluders
and cohorts are counted in sites. In one process every task is a site of its own unless `sites` says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from taskveil.checks import AnyOf, Choice, Number, Rule, Whole, optional
from taskveil.errors import OptionError
from taskveil.privacy.integer_tables import LAWS

SECURITY_BITS = 40  # 2^-40 per release is added to delta for the cryptography (secure_events.py)
NAMES = ("colluders", "dropouts", "min_cohort", "sites", "grid_bits", "law")


SHARE_OR_COUNT = AnyOf(Number(at_least=0, below=1), Whole(0, 10**9))
SECURE: dict[str, Rule] = {
    "colluders": SHARE_OR_COUNT,
    "dropouts": SHARE_OR_COUNT,
    "min_cohort": optional(Whole(1, 10**9)),
    "grid_bits": Whole(4, 24),
    "law": Choice(*LAWS),
}


@dataclass(frozen=True)
class SecureOptions:
    """Public figures of every secure sum of a run.

    Noise shares are sized for `min_cohort` - `colluders` honest sites: whatever the others do, that many
    shares are in every total that is ever opened, and colluders cannot subtract them.
    """

    n_tasks: int
    colluders: int  # sites
    min_cohort: int  # sites
    grid_bits: int = 12  # the largest message is at least 2^grid_bits grid steps long
    law: str = "discrete-gaussian"
    site_sizes: tuple[int, ...] | None = None  # tasks of every site, in the order of the tasks; None: one each

    def __post_init__(self) -> None:
        if self.site_sizes is not None:
            object.__setattr__(self, "site_sizes", tuple(self.site_sizes))

    @classmethod
    def for_tasks(
        cls,
        n_tasks: int,
        colluders: float = 0.05,
        dropouts: float = 0.0,
        min_cohort: int | None = None,
        sites: Sequence[int] | None = None,
        **options: Any,
    ) -> SecureOptions:
        """Options from tolerated shares of the sites (below 1) or numbers of sites (1 and above).

        A share that rounds to no colluder still means one: every site knows its own noise, so a statement
        about other sites needs at least one.
        """
        sizes = None if sites is None else check_sizes(sites, n_tasks)
        n_sites = n_tasks if sizes is None else len(sizes)
        if n_sites < 2:
            raise OptionError("aggregation 'secure' needs at least two sites: the total of one is its own message; use 'local'")
        colluding = max(_count("colluders", colluders, n_sites - 1, n_sites, least=1), 1)
        if min_cohort is None:
            smallest = n_sites - _count("dropouts", dropouts, n_sites - 2, n_sites, least=0)
        else:
            smallest = Whole(2, n_sites).check("min_cohort", min_cohort)
        secure = cls(n_tasks, colluding, smallest, site_sizes=sizes, **options)
        secure.check()
        return secure

    @classmethod
    def parse(cls, n_tasks: int, given: Mapping[str, Any] | None, sites: Sequence[int] | None = None) -> SecureOptions:
        """Options as a person writes them; `sites` where a federation knows its sites already."""
        names = NAMES if sites is None else tuple(name for name in NAMES if name != "sites")
        if not isinstance(given, Mapping | None):
            raise OptionError(f"secure takes named options ({', '.join(names)}); got {given!r}")
        unknown = [str(name) for name in given or {} if name not in names]
        if unknown:
            raise OptionError(f"secure takes {', '.join(names)}; got {', '.join(unknown)}")
        return cls.for_tasks(n_tasks, **{"sites": sites, **(given or {})})

    def check(self) -> None:
        """What every new plan must meet; plans of earlier versions are only read.

        A server that shows two lists of survivors wins where both reach the threshold: honest sites vote once,
        colluders twice. With a threshold of `min_cohort` that is impossible iff 2 min_cohort > sites + colluders.
        """
        n, c, d = self.n_sites, self.colluders, self.dropouts
        most = (n - c - 1) // 2
        if not 1 <= c < n:
            raise OptionError(f"colluders must be a whole number of sites from 1 to {n - 1}; got {c}")
        if d > most:
            raise OptionError(
                f"a secure sum of {n} sites with {c} colluder(s) can lose at most {most} (sites > 2 dropouts + colluders, or a "
                f"lying server could open a message); got {d} dropout(s). Use min_cohort >= {n - most}, or more sites"
            )
        for name in ("grid_bits", "law"):
            SECURE[name].check(name, getattr(self, name))

    @property
    def n_sites(self) -> int:
        """How many sites take part in the sum."""
        return self.n_tasks if self.site_sizes is None else len(self.site_sizes)

    @property
    def dropouts(self) -> int:
        """How many sites may be missing."""
        return self.n_sites - self.min_cohort

    @property
    def shares(self) -> int:
        """h: honest noise shares in every total that is opened."""
        return self.min_cohort - self.colluders

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def check_sizes(sites: Any, n_tasks: int) -> tuple[int, ...]:
    """The numbers of tasks of all sites, which add up to the tasks."""
    listed = list(sites) if isinstance(sites, list | tuple) else []
    if not listed or any(type(size) is not int or size < 1 for size in listed) or sum(listed) != n_tasks:
        raise OptionError(f"sites must list the number of tasks of every site, adding up to {n_tasks}; got {sites!r}")
    return tuple(listed)


def _count(name: str, share: Any, most: int, n_sites: int, least: int) -> int:
    """A share of the sites, rounded down, or a whole number of them."""
    if isinstance(share, float) and (0 < share < 1 or (share == 0 and least == 0)):
        return math.floor(share * n_sites + 1e-9)
    if isinstance(share, bool) or not isinstance(share, int | float) or not least <= share <= most or share % 1:
        raise OptionError(
            f"{name} must be a share of the sites below 1, or a whole number of sites from {least} to {most}; got {share!r}"
        )
    return int(share)
