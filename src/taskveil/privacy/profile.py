"""The whole curve of a guarantee, not one point of it: mu or rho where there is one, delta(epsilon), an attacker's errors.

A statement (epsilon, delta) is one point of a curve; two of them compare only at the same delta. From the recorded events:

    mu            Gaussian DP (Dong, Roth, Su 2022): where every release is an unsampled Gaussian; then it is the whole curve
    rho           zero-concentrated DP (Bun & Steinke 2016): where every release has one
    delta(eps)    the privacy profile: the smallest delta the best accountant certifies at epsilon
    trade-off     the smallest share of misses at a share of false alarms, for whoever guesses which of two neighbours it was

All figures are on the safe side: epsilon and delta rounded up (delta never below 1e-15, where doubles end), misses down. What
noise on a grid or cryptography adds (slack, failure) is inside the figures; mu and rho are those of the releases without it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from scipy.special import ndtr, ndtri

from taskveil.errors import OptionError
from taskveil.privacy.accountants import ACCOUNTANTS, candidates, merge
from taskveil.privacy.accountants.base import SMALLEST_DELTA, with_curve
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import Charge, GaussianEvent, UncertifiedEvent
from taskveil.privacy.guarantees import check_delta
from taskveil.privacy.statement import up
from taskveil.privacy.verification import own_event

if TYPE_CHECKING:
    from taskveil.privacy.certificate import Certificate, Statement

DELTAS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10)
SHARES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)  # of the stated epsilon: where the table gives delta
FALSE_ALARMS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
SEEN_BY = {
    "other-tasks": "all other tasks together",
    "server": "the server and all other tasks together",
    "public": "all readers",
}


class Curve:
    """epsilon(delta) and delta(epsilon) of charges, composed once."""

    def __init__(self, charges: Sequence[Charge]):
        merged = merge(charges)
        self.paid = with_curve(merged)
        self.certified = not any(isinstance(c.event, UncertifiedEvent) for c in merged)
        self.slack = math.fsum(c.count * c.event.slack() for c in merged)
        self.failure = math.fsum(c.count * c.event.failure() for c in merged)
        names = candidates(self.paid, 1e-5) if self.paid and self.certified else []
        self.totals = {name: ACCOUNTANTS.get(name).total(self.paid) for name in names}

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon certified at delta."""
        if not self.paid:
            return 0.0
        left = delta - self.failure
        return min((ACCOUNTANTS.get(n).read(total, left, self.slack) for n, total in self.totals.items()), default=math.inf)

    def delta(self, epsilon: float) -> float:
        """The smallest delta certified at epsilon."""
        if not self.paid:
            return 0.0
        extra = self.failure + (1 + math.exp(min(epsilon, 700.0))) * self.slack
        deltas = (ACCOUNTANTS.get(n).read_delta(total, epsilon) for n, total in self.totals.items())
        return min(1.0, max(min(deltas, default=1.0), SMALLEST_DELTA) + extra)

    def mu(self) -> float | None:
        """mu of Gaussian DP, where nothing but unsampled Gaussians was released."""
        if not self.certified or not all(isinstance(c.event, GaussianEvent) for c in self.paid):
            return None
        squares = (c.count / c.event.noise_multiplier**2 for c in self.paid if isinstance(c.event, GaussianEvent))
        return math.sqrt(math.fsum(squares))

    def rho(self) -> float | None:
        """rho of zero-concentrated DP, where every release has one."""
        total = math.fsum(c.count * c.event.zcdp() for c in self.paid) if self.certified else math.inf
        return total if math.isfinite(total) else None

    def misses(self, alarms: float, points: Sequence[tuple[float, float]]) -> float:
        """At least this share of misses at this share of false alarms; `points` are certified (epsilon, delta)."""
        best = max([0.0, *(_line(alarms, e, d) for e, d in points if math.isfinite(e))])
        mu, lost = self.mu(), self.slack + self.failure
        if mu is not None and alarms + lost < 1:
            best = max(best, float(ndtr(-ndtri(alarms + lost) - mu)) - lost)
        return best


@dataclass(frozen=True)
class Profile:
    """The curve behind one statement; unit, neighbours and observer are the statement's."""

    unit: str
    neighbours: str
    observer: str
    epsilon: float
    delta: float
    holds: bool
    mu: float | None = None
    rho: float | None = None
    right: float = 1.0  # how often the best attacker is right about one of two equally likely neighbours
    epsilons: tuple[tuple[float, float], ...] = ()  # (delta, epsilon)
    deltas: tuple[tuple[float, float], ...] = ()  # (epsilon, delta)
    trade_off: tuple[tuple[float, float], ...] = ()  # (false alarms, misses at least)
    tasks: int | None = None  # how many tasks have this budget, where tasks have budgets of their own
    against: str = ""  # whom the statement withstands, where that is not all others

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    def words(self) -> str:
        """What an attacker can be right about, without mathematics."""
        if not self.holds:
            return "No curve is given: the claim does not hold."
        one = f"one task{_some(self.tasks)}"
        what = {"task": f"which of two data sets {one} holds", "record": "which of two values one row has"}[self.unit]
        sees = f"{self.against or SEEN_BY[self.observer]} see"
        missed = dict(self.trade_off)[0.05]
        return (
            f"Somebody who must say {what} ({self.neighbours}), knows all the rest and sees what {sees} "
            f"is right at most {_percent(self.right)} of the time, where tossing a coin gives 50 %. If 5 % false alarms are "
            f"allowed, at least {_percent(missed, up=False)} of the true cases stay unnoticed."
        )

    def lines(self) -> list[str]:
        """The curve as text: every epsilon with its delta."""
        forms = [] if self.mu is None else [f"mu = {up(self.mu)} (Gaussian DP)"]
        forms += [] if self.rho is None else [f"rho = {up(self.rho)} (zero-concentrated DP)"]
        one = f"one {self.unit}{_some(self.tasks)} ({self.neighbours})"
        head = f"Curve of {one} against {self.observer}: {', '.join(forms) or 'no closed form'}."
        table = ", ".join(f"{up(e, 4)} at delta {d:.0e}" for d, e in self.epsilons if math.isfinite(e))
        return [head, *([f"  epsilon {table}"] if table else []), f"  {self.words()}"]


def profile(certificate: Certificate, statement: Statement | None = None) -> Profile:
    """The curve of a statement (the first, unless given), from the certificate's events."""
    if not certificate.statements:
        raise OptionError("there is no statement and so no curve: nothing is claimed and nothing is protected")
    statement = certificate.statements[0] if statement is None else statement
    if not isinstance(statement, type(certificate.statements[0])):
        raise OptionError(f"the statement must be one of certificate.statements; got {type(statement).__name__}")
    sentence = (statement.unit, statement.neighbours, statement.observer, statement.epsilon, statement.delta)
    whose: dict[str, Any] = {"tasks": statement.tasks, "against": statement.against() if statement.colluders is not None else ""}
    curve = Curve(charges_of(certificate, statement))
    if not statement.holds or not curve.certified:
        return Profile(*sentence, holds=False, **whose)
    epsilons = tuple((d, curve.epsilon(d)) for d in DELTAS)
    deltas = tuple((e, curve.delta(e)) for e in sorted({share * statement.epsilon for share in SHARES}))
    points = [*((e, d) for d, e in epsilons), *deltas, (0.0, curve.delta(0.0))]
    errors = tuple((a, curve.misses(a, points)) for a in FALSE_ALARMS)
    right = (1 + curve.delta(0.0)) / 2  # delta(0) is the total variation
    return Profile(*sentence, True, curve.mu(), curve.rho(), right, epsilons, deltas, errors, **whose)


def at_delta(certificate: Certificate, delta: float) -> list[dict[str, Any]]:
    """Every statement at another delta, so that two runs can be compared."""
    if check_delta(delta) <= 0:
        raise OptionError("a guarantee can be restated at a delta above 0 only; give one far below 1 over the number of units")
    curves = {s.share: Curve(charges_of(certificate, s)) for s in certificate.statements}
    reached = [(s, curves[s.share].epsilon(delta)) for s in certificate.statements]
    return [
        {
            "unit": s.unit, "neighbours": s.neighbours, "observer": s.observer, "delta": delta, "holds": s.holds,
            "epsilon": epsilon if s.holds and math.isfinite(epsilon) else None,
            **({} if s.tasks is None else {"tasks": s.tasks, "at_stated_delta": s.epsilon}),
        }
        for s, epsilon in reached
    ]  # fmt: skip


def charges_of(certificate: Certificate, statement: Statement | None = None) -> list[Charge]:
    """The recorded events, of the largest budget or a statement's own; whether they are the run's is for `verify` to say."""
    if certificate.total is not None:
        return [Charge(event_from_dict(certificate.total["event"]))]
    if statement is None or statement.share is None:
        return [Charge(event_from_dict(e["event"]), e["count"]) for e in certificate.events]
    return [Charge(own_event(e, statement), e["count"]) for e in certificate.events]


def _some(tasks: int | None) -> str:
    return "" if tasks is None else f" of the {tasks} with this budget"


def _line(alarms: float, epsilon: float, delta: float) -> float:
    """Misses that (epsilon, delta) leaves at least: Kairouz, Oh, Viswanath 2015, Thm. 2.1."""
    grow = math.exp(min(epsilon, 700.0))
    return max(1 - delta - grow * alarms, (1 - delta - alarms) / grow)


def _percent(share: float, up: bool = True) -> str:
    return f"{(math.ceil if up else math.floor)(share * 1000) / 10:g} %"
