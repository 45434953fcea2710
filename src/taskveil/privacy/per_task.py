"""A budget for each task: its summand is scaled down by what it allows less than the others
(docs/theory/spending.md#budget-per-task).

Task i declares epsilon_i, publicly and without looking at rows; mu_i = mu(epsilon_i, delta) is the Gaussian privacy it allows,
and f_i = mu_i / max mu its share. The sum released is

    (m / sum f)  *  sum_i f_i s_i        s_i the summand of the contribution inside, clipped as ever

so that it still stands for a sum over m tasks, and whoever reads it needs to know nothing of budgets.

**Theorem.** With Gaussian noise calibrated to the sensitivity of a task with f = 1, every unsampled release is f_i mu_t-GDP for
task i, where it is mu_t-GDP for those; so all releases together are mu_i-GDP for task i. *Proof.* Replacing task i moves the sum
by at most f_i times the sensitivity; mu of a Gaussian release is the distance over the deviation, and squares add up for each
pair of neighbours. QED. Rounding to the grid does not shrink with f_i: the event of every share is computed from its own distance
plus the whole rounding (`counted`), and shares are lowered by SAFE to stay below epsilon_i with it.

Not for sampled releases (a sampled Gaussian is not Gaussian), pure noise, matrices of tasks by tasks, the unit record, and sums
a single task cannot scale by itself; those are refused by `check_budgets`, before any row is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.checks import Number
from taskveil.errors import DataError, OptionError
from taskveil.privacy.bounds import Bounded, FloatArray, _seal
from taskveil.privacy.contribution import Contribution, Sensitivity
from taskveil.privacy.guarantees import gaussian_mu
from taskveil.privacy.partial_sums import Partial
from taskveil.privacy.units import Neighbours, Unit

OTHERS = "*"
SAFE = 1 - 1e-6
FITTING = ("vector-sum", "outer-sum", "moment-sum", "diagonal-sum")
AGGREGATIONS = ("curator", "local")
CHUNK = 2**22  # numbers of single summands in memory at once


@dataclass(frozen=True)
class Weighted(Contribution):
    """The sum of `inner`, every task's summand times its share, brought back to the size of a sum over all tasks."""

    kind = "weighted"
    inner: Contribution
    shares: tuple[float, ...]  # of every task, in order; the largest is 1
    counted: float = 1.0  # the share of the task whose replacement `sensitivity` is about

    def __post_init__(self) -> None:
        object.__setattr__(self, "shares", tuple(float(f) for f in self.shares))
        if self.inner.kind not in FITTING:
            raise OptionError(f"a budget per task does not fit a {self.inner.kind}; {REMEDY}")
        if not self.shares or not all(0 < f <= 1 for f in self.shares) or max(self.shares) != 1 or not 0 < self.counted <= 1:
            raise OptionError("the shares of tasks must lie in (0, 1], the largest being 1")

    @property
    def plain(self) -> Contribution:
        return self.inner

    @property
    def bound(self) -> float:  # type: ignore[override]
        """The bound before a task's weight is applied."""
        return self.inner.bound

    @property
    def symmetric(self) -> bool:  # type: ignore[override]
        return self.inner.symmetric

    @property
    def message_shape(self) -> tuple[int, ...]:
        return self.inner.message_shape

    @property
    def total_shape(self) -> tuple[int, ...]:
        return self.inner.total_shape

    @property
    def vector_size(self) -> int:
        return self.inner.vector_size

    @property
    def stretch(self) -> float:
        """m / sum f."""
        return len(self.shares) / float(np.sum(self.shares))

    def sensitivity(self, neighbours: Neighbours | str) -> Sensitivity:
        """That of the sum inside, times the share counted and the stretch."""
        factor, inside = self.counted * self.stretch, self.inner.sensitivity(neighbours)
        scaled = [None if value is None else factor * value for value in (inside.l1, inside.nuclear)]
        return Sensitivity(factor * inside.l2, *scaled)

    def clip(self, raw: Any) -> Bounded:
        """Clipped by the contribution inside; every task must be there, or its share could be another's."""
        array = np.asarray(raw, dtype=np.float64)
        if array.ndim == 0 or len(array) != len(self.shares):
            raise DataError(f"a budget per task needs the messages of all {len(self.shares)} tasks, in order")
        return _seal(self.inner.clip(array).value, self)

    def to_vector(self, total: FloatArray) -> FloatArray:
        return self.inner.to_vector(total)

    def from_vector(self, vector: FloatArray) -> FloatArray:
        return self.inner.from_vector(vector)

    def _total(self, partial: Partial) -> FloatArray:
        (messages,) = partial.parts
        total = np.zeros(self.total_shape)
        step = max(1, CHUNK // max(total.size, 1))
        for start in range(0, len(messages), step):
            part = slice(start, start + step)
            total += np.tensordot(self._weights()[part], self.inner._each(messages[part]), axes=1)
        return total

    def _each(self, messages: FloatArray) -> FloatArray:
        each = self.inner._each(messages)
        return np.asarray(each * self._weights().reshape(-1, *[1] * (each.ndim - 1)))

    def _weights(self) -> FloatArray:
        return np.asarray(self.shares) * self.stretch

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "inner": self.inner.to_dict(), "shares": list(self.shares), "counted": self.counted}


REMEDY = (
    "give one epsilon for all tasks, or use a method with sums over tasks (subspace, mean, low-rank, group-sparse) without "
    "sampling, unit 'task', delta > 0, Gaussian noise and aggregation 'curator' or 'local'"
)


def counted_for(contribution: Contribution, share: float) -> Contribution:
    """The contribution whose sensitivity is that of a task with this share; itself where all tasks have the same budget."""
    return replace(contribution, counted=share) if isinstance(contribution, Weighted) else contribution


def task_shares(epsilons: Sequence[float], delta: float) -> tuple[float, ...]:
    """f_i = mu(epsilon_i, delta) / mu(largest epsilon, delta)."""
    largest = max(epsilons)
    top = gaussian_mu(largest, delta)
    share = {e: 1.0 if e == largest else SAFE * gaussian_mu(e, delta) / top for e in set(epsilons)}
    return tuple(share[e] for e in epsilons)


def epsilons_of(given: Mapping[Any, Any], names: Iterable[Any]) -> tuple[float, ...]:
    """The epsilon of every task, in order, from {name: epsilon, "*": epsilon of all others}."""
    budgets = {str(name): Number(above=0).check(f"epsilon of task {str(name)!r}", value) for name, value in given.items()}
    ordered = [str(name) for name in names]
    unknown = sorted(set(budgets) - set(ordered) - {OTHERS})
    if unknown:
        raise OptionError(f"epsilon names {', '.join(unknown[:5])}, which is no task here; take it out, or correct the name")
    missing = [name for name in ordered if name not in budgets]
    if missing and OTHERS not in budgets:
        raise OptionError(f"epsilon names no budget for {', '.join(missing[:5])}; add it, or '*' for all others")
    return tuple(float(budgets.get(name, budgets.get(OTHERS))) for name in ordered)  # type: ignore[arg-type]


def check_budgets(budget: Any, requests: Sequence[Any], families: Iterable[str]) -> None:
    """Refuse what has no proof: called by make_plan where tasks have budgets of their own."""
    reasons = {
        "the unit is the record": budget.unit is not Unit.TASK,
        "delta is 0": budget.delta == 0,
        f"aggregation is {budget.aggregation!r}": budget.aggregation not in AGGREGATIONS,
        f"variant is {budget.variant!r}": budget.variant != "sound",
        "tasks are sampled": any(r.rate is not None and r.rate < 1 for r in requests),
        "the noise is not Gaussian": any(family != "gaussian" for family in families),
        "what is released is not a sum that each task can scale": any(r.contribution.plain.kind not in FITTING for r in requests),
    }
    for reason, applies in reasons.items():
        if applies:
            raise OptionError(f"a budget per task is refused here: {reason}; {REMEDY}")


def groups(shares: Sequence[float], names: Sequence[Any] | None = None) -> list[tuple[float, int, str]]:
    """(share, number of tasks, their names as far as they fit on a line) of every budget, the smallest first."""
    counts = Counter(shares)
    claims = []
    for share in sorted(counts):
        mine = [str(n) for n, f in zip(names, shares, strict=True) if f == share] if names is not None else []
        more = f" and {len(mine) - 5} more" if len(mine) > 5 else ""
        claims.append((share, counts[share], ", ".join(mine[:5]) + more))
    return claims
