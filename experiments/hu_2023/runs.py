"""Single runs for the items: sound ones, and Algorithm 1 as printed with the epsilon it prints and the true one."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.hu_2023 import settings
from experiments.hu_2023.data import World, world
from experiments.hu_2023.run import correct_by_writer, personalised
from taskveil.methods.neural import PAPER_COHORT, true_epsilon_of_fixed_cohorts
from taskveil.methods.neural_sides import RELEASE
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.events import SampledGaussianEvent
from taskveil.privacy.mechanisms.gaussian import Gaussian
from taskveil.privacy.plan import Budget, Plan, PlannedRelease, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.spending import MemoryAccount
from taskveil.privacy.units import Neighbours
from taskveil.runtime import in_process
from taskveil.runtime.run import Run

ROUNDS = {True: 10, False: 20}  # of the printed algorithm, quick and full


@lru_cache(maxsize=4)
def cached_world(name: str, seed: int, quick: bool) -> World:
    return world(name, seed, quick)


def budget_for(place: World, epsilon: float | None, variant: str = "sound") -> Budget:
    return Budget(epsilon, 1 / place.public.n_tasks, neighbours=settings.NEIGHBOURS, variant=variant)


def sound(place: World, name: str, epsilon: float | None, seed: int) -> tuple[Any, Any]:
    """Method and record of what we ship, with the settings of the tables."""
    method = settings.method_for(name, place.name, epsilon)
    if epsilon is None:
        method.set_params(rounds=100)  # the items' figure without noise is a reference only
    budget = budget_for(place, epsilon)
    plan = make_plan(method.requests(place.public, budget), budget)
    return method, train(method, place, plan, seed)


def printed(place: World, name: str, epsilon: float | None, seed: int, quick: bool) -> tuple[Any, Any]:
    """Method and record of Algorithm 1 as printed, at the epsilon it would print."""
    method = settings.paper_method(name, ROUNDS[quick] if epsilon else 5 * ROUNDS[quick])
    if epsilon is None:
        method.set_params(clip=settings.UNCLIPPED)
    plan = _printed_plan(method.built(place.public).n_parameters, place.public, epsilon, ROUNDS[quick]) if epsilon else None
    budget = budget_for(place, epsilon, "paper")
    return method, train(method, place, plan or make_plan(method.requests(place.public, budget), budget), seed)


@lru_cache(maxsize=64)
def _printed_plan(n_parameters: int, public: Any, epsilon: float, rounds: int) -> Plan:
    """The same for all three methods: one calibration each."""
    budget = Budget(epsilon, 1 / public.n_tasks, neighbours=settings.NEIGHBOURS, variant="paper")
    method = settings.paper_method("fedavg", rounds)
    assert method.built(public).n_parameters == n_parameters
    return make_plan(method.requests(public, budget), budget)


def plan_of_noise(place: World, n_parameters: int, sigma: float, gamma: float, rounds: int, variant: str) -> Plan:
    """A plan given by the paper's sigma (deviation of the noise on a mean over 100 tasks) and gamma."""
    rate = min(1.0, PAPER_COHORT / place.public.n_tasks)
    noise = sigma * PAPER_COHORT
    event = SampledGaussianEvent(noise / gamma, rate, Neighbours.ADD_REMOVE)
    what, mechanism = VectorSum((n_parameters,), gamma), Gaussian(noise)
    releases = tuple(PlannedRelease(RELEASE, t + 1, what, mechanism, event, rate) for t in range(rounds))
    return Plan(releases, budget_for(place, 1.0, variant))


def true_epsilon(plan: Plan) -> float:
    """What the printed epsilon really is: every cohort is known to colluding tasks."""
    return true_epsilon_of_fixed_cohorts(plan)[0]


def train(method: Any, place: World, plan: Plan, seed: int, watch: Callable[[int, Any], None] | None = None) -> Any:
    account, checkpoint = (MemoryAccount(), None) if watch is None else (_Paid(), _Watcher(watch))
    source = insecure_seeded_noise(2000 + seed)
    return in_process.run(Run(method, place.public, plan, account, source), place.block, checkpoint)


def correct(method: Any, place: World, record: Any) -> np.ndarray:
    """Correct test rows of every task under the models as the rounds left them."""
    return correct_by_writer(method, record, record.models.extra["params"], place.test)


def tuned(
    method: Any, place: World, record: Any, kinds: tuple[str, ...], stretches: tuple[float, ...]
) -> dict[str, np.ndarray]:
    """The same after local fine-tuning; "chosen" is each task's own choice, alone included."""
    return personalised(method, record, place.block, place.test, kinds, stretches)


def alone(place: World, seed: int) -> np.ndarray:
    from experiments.hu_2023.run import learned_alone

    return learned_alone(settings.method_for("mean", place.name, None), place.public, place.block, place.test)


class _Paid(MemoryAccount):
    """What a run with a checkpoint asks of its account; everything planned was executed here."""

    def executed(self, planned: dict[str, Any]) -> list[Any]:
        return list(planned.values())


class _Watcher:
    """Stands where a checkpoint would: is told the state after every round, keeps nothing."""

    def __init__(self, watch: Callable[[int, Any], None]):
        self.watch = watch

    def load(self) -> None:
        return None

    def save(self, state: Any, server_state: Any, billboards: list[Any], executed: Any, schedule: Any) -> None:
        self.watch(billboards[-1].round, state)
