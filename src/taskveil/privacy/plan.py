"""A plan: all releases of a run, calibrated to the budget before any data is read.

A method asks (`Request`), from public sizes only; `make_plan` answers with mechanisms whose absolute scale
is fixed. The cost is therefore known, and reserved, before the first round.

Weights: Gaussian releases get noise multipliers with 1/z_t proportional to the weight, pure releases eps_t
= eps_0 * weight, eps_0 the largest value certified by the best valid accountant. The paper variants use
exactly MP-MTL Def. 7.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from taskveil.errors import OptionError
from taskveil.privacy.calibrate import largest_base_epsilon, largest_loss, verify_target
from taskveil.privacy.contributions import Contribution, DiagonalSum, TaskGram
from taskveil.privacy.events import CappedEvent, Charge, Event, GaussianEvent, GaussianTotal, PureEvent, SampledGaussianEvent
from taskveil.privacy.integer_tables import LARGEST_DISTANCE
from taskveil.privacy.mechanisms import MECHANISMS, Mechanism
from taskveil.privacy.mechanisms.shared import SharedNoise
from taskveil.privacy.per_task import Weighted, check_budgets, task_shares
from taskveil.privacy.planned import VARIANTS, Budget, Plan, PlannedRelease, Request, charged, dearest, event_of, is_sampled
from taskveil.privacy.secure_options import SECURITY_BITS, SecureOptions
from taskveil.privacy.units import Neighbours

__all__ = ["VARIANTS", "Budget", "Plan", "PlannedRelease", "Request", "charged", "event_of", "make_plan"]

ADAPTIVE = ("curator", "local")  # aggregations whose noise is one Gaussian
NOT_REACHED = "calibration did not reach its target; check epsilon, delta and the accountant"


def make_plan(requests: Iterable[Request], budget: Budget, policy: str = "") -> Plan:
    """Choose a mechanism for every request and the largest common loss that meets the budget.

    Where a policy is named, one request of each round is chosen as the run goes on, or none: the dearest of all that can happen
    meets the budget, and is the total of the plan.
    """
    requests = list(requests)
    _check_requests(requests, budget)
    if policy:
        return _chosen_plan(requests, budget, policy)
    if budget.task_epsilons is not None:
        requests = _with_shares(requests, budget)
    if budget.aggregation == "secure" and budget.epsilon is not None and requests:
        return _secure_plan(requests, budget)
    kinds = [_choose(request, budget) for request in requests]
    if budget.epsilon is None or not requests:
        return Plan(_planned_releases(requests, kinds, budget, 1.0), budget)
    if not all(kind.family in ("gaussian", "pure") for kind in kinds):
        loss = largest_base_epsilon([r.weight for r in requests], budget.epsilon, budget.delta)
        return Plan(_planned_releases(requests, kinds, budget, loss), budget)
    classes = _classes(requests, kinds, budget)
    loss = largest_loss(lambda c: _charges(classes, budget, c), budget.epsilon, budget.delta, budget.accountant)
    for _ in range(50):
        plan = Plan(_planned_releases(requests, kinds, budget, loss), budget)
        if plan.epsilon() <= budget.epsilon:  # of the finished events, by the accountant that certifies them
            return plan
        loss *= 1 - 1e-4
    raise OptionError(NOT_REACHED)


def _chosen_plan(requests: Sequence[Request], budget: Budget, policy: str) -> Plan:
    """Releases that are chosen as the run goes on, and their total (docs/theory/spending.md#adaptive)."""
    kinds = [_choose(request, budget) for request in requests]
    sampled = any(request.rate is not None for request in requests)
    if (
        budget.epsilon is None or budget.aggregation not in ADAPTIVE or budget.task_epsilons is not None or sampled
        or not all(kind.family == "gaussian" for kind in kinds)
    ):  # fmt: skip
        raise OptionError(
            "only unsampled Gaussian releases may follow earlier ones (spending='adaptive'): give epsilon, delta > 0, "
            f"aggregation {' or '.join(ADAPTIVE)}, one budget for all tasks and no other mechanism, or spending='fixed'"
        )
    heaviest = {r.round: max(o.weight for o in requests if o.round == r.round) for r in requests}

    def ideal(loss: float) -> list[Charge]:
        return [Charge(GaussianEvent(1 / (loss * weight))) for weight in heaviest.values()]

    loss = largest_loss(ideal, budget.epsilon, budget.delta, budget.accountant)
    for _ in range(50):
        releases = _planned_releases(requests, kinds, budget, loss)
        plan = Plan(releases, budget, GaussianTotal(1 / math.sqrt(dearest(releases) * (1 + 1e-12))), policy)
        if plan.epsilon() <= budget.epsilon:
            return plan
        loss *= 1 - 1e-4
    raise OptionError(NOT_REACHED)


def _with_shares(requests: Sequence[Request], budget: Budget) -> list[Request]:
    """The same requests where tasks have budgets of their own: their summands are scaled, the noise is for the largest budget."""
    assert budget.task_epsilons is not None
    check_budgets(budget, requests, [_choose(request, budget).family for request in requests])
    shares = task_shares(budget.task_epsilons, budget.delta)
    return [replace(request, contribution=Weighted(request.contribution.plain, shares)) for request in requests]


def _planned_releases(
    requests: Sequence[Request], kinds: Sequence[type[Mechanism]], budget: Budget, loss: float
) -> tuple[PlannedRelease, ...]:
    """A mechanism and an event for every request; equal requests of different rounds share them."""
    choices: dict[Any, tuple[Mechanism, Event]] = {}
    releases = []
    for request, kind, paid in zip(requests, kinds, charged(requests), strict=True):
        key = (kind, request.contribution, request.weight, request.rate)
        if key not in choices:
            choices[key] = _mechanism(request, kind, budget, loss * request.weight)
        mechanism, event = choices[key]
        releases.append(
            PlannedRelease(
                request.name, request.round, request.contribution, mechanism,
                event if paid or budget.epsilon is None else CappedEvent(event, request.most or 1), request.rate,
            )
        )  # fmt: skip
    return tuple(releases)


def _mechanism(request: Request, kind: type[Mechanism], budget: Budget, share: float) -> tuple[Mechanism, Event]:
    relation = Neighbours.ADD_REMOVE if kind.family == "gaussian" and is_sampled(request, budget) else budget.neighbours
    parameter = 1 / share if kind.family in ("gaussian", "shared") else share
    mechanism: Mechanism
    if issubclass(kind, SharedNoise):
        mechanism = kind.calibrated(request.contribution, relation, parameter, secure=budget.secure)
    else:
        mechanism = kind.calibrated(request.contribution, relation, parameter, budget.variant)
    return mechanism, event_of(mechanism, request.contribution, budget.neighbours, request.rate, budget.aggregation)


def _classes(
    requests: Sequence[Request], kinds: Sequence[type[Mechanism]], budget: Budget
) -> dict[tuple[bool, float, float | None], int]:
    """Requests that cost the same, counted: (pure?, weight, secret sampling rate) -> how many."""
    triples = zip(requests, kinds, charged(requests), strict=True)
    return Counter(
        (kind.family == "pure", r.weight, r.rate if is_sampled(r, budget) else None) for r, kind, paid in triples if paid
    )


def _charges(classes: dict[tuple[bool, float, float | None], int], budget: Budget, loss: float) -> list[Charge]:
    """Ideal events at a common loss, for the search."""
    charges: list[Charge] = []
    for (pure, weight, rate), count in classes.items():
        share = loss * weight
        event: Event
        if pure:
            event = PureEvent(share)
        elif rate is not None:
            event = SampledGaussianEvent(1 / share, rate, budget.neighbours)
        else:
            event = GaussianEvent(1 / share)
        charges.append(Charge(event, count))
    return charges


def _secure_plan(requests: Sequence[Request], budget: Budget) -> Plan:
    """Releases that are secure sums: noise in shares, calibrated on their grids to a curator's targets.

    Every site takes part in every round, with an empty message for tasks that were not asked: the number of noise shares must not
    depend on a draw, and the server sees who takes part, so no amplification by sampling tasks is claimed. Rows sampled in secret
    inside a task (unit record) are charged in full as well, which is safe and says more noise than needed.
    """
    secure = _checked_options(budget)
    kind = MECHANISMS.get("shared-skellam" if secure.law == "skellam" else "shared-gaussian")
    if budget.mechanism not in (None, "gaussian", "matrix-gaussian", kind.name):
        raise OptionError(
            f"aggregation 'secure' adds integer noise in shares ({kind.name}); mechanism {budget.mechanism!r} cannot be shared"
        )
    for request in requests:
        if not kind.accepts(request.contribution):
            raise OptionError(f"a {request.contribution.kind} is not a sum over tasks; use aggregation 'curator'")
    kinds, paid = [kind] * len(requests), charged(requests)

    def charges(loss: float) -> list[Charge]:
        """Events at a common loss: the dominating real Gaussian, or the Skellam law on its grid."""
        if secure.law == "skellam":
            made = [release.event for release in _planned_releases(requests, kinds, budget, loss)]
            return [Charge(event) for event, costs in zip(made, paid, strict=True) if costs]
        return [Charge(GaussianEvent(1 / (loss * r.weight))) for r, costs in zip(requests, paid, strict=True) if costs]

    assert budget.epsilon is not None
    left = _delta_of_curves(budget, secure, requests)
    loss = largest_loss(charges, budget.epsilon, left, budget.accountant)
    plan = Plan(_planned_releases(requests, kinds, budget, loss), budget)
    verify_target(plan.charges(), budget.epsilon, budget.delta, budget.accountant)
    return plan


def _checked_options(budget: Budget) -> SecureOptions:
    if budget.secure is None:
        raise OptionError("aggregation 'secure' needs the number of tasks: give secure=SecureOptions.for_tasks(n_tasks)")
    if budget.variant != "sound":
        raise OptionError("aggregation 'secure' exists for variant='sound'; the paper's is 'local-model'")
    if budget.delta == 0:
        raise OptionError("aggregation 'secure' needs delta > 0; use 'local' with a pure mechanism")
    budget.secure.check()
    return budget.secure


def _delta_of_curves(budget: Budget, secure: SecureOptions, requests: Sequence[Request]) -> float:
    """The delta left for the curves: secure sums spend some on their cryptography and sampling tables."""
    grown = 1 + math.exp(min(budget.epsilon or 0.0, 700.0))
    sizes = sum(2 * r.contribution.vector_size + 1 for r in requests)  # padded at most to twice the length
    distance = sizes * (2 * LARGEST_DISTANCE * secure.n_sites + 1e-40)
    left = budget.delta - len(requests) * 2.0**-SECURITY_BITS - 2 * grown * distance
    if left < budget.delta / 2:
        raise OptionError(
            "delta is too small for this many secure sums, each of which takes 2^-40 of it; "
            "use a larger delta, a smaller epsilon or fewer rounds"
        )
    return left


def _choose(request: Request, budget: Budget) -> type[Mechanism]:
    """The mechanism named by the budget or the request, or the default for this contribution."""
    contribution = request.contribution
    if budget.epsilon is None:
        return MECHANISMS.get("none")
    name = budget.mechanism or request.mechanism or _default(contribution, budget)
    kind = MECHANISMS.get(name)
    if kind.on_messages != (budget.aggregation == "local-model"):
        raise OptionError(
            f"aggregation {budget.aggregation!r} does not go with mechanism {name!r}: 'local-model' takes "
            f"{' or '.join(_on_messages())}, and only it does"
        )
    if kind.family == "none" and budget.variant == "sound":
        raise OptionError("mechanism 'none' adds no noise; it goes with epsilon=None only")
    if name == "gaussian" and contribution.symmetric:
        kind = MECHANISMS.get("matrix-gaussian")  # the same law in the matrix's own isometry
    if name == "matrix-gaussian" and not contribution.symmetric:
        kind = MECHANISMS.get("gaussian")
    if not kind.accepts(contribution):
        sound = [n for n in MECHANISMS if MECHANISMS.get(n).family in ("gaussian", "pure")]
        fitting = ", ".join(n for n in sound if MECHANISMS.get(n).accepts(contribution))
        raise OptionError(f"mechanism {name!r} does not fit a {contribution.kind}; choose one of {fitting}")
    if kind.family == "gaussian" and budget.delta == 0:
        raise OptionError(
            f"delta=0 needs a pure mechanism, and {kind.name!r} is not one; give delta > 0 or choose "
            "'laplace', 'l2-laplace' or 'two-sided-wishart'"
        )
    return kind


def _default(contribution: Contribution, budget: Budget) -> str:
    if budget.aggregation == "local-model":
        return next(n for n in _on_messages() if (MECHANISMS.get(n).family == "paper") == (budget.variant != "sound"))
    paper = MECHANISMS.get("paper-wishart")
    if budget.variant != "sound" and paper.accepts(contribution):
        return "paper-wishart"
    if budget.delta == 0:
        if contribution.symmetric:
            return "two-sided-wishart"
        return "laplace" if isinstance(contribution, DiagonalSum) else "l2-laplace"
    return "matrix-gaussian" if contribution.symmetric else "gaussian"


def _on_messages() -> list[str]:
    return [name for name in MECHANISMS if MECHANISMS.get(name).on_messages]


def _check_requests(requests: Sequence[Request], budget: Budget) -> None:
    seen: set[tuple[int, str]] = set()
    for request in requests:
        key = (request.round, request.name)
        if key in seen:
            raise OptionError(f"release {request.name!r} is requested twice in round {request.round}")
        seen.add(key)
        if request.contribution.unit is not budget.unit and budget.epsilon is not None:
            raise OptionError(
                f"release {request.name!r} bounds a {request.contribution.unit.value}, the budget protects a "
                f"{budget.unit.value}; set unit={request.contribution.unit.value!r} or choose another method"
            )
        if isinstance(request.contribution, TaskGram) and request.rate is not None and request.rate < 1:
            raise OptionError("a task-gram needs every task in every round; it cannot be sampled")
        if request.most is not None and (request.rate is None or is_sampled(request, budget)):
            raise OptionError(
                "a cap on participations goes with sampled cohorts that an observer may know: give a rate below 1 and "
                "aggregation 'local' or 'secure'. With 'curator' the cohort is secret and costs less than a cap would."
            )
    if len({(r.name, r.most, r.weight) for r in requests if r.most is not None}) > 1:
        raise OptionError("a cap on participations goes with one kind of release, the same in every round")
