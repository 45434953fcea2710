"""Plans whose releases are secure sums: noise shares, calibrated on their grids to a curator's targets.

Every site takes part in every round, with an empty message for tasks that were not asked: the number of noise shares
must not depend on a draw, and the server sees who takes part, so no amplification by sampling tasks is
claimed. Rows sampled in secret inside a task (unit record) are charged in full as well, which is safe and
says more noise than needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from taskveil.errors import OptionError
from taskveil.privacy.calibrate import largest_loss, verify_target
from taskveil.privacy.contributions import Contribution
from taskveil.privacy.events import CappedEvent, Charge, Event, GaussianEvent
from taskveil.privacy.integer_tables import LARGEST_DISTANCE
from taskveil.privacy.mechanisms.shared import SharedGaussian, SharedNoise, SharedSkellam
from taskveil.privacy.planned import Budget, Plan, PlannedRelease, Request, charged
from taskveil.privacy.secure_options import SECURITY_BITS, SecureOptions


def secure_plan(requests: Sequence[Request], budget: Budget) -> Plan:
    """The largest common loss that meets the budget, with noise in shares."""
    secure = _options(budget)
    kind = SharedSkellam if secure.law == "skellam" else SharedGaussian
    if budget.mechanism not in (None, "gaussian", "matrix-gaussian", kind.name):
        raise OptionError(
            f"aggregation 'secure' adds integer noise in shares ({kind.name}); mechanism {budget.mechanism!r} cannot be shared"
        )
    for request in requests:
        if not kind.accepts(request.contribution):
            raise OptionError(f"a {request.contribution.kind} is not a sum over tasks; use aggregation 'curator'")
    assert budget.epsilon is not None
    loss = largest_loss(
        lambda c: _charges(requests, kind, budget, c), budget.epsilon, _delta(budget, requests),
        budget.accountant,
    )  # fmt: skip
    mechanisms: dict[tuple[Contribution, float], SharedNoise] = {}
    for r in requests:
        if (r.contribution, r.weight) not in mechanisms:
            mechanisms[r.contribution, r.weight] = _mechanism(r, kind, budget, loss)
    paid = charged(requests)
    planned = (_planned(r, mechanisms[r.contribution, r.weight], budget, p) for r, p in zip(requests, paid, strict=True))
    plan = Plan(tuple(planned), budget)
    verify_target(plan.charges(), budget.epsilon, budget.delta, budget.accountant)
    return plan


def _options(budget: Budget) -> SecureOptions:
    if budget.secure is None:
        raise OptionError("aggregation 'secure' needs the number of tasks: give secure=SecureOptions.for_tasks(n_tasks)")
    if budget.variant != "sound":
        raise OptionError("aggregation 'secure' exists for variant='sound'; the paper's is 'local-model'")
    if budget.delta == 0:
        raise OptionError("aggregation 'secure' needs delta > 0; use 'local' with a pure mechanism")
    budget.secure.check()
    return budget.secure


def _mechanism(request: Request, kind: type[SharedNoise], budget: Budget, loss: float) -> SharedNoise:
    return kind.calibrated(request.contribution, budget.neighbours, 1 / (loss * request.weight), secure=budget.secure)


def _planned(request: Request, mechanism: SharedNoise, budget: Budget, paid: bool) -> PlannedRelease:
    event: Event = mechanism.event(request.contribution, budget.neighbours)
    if not paid:
        event = CappedEvent(event, request.most or 1)
    return PlannedRelease(request.name, request.round, request.contribution, mechanism, event, request.rate)


def _charges(requests: Sequence[Request], kind: type[SharedNoise], budget: Budget, loss: float) -> list[Charge]:
    """Events at a common loss: the dominating real Gaussian, or the Skellam law on its grid."""
    charges = []
    for request, paid in zip(requests, charged(requests), strict=True):
        if not paid:
            continue
        event: Event = GaussianEvent(1 / (loss * request.weight))
        if kind is not SharedGaussian:
            event = _mechanism(request, kind, budget, loss).event(request.contribution, budget.neighbours)
        charges.append(Charge(event))
    return charges


def _delta(budget: Budget, requests: Sequence[Request]) -> float:
    """The delta left for the curves: secure sums spend some on their cryptography and sampling tables."""
    assert budget.epsilon is not None and budget.secure is not None
    grown = 1 + math.exp(min(budget.epsilon, 700.0))
    sizes = sum(2 * r.contribution.vector_size + 1 for r in requests)  # padded at most to twice the length
    distance = sizes * (2 * LARGEST_DISTANCE * budget.secure.n_sites + 1e-40)
    left = budget.delta - len(requests) * 2.0**-SECURITY_BITS - 2 * grown * distance
    if left < budget.delta / 2:
        raise OptionError(
            "delta is too small for this many secure sums, each of which takes 2^-40 of it; "
            "use a larger delta, a smaller epsilon or fewer rounds"
        )
    return left
