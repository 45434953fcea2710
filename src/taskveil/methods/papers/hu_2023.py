"""Private mean-regularised learning as printed (Hu, Wu, Smith 2023, Algorithm 1), and the baselines of its figures.

    cohorts   exactly min(m, 100) tasks, drawn anew each round; sums are divided by that number
    work      explicit steps; every task starts at w^0; no update is scaled by what noise left of it

Its epsilon is computed as if cohorts were Poisson. With a fixed size m - 1 colluders know whether task i was drawn, so nothing is
amplified: the claim is printed with holds = false and the true epsilon beside it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.methods import clustered_mean, fedavg, fedprox
from taskveil.methods.base import Disclosure, PublicInfo, State
from taskveil.methods.neural import POISSON, NeuralMean, NeuralMethod
from taskveil.methods.neural_sides import NeuralServer, NeuralTasks
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.events import Charge, GaussianEvent, SampledGaussianEvent
from taskveil.privacy.plan import Budget, Plan
from taskveil.privacy.units import Neighbours


class PrintedTasks(NeuralTasks):
    """Clients that remember a public start, w_k^0, where they walk from models of their own."""

    def start(self) -> State:
        """w_k^0: every client remembers the data-independent start."""
        state = super().start()
        if self.method.work_start != "own":
            return state
        models: Any = state["models"]
        models = np.asarray(models) + self.first if isinstance(models, np.ndarray) else models + self.first
        return {"models": models, "started": ~state["started"]}


class PrintedServer(NeuralServer):
    """Uses noisy sums as they come, without shrinking them."""

    def _shrunk(self, sums: np.ndarray, t: int) -> np.ndarray:
        return sums


class Printed(NeuralMethod):
    """Cohorts of a fixed size."""

    variants = ("paper",)
    fixed_cohort = 100
    tasks, server = PrintedTasks, PrintedServer

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        if self.participations is not None:
            raise OptionError("participations caps Poisson cohorts; the paper's cohorts have a fixed size")

    def sampling_rate(self, public: PublicInfo, budget: Budget) -> float:
        """The share of tasks in a cohort of fixed size."""
        return min(public.n_tasks, self.fixed_cohort) / public.n_tasks

    def work(self, plan: Plan, public: PublicInfo) -> Any:
        """The local steps with the pull towards the mean as printed."""
        return replace(super().work(plan, public), explicit=True)

    def disclosure(self, public: PublicInfo, plan: Plan) -> Disclosure:
        disclosure = super().disclosure(public, plan)
        if POISSON not in disclosure.assumptions:
            return disclosure
        true, size = true_epsilon_of_fixed_cohorts(plan)[0], min(public.n_tasks, self.fixed_cohort)
        wrong = (
            f"the claim treats cohorts of exactly {size} tasks as Poisson samples; colluding tasks that "
            f"count their own participations learn who was drawn, so nothing is amplified: the same noise gives epsilon "
            f"{true:.3g} at delta {plan.budget.delta:.3g} for a task that takes part in every round"
        )
        return replace(disclosure, assumptions=tuple(s for s in disclosure.assumptions if s != POISSON), refutations=(wrong,))


class Mean(Printed, NeuralMean):
    """`mean` as printed."""


class ClusteredMean(Printed, clustered_mean.ClusteredMean):
    """`clustered-mean` as printed."""


class FedAvg(Printed, fedavg.FedAvg):
    """`fedavg` as printed."""


class FedProx(Printed, fedprox.FedProx):
    """`fedprox` as printed."""


def true_epsilon_of_fixed_cohorts(plan: Plan) -> tuple[float, str]:
    """Epsilon of the plan's noise when the observer knows every cohort: one plain Gaussian release per round."""
    factor = 1.0 if plan.budget.neighbours is Neighbours.ADD_REMOVE else 2.0
    charges = []
    for planned in plan.releases:
        event: Any = planned.event
        relative = event.noise_multiplier / (factor if isinstance(event, SampledGaussianEvent) else 1.0)
        charges.append(Charge(GaussianEvent(relative)))
    return best_epsilon(charges, plan.budget.delta)
