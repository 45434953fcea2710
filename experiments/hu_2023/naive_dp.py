"""Client-level differential privacy on the concatenation of all personal models: what *not* to do (PMTL, Figure 1).

If every personal model must hide its own task too, the released object is (w_1, ..., w_m), task k's part of it is its own
slot, and the slot gets noise that no averaging reduces. Only for comparison in experiments; not in the table of methods.
The guarantee holds against everybody, the public included, which is why the models are useless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from taskveil.methods.base import Billboard, Disclosure, Message, PublicInfo, ServerSide, State, View
from taskveil.methods.neural import NeuralMethod
from taskveil.methods.neural_sides import RELEASE, NeuralServer, NeuralTasks
from taskveil.privacy.contribution import VectorSum, seal_clipped_sum
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.tasks.block import TaskBlock


class NaiveDP(NeuralMethod):
    __doc__ = "Every personal model noised on its own. " + (NeuralMethod.__doc__ or "")

    name = "naive-dp"
    variants = ("sound",)
    aggregations = ("curator",)
    uses_strength = False
    default_personalise = "none"

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        what = VectorSum((public.n_tasks, self.built(public).n_parameters), float(self.clip))
        return [Request(RELEASE, t + 1, what) for t in range(int(self.rounds or 1))]

    def disclosure(self, public: PublicInfo, plan: Plan) -> Disclosure:
        return replace(super().disclosure(public, plan), observers=("public",))

    def sends_sums(self, n_tasks: int, public: PublicInfo, plan: Plan) -> bool:
        return True

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> NeuralTasks:
        return ConcatenatedTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return ConcatenatedServer(self, public, plan)


class ConcatenatedTasks(NeuralTasks):
    begins_ahead = False  # models of all clients are its message

    def step(self, state: State, view: View) -> tuple[State, Message]:
        m = self.block.n_tasks
        published = np.asarray(view["models"], np.float32)
        everybody, one = np.arange(m), np.ones((m, 1))
        anchor = np.zeros((1, self.model.n_parameters), np.float32)
        new, _ = self.clients.each_message(
            self.compiled, published.copy(), np.ones(m, bool), anchor, one, everybody, None, view.round + 1, 1.0
        )
        what = self.plan.releases[0].contribution
        total = self.clients.concatenated(np.asarray(new) - published, what.bound)
        return state, {RELEASE: seal_clipped_sum(what, total, m)}

    def start(self) -> State:
        return {}

    def unchanged(self, state: State, anchors: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self._shared(anchors, member)

    def _anchors(self, view: View) -> np.ndarray:
        return np.asarray(view["models"], np.float32)

    def _member(self, view: View) -> np.ndarray:
        return np.eye(self.block.n_tasks)


class ConcatenatedServer(NeuralServer):
    def start(self) -> tuple[State, Billboard]:
        first = np.repeat(self.model.start(self.public.seed or 0)[None].astype(np.float64), self.public.n_tasks, axis=0)
        return {"models": first, "round": np.array(0)}, Billboard(0, {"models": first}, frozenset({"models"}))

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        t, models = int(state["round"]) + 1, state["models"] + releases[RELEASE]
        return {"models": models, "round": np.array(t)}, Billboard(t, {"models": models}, frozenset({"models"}))
