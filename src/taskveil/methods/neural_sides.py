"""Both sides of a round of the neural methods: clients that train on the engine, and the server that adds up their updates.

See neural.py for what is released and why it is private. Nothing here charges or draws noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.methods.base import Billboard, Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.privacy.contribution import seal_clipped_sum
from taskveil.privacy.partial_sums import Partial, grid_of, in_digits
from taskveil.privacy.plan import Plan
from taskveil.tasks.block import TaskBlock

if TYPE_CHECKING:
    from taskveil.methods.neural import NeuralMethod

RELEASE = "update"
BIT_SHARE = 0.25  # weight of the "was it clipped?" bit, relative to the clipping norm
ADAPTATION = 0.2  # Andrew et al. 2021 recommend this rate
PER_TASK = frozenset({"member"})


class NeuralTasks(TaskSide):
    """Local work of a block of clients."""

    merges_inactive = True
    adds_up = True

    def __init__(self, method: NeuralMethod, block: TaskBlock, public: PublicInfo, plan: Plan):
        from taskveil.engine.clients import Clients, round_of

        super().__init__(method, block, public, plan)
        self.model = method.built(public)
        self.clients = Clients(block, method.feature_map(public), self.model, public.seed or 0)
        self.first = self.model.start(public.seed or 0)
        self.compiled = round_of(self.model, method.work(plan, public), exact_sum=plan.budget.epsilon is not None)
        self.rate = plan.releases[0].rate if plan.releases else None

    def start(self) -> State:
        from taskveil.engine import store

        m, p = self.block.n_tasks, self.model.n_parameters
        models = store.empty_models(m, p) if self.method.work_start == "own" else np.zeros((m, 0), np.float32)
        return {"models": models, "started": np.zeros(m, bool)}

    @property
    def begins_ahead(self) -> bool:  # type: ignore[override]
        return self.method.sends_sums(self.block.n_tasks, self.public, self.plan)

    def step(self, state: State, view: View) -> tuple[State, Message]:
        if self.begins_ahead:
            state, wait = self.begin(state, view)
            return state, wait()
        clients, member = self._cohort(view.active), self._member(view)
        models, raw = self.clients.each_message(*(*self._work(state, view), self.method.clip))
        message = raw if member.shape[1] == 1 else member[:, :, None] * raw[:, None, :]
        return self._after(state, models, clients), {RELEASE: message}

    def begin(self, state: State, view: View) -> tuple[State, Callable[[], Message]]:
        what, clients = self.plan.releases[0].contribution, self._cohort(view.active)
        models, wait = self.clients.begin_sum(*(*self._work(state, view), self.method.clip, self._scale(view)))

        def sealed() -> Message:
            total: Any = wait().reshape(what.total_shape)
            if self.compiled.exact_sum:
                total = Partial((in_digits(total, grid_of(self.method.clip), what.bound),))
            return {RELEASE: seal_clipped_sum(what, total, clients.size)}

        return self._after(state, models, clients), sealed

    def expect(self, round_number: int, active: np.ndarray | None) -> None:
        """Rows of the next cohort are made ready; where groups mix, the mixture is on the billboard and must be waited for."""
        if self.method.membership(self.public) is None:
            member = np.ones((self.block.n_tasks, 1))
            self.clients.make_ready(self.compiled, member, self._cohort(active), self.rate, round_number + 1)

    def _cohort(self, active: np.ndarray | None) -> np.ndarray:
        return np.arange(self.block.n_tasks) if active is None else np.flatnonzero(active)

    def _work(self, state: State, view: View) -> tuple[Any, ...]:
        """What one round computes from, without the bound."""
        shown = self._anchors(view), self._member(view), self._cohort(view.active)
        return (self.compiled, state["models"], state["started"], *shown, self.rate, view.round + 1)

    def _after(self, state: State, models: Any, clients: np.ndarray) -> State:
        started = state["started"].copy()
        started[clients] = True
        self._latest = models
        return {"models": models, "started": started}

    def _own_models(self, state: State) -> Any:
        """Client models of a state; one whose device memory a later round has reused stands for the latest."""
        models: Any = state["models"]
        reused = getattr(models, "is_deleted", None)
        return self._latest if reused is not None and reused() else models

    def _scale(self, view: View) -> float:
        """Adaptive clipping: messages are sent in units of the billboard's norm, so that the planned bound stays."""
        return self.method.clip / float(view["clip"]) if "clip" in view else 1.0

    def _member(self, view: View) -> np.ndarray:
        return np.asarray(view["member"]) if "member" in view else np.ones((self.block.n_tasks, 1))

    def _anchors(self, view: View) -> np.ndarray:
        return np.asarray(view["mean"], np.float32).reshape(-1, self.model.n_shared)

    def finish(self, state: State, view: View) -> Models:
        from taskveil.engine.clients import tuner_of

        anchors, member, options = self._anchors(view), self._member(view), self.method.tuning_options(self.public)
        if not options:
            return self._models(self.unchanged(state, anchors, member), None, None, ())
        tuner = tuner_of(self.model, self.method.tuning(self.public))
        own = self._own_models(state)
        out = own if isinstance(own, np.ndarray) and own.nbytes > 2**28 else None
        params, chosen, errors = self.clients.personalise(
            tuner, options, anchors, member, self.first, int(self.method.tune.folds), out
        )
        return self._models(params, chosen, errors, options)

    def unchanged(self, state: State, anchors: np.ndarray, member: np.ndarray) -> np.ndarray:
        """The model of Algorithm 1 itself: the client's own, or what is shared where it has none.

        A state too large to copy is completed in place: it is the last one.
        """
        from taskveil.engine import store
        from taskveil.engine.clients import pieces

        if self.method.work_start != "own":
            return self._shared(anchors, member)
        models = np.asarray(self._own_models(state))
        if models.nbytes < store.COPY_BELOW or not models.flags.writeable:
            models = models.copy()
        for part in pieces(np.flatnonzero(~state["started"]), 256):
            models[part] = self._shared(anchors, member[part])
        return models

    def _shared(self, anchors: np.ndarray, member: np.ndarray) -> np.ndarray:
        """What the billboard shows each task, (tasks, p); float32, because with many tasks it is the largest array."""
        return member.astype(np.float32) @ anchors

    def _models(self, params: np.ndarray, chosen: Any, errors: Any, options: tuple[Any, ...]) -> Models:
        m, r = self.block.n_tasks, self.public.n_outputs
        extra = {"params": params}
        kept = None
        if chosen is not None:
            kinds = np.asarray([option.kind for option in options])
            extra["choice"] = np.asarray([option.name for option in options])[chosen]
            kept = kinds[chosen] != "alone"
            alone = kinds == "alone"
            if len(options) > 1 and alone.any():
                extra["error_alone"] = errors[alone].min(axis=0)
                extra["error_shared"] = errors[~alone].min(axis=0, initial=np.inf)
        return Models(np.zeros((m, r, 0)), np.zeros((m, r)), kept, extra)


class NeuralServer(ServerSide):
    """Adds the noisy mean of the messages to what is shared."""

    def __init__(self, method: NeuralMethod, public: PublicInfo, plan: Plan):
        super().__init__(method, public, plan)
        self.model = method.built(public)
        self.groups = method.n_groups(public)
        self.rate = method.sampling_rate(public, plan.budget)
        self.member = method.membership(public)
        weight = np.array([public.n_tasks]) if self.member is None else self.member.sum(axis=0)
        self.everybody = np.maximum(self.rate * weight, 1e-12)[:, None]  # (groups, 1): q m, public

    def expected(self, t: int) -> np.ndarray:
        """Expected cohort of round t, (groups, 1): public, never the realised one."""
        if self.method.participations is None:
            return self.everybody
        return np.maximum(self.everybody * self.method.share_left(t, self.rate), 1.0)

    def start(self) -> tuple[State, Billboard]:
        start = self.model.start(self.public.seed or 0)[self.model.n_own :]
        first = np.repeat(start[None].astype(np.float64), self.groups, axis=0)
        state = {"mean": first, "round": np.array(0), "clip": np.array(float(self.method.clip))}
        return state, Billboard(0, self._shown(state), per_task=PER_TASK)

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        t = int(state["round"]) + 1
        update, clip = self._mean_update(releases[RELEASE], state, t)
        state = {**state, **self.moved(state, update, t), "round": np.array(t), "clip": clip}
        return state, Billboard(t, self._shown(state), per_task=PER_TASK)

    def moved(self, state: State, update: np.ndarray, t: int) -> State:
        """What a step of round t along the noisy mean update changes: the shared parameters under "mean"."""
        return {"mean": state["mean"] + self.method.server_rate * update}

    def _mean_update(self, total: np.ndarray, state: State, t: int) -> tuple[np.ndarray, np.ndarray]:
        if self.method.adaptive_clip is None:
            sums = np.asarray(total, np.float64).reshape(self.groups, -1)
            return self._shrunk(sums, t) / self.expected(t), state["clip"]
        norm = float(state["clip"])
        bits = total[-1] / (BIT_SHARE * self.method.clip)  # sum over the cohort of (fits - 1/2), noisy
        fitting = float(bits / self.expected(t)[0, 0]) + 0.5
        update = self._shrunk(np.asarray(total[:-1])[None], t) * (norm / self.method.clip) / self.expected(t)
        return update, np.array(norm * math.exp(-ADAPTATION * (fitting - self.method.adaptive_clip)))

    def _shrunk(self, sums: np.ndarray, t: int) -> np.ndarray:
        """Each group's sum times max(0, 1 - p s^2 / |sum|^2): the signal's share of its squared norm (James & Stein 1961).

        s is the public noise scale, so this is post-processing. Off without noise.
        """
        if not self.method.shrink:
            return sums
        share = 1 - sums.shape[1] * self.noise(t) ** 2 / np.maximum(np.einsum("gp,gp->g", sums, sums), 1e-300)
        return sums * np.maximum(share, 0.0)[:, None]

    def noise(self, t: int) -> float:
        """Public: the deviation of the noise in every coordinate of round t's sum; 0 without noise."""
        planned = next((p for p in self.plan.releases if p.round == t), None)
        if planned is None or self.plan.budget.epsilon is None:
            return 0.0
        return planned.mechanism.coordinate_deviation(planned.contribution)

    def _shown(self, state: State) -> dict[str, np.ndarray]:
        mean = state["mean"] if self.groups > 1 else state["mean"][0]
        shown = {"mean": mean.astype(np.float32)}
        if self.method.adaptive_clip is not None:
            shown["clip"] = state["clip"]
        if self.member is not None:
            shown["member"] = self.member
        return shown
