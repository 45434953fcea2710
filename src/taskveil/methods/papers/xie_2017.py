"""Asynchronous multi-task learning as printed (Xie, Lin, Baytas & Zhou 2017): Algorithm 1. Its claim is false.

    node      q_t is a private state that starts at the task's own model and takes plain gradient steps
    message   two l2-Laplace noises: z1 inside the point at which the gradient is taken, z2 on the gradient; nothing is composed
    server    re-applies the table S of last, stale gradients to all columns at every arrival, P <- prox(P - alpha S); it
              diverges at steps 1/L and 0.3/L (docs/theory/asynchronous.md#wrong, e)

The certificate says what is wrong, with the epsilon that would hold over all messages if the sensitivity did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.methods.async_mtl import method, server, tasks
from taskveil.methods.base import Billboard, Disclosure, PublicInfo, State, View
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.contributions import Contribution
from taskveil.privacy.plan import Budget, Plan
from taskveil.tasks.block import TaskBlock


class Form(method.Form):
    """Two noises, the own part at its task."""

    own_at_task = True

    def due(self, number: int) -> tuple[str, ...]:
        return ("inner",) if number % 2 == 0 else ("gradient",)


class AsyncMTL(method.AsyncMTL):
    """Algorithm 1; the paper's epsilon is per message and never composed."""

    variants = ("paper",)

    def form(self, budget: Budget) -> Form:
        """Both noises, the own part stepped by the server: as printed."""
        return Form(str(budget.unit) == "record", budget.epsilon is not None, 2, semi_exact=False)

    def adjust(self, budget: Budget) -> Budget:
        budget = super().adjust(budget)
        if budget.epsilon is None:
            return budget
        total = budget.epsilon * self.messages(budget)
        return replace(budget, epsilon=total, delta=0.0, mechanism="l2-laplace", accountant="pure")

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> PrintedTasks:
        return PrintedTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> PrintedServer:
        return PrintedServer(self, public, plan)

    def initial_step(self, public: PublicInfo, form: method.Form) -> float:
        return self.step_for(method.typical_curvature(public))

    def disclosure(self, public: PublicInfo, plan: Plan) -> Disclosure:
        disclosure = super().disclosure(public, plan)
        if plan.budget.epsilon is None:
            return disclosure
        n = self.messages(plan.budget)
        reasons = [
            f"the paper states epsilon {plan.budget.epsilon / n:g} for one message and composes nothing (its section 3.4 says "
            f"that the sum can become meaningless and that drawing rows would lower it): {n} messages of a node sum to epsilon "
            f"{plan.budget.epsilon:g} even if every sensitivity held",
            "q_t is private state that is never replaced by its noisy version, so one record moves every row's gradient "
            "in later messages beyond the claimed sensitivity",
        ]
        if public.kind == "regression":
            reasons.append("Theorem 3.6 bounds the sensitivity only with a probability over the data, which is not DP")
        return replace(disclosure, refutations=tuple(reasons))

    def _rate(self, form: method.Form) -> float | None:
        return None

    def _bound(self, form: method.Form, public: PublicInfo) -> float:
        """Largest row gradient the paper assumes: C1 C2 (Lemma 1, |l'| <= C2 = 1), C1 (C1 C3 + 1) for squares (Theorem 3.6).

        Replace-one then gives the paper's S_2 = 2 C1 C2 / n and, as our squared loss has a half that the paper's has not, half
        of its 4 C1 (C1 C4 + 1) / n: the same noise against the same signal.
        """
        if not form.private:
            return Contribution.unbounded
        c1, c3 = self.row_bound, self.model_bound
        return c1 * (c1 * c3 + 1) if public.kind == "regression" else c1


class PrintedTasks(tasks.AsyncTasks):
    """Algorithm 1, node side."""

    def start(self) -> State:
        """ "Initialise q_t using STL"."""
        state = super().start()
        state["own"], state["intercept"] = self.problem.solve(np.zeros_like(state["own"]))
        return state

    def _gradient(self, state: State, view: View) -> tuple[State, Any]:
        if self.form.due(view.round) == ("inner",):
            return state, self._nothing()
        state = self._update_own(state, view)
        shared, own, intercept = self._parts(state, view)
        return state, self._gradient_at(shared + own + view["inner"], intercept)

    def _nothing(self) -> Any:
        """The zero message: what comes out of the release is noise alone (z1)."""
        if self.form.rows:
            return RowGradients(self._rows, np.zeros((len(self._rows), self.block.n_outputs)), self.block.offsets)
        return np.zeros((self.block.n_tasks, self.block.n_outputs, self._rows.shape[1]))

    def _update_own(self, state: State, view: View) -> State:
        step = self.method.initial_step(self.public, self.form)
        own, intercept = self.problem.gradient_step(*self._parts(state, view), step)
        return {**state, "own": own, "intercept": intercept}


class PrintedServer(server.AsyncServer):
    """Algorithm 1, server side."""

    shown = (*server.AsyncServer.shown, "inner")

    def first(self) -> State:
        """The state before the first message, with room for the inner noise."""
        state = super().first()
        return {**state, "inner": np.zeros_like(state["own"])}  # noise inside the point

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        if "inner" not in releases:
            return super().step(state, releases, accepted)
        who = np.flatnonzero(accepted)
        # Lemma 1: S_1 is alpha times the sensitivity of the mean gradient, and so is the noise.
        noise = self._means(releases["inner"], who)[..., : self.public.n_features]
        state["inner"][who] = float(state["step"][0]) * noise
        return state, self._billboard(state, accepted)

    def _move_shared(self, state: State, tasks: np.ndarray, g: np.ndarray, eta: np.ndarray) -> None:
        """All columns move by their last, stale, gradients."""
        rows = self._columns(tasks)
        state["table"][rows] = g.reshape(len(rows), -1)
        P = self._prox_for(state).all()
        state["Z"] = P - float(state["step"][0]) * state["table"]
