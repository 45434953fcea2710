"""DP-MTRL as printed (Gupta, Rana & Venkatesh 2016, as MP-MTL section 5.1 modifies it). Not differentially private.

l2-Laplace noise scaled by s_i = 2 L_i n / (n_i strength_i), L_i the largest loss slope on the task's own rows, n the rows of a
task (Prop. 3: a per-record epsilon / n). L_i and n come from the data, and s_i is published without noise: `holds: false`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from taskveil.methods import dp_mtrl
from taskveil.methods.base import Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.dp_mtrl import MODELS
from taskveil.methods.local import best_intercepts
from taskveil.privacy.contributions import Contribution, TaskStack
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.tasks.block import TaskBlock

SCALES = "scales"


class DpMtrl(dp_mtrl.DpMtrl):
    """Models with noise that the paper scales by what it saw; without noise the sound method."""

    variants = ("paper",)

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        if budget.epsilon is None:
            return super().requests(public, budget)
        shape, m, rounds = (public.n_outputs, public.n_features), public.n_tasks, range(1, self.rounds + 1)
        models, scale = TaskStack(m, shape, Contribution.unbounded), TaskStack(m, (1,), Contribution.unbounded)
        noisy = [Request(MODELS, t, models, mechanism="paper-l2-laplace") for t in rounds]
        return noisy + [
            Request(SCALES, t, scale, weight=1e-12, mechanism="none") for t in rounds
        ]  # models are scaled back by s_i

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return super().task_side(block, public, plan) if plan.budget.epsilon is None else ScaledTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return super().server_side(public, plan) if plan.budget.epsilon is None else ScaledServer(self, public, plan)


class ScaledTasks(dp_mtrl.NoisyModelTasks):
    """Send the model in units of its sensitivity, and the unit: both computed from private rows."""

    def step(self, state: State, view: View) -> tuple[State, Message]:
        W, strength = self._solve(view)
        scale = self._sensitivity(W, strength)
        return {"w": W}, {MODELS: W / scale[:, None, None], SCALES: scale[:, None]}

    def finish(self, state: State, view: View) -> Models:
        """The published noisy model."""
        return self._with_intercepts(view["own_noisy"])

    def _sensitivity(self, W: np.ndarray, strength: np.ndarray) -> np.ndarray:
        """s_i = 2 L_i n / (n_i strength_i) with L_i the largest slope seen and n = n_i (Prop. 3)."""
        b = best_intercepts(self.block, W, self.squared, self.public.fit_intercept)
        slopes = np.abs(self.block.scores(W, b) - self.block.y).max(axis=1)
        largest = np.maximum.reduceat(slopes, self.block.offsets[:-1]) if len(slopes) else slopes
        return np.maximum(2.0 * largest / strength, 1e-12)


class ScaledServer(dp_mtrl.NoisyModelServer):
    """Undoes the units before the relations are learned."""

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        return super().changes(state, {MODELS: releases[MODELS] * releases[SCALES][:, :, None]}, t)
