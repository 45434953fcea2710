"""Certificate: the guarantee of a run as data, with everything needed to recompute it.

`statements` are claims, each a whole sentence (unit, neighbours, observer, epsilon, delta, accountant,
holds). `events` list every release with its contribution, mechanism and event; `verify()` recomputes, from
sizes and scales alone, the event of every release and the epsilon of every statement. `holds: false` comes
with a reason: a paper's claim that fails, or seeded noise. What is not protected is not a statement; it
stands in `not_protected`.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import metadata
from typing import Any

from taskveil.checks import parse_json
from taskveil.errors import DataError, InputError
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.events import SampledGaussianEvent, UncertifiedEvent
from taskveil.privacy.fingerprint import claims_fingerprint
from taskveil.privacy.per_task import groups, task_shares
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.planned import spent_share
from taskveil.privacy.profile import Profile, profile
from taskveil.privacy.statement import Statement, Verification, check_certificate
from taskveil.privacy.units import Observer, Unit
from taskveil.privacy.verification import OVERSTATED, check_statement, refutation

__all__ = ["Certificate", "Statement", "Verification", "build_certificate", "software_versions"]

SECURE_BASIS = (
    "no more than the stated number of sites collude with each other or with the server, which may lie in a secure sum",
    "every site has the others' true public signing keys and never enters a round twice",
    "X25519, HKDF-SHA256, ChaCha20-Poly1305 and Ed25519 are secure",
)
SEEDED = "seeded noise: whoever knows the seed can subtract it, so nothing computed with it may be released"


@dataclass(frozen=True)
class Certificate:
    """The guarantee of a run: its statements, the events that they follow from, and what they do not cover.

    Attributes
    ----------
    method, variant : str
        The method that ran.
    statements : tuple of Statement
        The claims. Empty if nothing is claimed.
    events : tuple of dict
        Every release with its contribution, mechanism, event and count. The statements can be recomputed from these.
    assumptions : tuple of str
        What must be true for the statements to hold.
    not_protected : tuple of str
        What the statements do not cover.
    randomness, software : dict
        The samplers that drew the noise, and the versions of the software.
    total : dict or None, default=None
        For runs that chose later releases by earlier ones: the policy, and the fixed total that the statements are about.
        `events` then list the releases that were made.
    audit : dict or None, default=None
        What an attack on this configuration found.
    seal : str or None, default=None
        A hash that binds a saved certificate to the files beside it.

    Examples
    --------
    >>> import taskveil as tv
    >>> est = tv.TaskRegressor(epsilon=1.0, delta=1e-5).fit(tv.get_synthetic("hospitals", n_tasks=20, seed=0).train)
    >>> claim = est.certificate_.statements[0]
    >>> claim.unit, claim.neighbours, claim.observer, claim.epsilon, claim.holds
    ('task', 'replace-one', 'other-tasks', 1.0, True)
    >>> bool(est.certificate_.verify())
    True
    >>> tv.Certificate.from_json(est.certificate_.to_json()) == est.certificate_
    True
    """

    method: str
    variant: str
    statements: tuple[Statement, ...]
    events: tuple[dict[str, Any], ...]
    assumptions: tuple[str, ...] = ()
    not_protected: tuple[str, ...] = ()
    randomness: dict[str, Any] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=dict)
    total: dict[str, Any] | None = None
    audit: dict[str, Any] | None = None  # what an attack on this configuration found (taskveil.audits)
    seal: str | None = field(default=None, compare=False)  # binds a saved certificate to the files beside it

    @property
    def holds(self) -> bool:
        """Whether there is a statement and every statement holds (as recorded; `verify` recomputes)."""
        return bool(self.statements) and all(s.holds for s in self.statements)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the fields of docs/architecture.md#certificate."""
        return {
            **({} if self.audit is None else {"audit": self.audit}),
            "method": self.method,
            "variant": self.variant,
            "statements": [s.to_dict() for s in self.statements],
            "events": list(self.events),
            **({} if self.total is None else {"total": self.total}),
            "assumptions": list(self.assumptions),
            "not_protected": list(self.not_protected),
            "randomness": self.randomness,
            "software": self.software,
            **({} if self.seal is None else {"seal": self.seal}),
        }

    def to_json(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Certificate:
        """The certificate written by `to_dict`."""
        check_certificate(data)
        try:
            statements = tuple(Statement(**s) for s in data["statements"])
            return Certificate(
                data["method"],
                data["variant"],
                statements,
                tuple(data["events"]),
                tuple(data["assumptions"]),
                tuple(data["not_protected"]),
                dict(data["randomness"]),
                dict(data["software"]),
                data.get("total"),
                data.get("audit"),
                data.get("seal"),
            )
        except KeyError as lost:
            raise DataError(
                f"this is not a certificate: the entry {lost} is missing. Expected certificate.json of a saved run"
            ) from None
        except (TypeError, ValueError) as problem:
            raise DataError(f"this is not a certificate: {problem}") from None

    @staticmethod
    def from_json(text: str) -> Certificate:
        """The certificate written by `to_json`."""
        return Certificate.from_dict(parse_json(text, "this is not a certificate: the text", DataError))

    def verify(self) -> Verification:
        """Recompute every event and every epsilon, and say what does not hold.

        Returns
        -------
        Verification
            True if everything holds; otherwise `problems` says what does not.
        """
        problems = [f"{s.observer}: {s.reason}" for s in self.statements if not s.holds]
        try:
            for statement in self.statements:
                problems += check_statement(self, statement)
        except (
            InputError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError, RecursionError,
            MemoryError,
        ) as problem:  # fmt: skip
            problems.append(f"the events cannot be read ({type(problem).__name__}: {problem})")
        if self.audit is not None and self.audit.get("verdict") == "refuted":
            problems.append("an audit refuted the claim: " + self._audit_sentence())
        audited = (self.audit or {}).get("configuration")
        if audited is not None and audited.get("claims") != claims_fingerprint(self.to_dict()):
            problems.append("the audit in this certificate attacked another configuration")
        if not self.statements:
            problems.append("there is no statement: nothing is claimed and nothing is protected")
        return Verification(not problems, tuple(problems))

    def profile(self, statement: Statement | None = None) -> Profile:
        """The whole curve of a statement (the first, unless given): mu, rho, delta(epsilon), an attacker's errors."""
        return profile(self, statement)

    def __str__(self) -> str:
        lines = [f"Method {self.method} (variant {self.variant})."]
        lines += [s.sentence() for s in self.statements] or ["No privacy statement is made."]
        lines += [] if self.audit is None else [self._audit_sentence()]
        lines += [f"Assumption: {text}." for text in self.assumptions]
        lines += [f"Not protected: {text}." for text in self.not_protected]
        return "\n".join(lines)

    def _audit_sentence(self) -> str:
        """Both numbers side by side: what is claimed, and what an attack can show."""
        a = self.audit or {}
        audited = (a.get("configuration") or {}).get("digest")
        runs, one = a.get("trials"), a.get("trials") == 1
        which = f" of configuration {audited[:8]}" if audited else ""
        return (
            f"Audit{which} ({'of this run' if one else 'a simulation'}, which proves nothing): claimed epsilon "
            f"{a.get('claimed_epsilon', float('nan')):.4g}, "
            f"lower bound found {a.get('lower_bound', float('nan')):.4g} with {100 * a.get('confidence', 0.0):.4g} % "
            f"confidence in {'one run with canary tasks' if one else f'{runs} runs of each neighbour'}: {a.get('verdict')}."
            + "".join(f" Refuted: {leak}." for leak in a.get("leaks", ()))
        )


def build_certificate(
    method: str,
    plan: Plan,
    randomness: dict[str, Any],
    *,
    public: Iterable[str] = (),
    assumptions: Iterable[str] = (),
    not_protected: Iterable[str] = (),
    observers: Sequence[Observer | str] | None = None,
    task_names: Sequence[str] | None = None,
) -> Certificate:
    """The certificate of a run that made the releases of `plan` with noise described by `randomness`.

    `public` names what else was known and fixed before the run (columns, names of tasks).

    `observers` defaults to those of the plan's aggregation; a method whose finished models are
    post-processing of the billboard may add "public".
    """
    way = AGGREGATIONS.get(plan.budget.aggregation)
    watched = tuple(Observer(o) for o in observers) if observers is not None else way.observers
    open_points = list(not_protected)
    uncertified = plan.budget.epsilon is None and bool(plan.releases)
    if uncertified:
        open_points.insert(0, "nothing is protected: the run was made without noise (epsilon=None)")
    elif plan.releases and way.server_sees:
        open_points.append(way.server_sees)
    statements = () if uncertified else tuple(s for o in watched for s in _states(plan, o, randomness, task_names))
    basis = _core_assumptions(plan, randomness, public) if statements and plan.releases else []
    return Certificate(
        method,
        plan.budget.variant,
        statements,
        _group(plan),
        (*basis, *assumptions),
        tuple(open_points),
        dict(randomness),
        software_versions(),
        None if plan.total is None else {"policy": plan.policy, "event": plan.total.to_dict()},
    )


def _core_assumptions(plan: Plan, randomness: dict[str, Any], public: Iterable[str]) -> list[str]:
    """What every statement of the private core rests on."""
    basis = [_public_facts(plan.budget.unit, public)]
    if plan.total is not None:
        basis.append(
            f"which sum was released, and whether another, followed from earlier releases by the public policy {plan.policy!r}, "
            f"within a total of mu = {1 / plan.total.noise_multiplier:.6g} fixed before the run: what is stated is stated of the "
            f"total, of which {100 * spent_share(plan, plan.releases):.0f} % (of mu squared) was released; no smaller claim holds"
        )
    if plan.budget.unit is Unit.RECORD:
        basis.append("one person is one row of one task; otherwise epsilon grows with the number of rows of a person")
    if any(isinstance(r.event, SampledGaussianEvent) for r in plan.releases):
        basis.append("every unit takes part in a round independently, with the planned probability and in secret")
    if plan.budget.aggregation == "secure":
        basis += SECURE_BASIS
    if not randomness.get("exact") and not randomness.get("seeded"):
        basis.append("noise was drawn in floating point: statements cover real arithmetic, not the low bits of doubles")
    return basis


def _states(plan: Plan, observer: Observer, randomness: dict[str, Any], names: Sequence[str] | None) -> list[Statement]:
    """One statement for every distinct budget."""
    if plan.budget.task_epsilons is None or not plan.releases:
        return [_state(plan, observer, randomness)]
    shares = task_shares(plan.budget.task_epsilons, plan.budget.delta)
    epsilons = dict(zip(shares, plan.budget.task_epsilons, strict=True))
    return [
        replace(_state(plan, observer, randomness, epsilons[share], share), share=share, tasks=count, names=some or None)
        for share, count, some in groups(shares, names)
    ]


def _state(
    plan: Plan, observer: Observer, randomness: dict[str, Any], own_epsilon: float | None = None, share: float = 1.0
) -> Statement:
    """One statement, computed from the plan's events."""
    budget = plan.budget if own_epsilon is None else replace(plan.budget, epsilon=own_epsilon, task_epsilons=None)
    sentence = (budget.unit.value, budget.neighbours.value, observer.value)
    if not plan.charges():
        return Statement(*sentence, 0.0, 0.0, "pure", True)
    assert budget.epsilon is not None
    if any(isinstance(r.event, UncertifiedEvent) for r in plan.releases):
        reason, at_least = refutation(plan.charges(), budget.epsilon)
        return Statement(*sentence, budget.epsilon, budget.delta, "kairouz", False, reason, at_least)
    reached, accountant = plan.certified(share=share)
    epsilon = budget.epsilon if (1 - OVERSTATED / 2) * budget.epsilon <= reached <= budget.epsilon else reached
    delta = 0.0 if accountant == "pure" else budget.delta
    seeded = bool(randomness.get("seeded"))
    why = SEEDED if seeded else None
    colluders = budget.secure.colluders if budget.secure else None
    return Statement(*sentence, epsilon, delta, accountant, not seeded, why, colluders=colluders)


def _group(plan: Plan) -> tuple[dict[str, Any], ...]:
    """Equal releases written once, with their count and rounds."""
    groups: dict[tuple[Any, ...], list[PlannedRelease]] = {}
    for r in plan.releases:
        groups.setdefault((r.name, r.contribution, r.mechanism, r.event, r.rate), []).append(r)
    return tuple(
        {
            "name": first.name, "count": len(members), "rounds": _ranges(r.round for r in members),
            "contribution": first.contribution.to_dict(), "mechanism": first.mechanism.to_dict(),
            "event": first.event.to_dict(), "rate": first.rate, "neighbours": plan.budget.neighbours.value,
            "aggregation": plan.budget.aggregation,
        }
        for members in groups.values()
        for first in members[:1]
    )  # fmt: skip


def _public_facts(unit: Unit, also: Iterable[str]) -> str:
    """What everybody may know beforehand. Numbers of rows belong to it only where single rows are the unit."""
    facts = ["the number of tasks", *also, "the bound, noise and schedule of every release"]
    if unit is Unit.RECORD:
        facts.append("the number of rows of every task")
    sentence = f"public and fixed before the run: {', '.join(facts)}"
    if unit is Unit.TASK:
        sentence += "; not how many rows a task has: no bound, noise or schedule was computed from that"
    return sentence


def _ranges(rounds: Iterable[int]) -> list[list[int]]:
    """Rounds as [first, last] pairs."""
    ranges: list[list[int]] = []
    for r in sorted(rounds):
        if ranges and ranges[-1][1] == r - 1:
            ranges[-1][1] = r
        else:
            ranges.append([r, r])
    return ranges


def software_versions() -> dict[str, str]:
    """Versions of what computed the certificate."""
    return dict(_installed())


@lru_cache(maxsize=1)
def _installed() -> tuple[tuple[str, str], ...]:
    versions = {"python": platform.python_version()}
    for package in ("taskveil", "numpy", "scipy", "dp-accounting", "opendp"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return tuple(versions.items())
