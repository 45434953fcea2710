"""Runs behind Fig. 2-7: objective and test error over messages, as printed and sound, for several epsilons.

Data are made: the synthetic set of Table 1 (20 tasks x 200 rows x 28 features) and a stand-in for ADNI, which is not public
(20 tasks x 15-27 rows x 248 features that follow five common factors). As in the paper 30 % of the rows train. Rows have
norm at most 1 (C1 = 1), targets of regression lie in [-1, 1].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from taskveil.estimators.gain import keep_the_better
from taskveil.losses import LOSSES
from taskveil.methods.async_mtl import AsyncMTL
from taskveil.methods.async_mtl.presets import PRESETS
from taskveil.methods.async_mtl.tasks import AsyncTasks
from taskveil.methods.base import Message, PublicInfo, State, View
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.events import Charge, PureEvent
from taskveil.privacy.plan import Budget, Plan, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import virtual_clock
from taskveil.runtime.run import Run
from taskveil.solvers.block_gradient import mean_gradients
from taskveil.tasks.block import TaskBlock

TASKS, RANK, DELTA = 20, 3, 1e-6
POINTS = 40  # of a curve


@dataclass(frozen=True)
class Setting:
    """One data set and learning problem with the paper's constants (section 4.1)."""

    kind: str
    adni: bool
    own: float  # lambda/2: our |q|^2 has no factor 1/2
    shared: float  # mu
    step: float  # alpha_1 = alpha_2
    epsilons: tuple[float, ...]  # epsilon_2 of one message
    first: float | None  # epsilon_1; None: equal to epsilon_2


SETTINGS = {
    "synthetic, classification": Setting("classification", False, 0.5e-3, 1.5e-3, 0.1, (0.1, 0.3, 1.0), None),
    "ADNI-like, classification": Setting("classification", True, 0.5e-3, 1.5e-3, 0.1, (0.3, 1.0, 10.0), 0.5),
    "synthetic, regression": Setting("regression", False, 0.5e-5, 1.5e-3, 0.1, (0.3, 1.0, 10.0), None),
    "ADNI-like, regression": Setting("regression", True, 0.5e-5, 1e-4, 1e-3, (0.3, 1.0, 10.0), 10.0),
}


def make_data(setting: Setting, seed: int) -> tuple[TaskBlock, TaskBlock]:
    """Training and test rows; models of rank 3."""
    rng = np.random.default_rng([seed, int(setting.adni), 17])
    d = 248 if setting.adni else 28
    sizes = rng.integers(15, 28, TASKS) if setting.adni else np.full(TASKS, 200)
    factors = rng.standard_normal((5, d)) if setting.adni else np.eye(d)
    W = rng.standard_normal((TASKS, RANK)) @ rng.standard_normal((RANK, d))
    parts: tuple[list[Any], list[Any]] = ([], [])
    for t, n in enumerate(sizes):
        X = rng.uniform(-1, 1, (n, len(factors))) @ factors
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9) * (1.0 + rng.random((n, 1)))
        z = X @ W[t]
        z = z / np.std(z) + 0.2 * rng.standard_normal(n)
        y = np.clip(0.4 * z, -1, 1) if setting.kind == "regression" else np.where(z > 0, 1.0, -1.0)
        cut = round(0.3 * n)
        parts[0].append((X[:cut], y[:cut]))
        parts[1].append((X[cut:], y[cut:]))
    return _block(parts[0], setting.kind), _block(parts[1], setting.kind)


def _block(parts: list[Any], kind: str) -> TaskBlock:
    offsets = np.concatenate([[0], np.cumsum([len(y) for _, y in parts])])
    return TaskBlock(np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts]), offsets, kind=kind)


class WatchedTasks(AsyncTasks):
    """Remembers a node's own part, which in the paper's form never leaves the node."""

    def step(self, state: State, view: View) -> tuple[State, Message]:
        state, message = super().step(state, view)
        self.last = state
        return state, message


class WatchedAsync(AsyncMTL):
    """Keeps its task sides at hand for measuring; sends nothing more."""

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> AsyncTasks:
        side = WatchedTasks(self, self.form(plan.budget), block, public)
        self.sides = [*getattr(self, "sides", []), side]
        return side

    def parts(self, server: Any, state: State) -> tuple[np.ndarray, np.ndarray]:
        """(P, Q) at this moment."""
        P = server._prox_for(state).all().reshape(state["shared"].shape)
        if not server.form.own_at_task:
            return P, state["own"]
        return P, np.concatenate([s.last["own"] if hasattr(s, "last") else s.start()["own"] for s in self.sides])


class Curve:
    """Objective and test error while messages arrive."""

    def __init__(self, setting: Setting, method: WatchedAsync, train: TaskBlock, test: TaskBlock, every: int) -> None:
        self.setting, self.method, self.train, self.test, self.every = setting, method, train, test, every
        self.messages: list[int] = []
        self.objective: list[float] = []
        self.error: list[float] = []

    def __call__(self, now: float, arrivals: int, server: Any, state: State) -> bool:
        if arrivals % self.every == 0 and not (server.form.paper and arrivals // self.every % 2):
            P, Q = self.method.parts(server, state)
            self.messages.append(arrivals // (TASKS * server.form.noises))
            self.objective.append(objective(self.setting, self.train, P, Q))
            self.error.append(test_error(P + Q, self.test))
        return False


def objective(setting: Setting, block: TaskBlock, P: np.ndarray, Q: np.ndarray) -> float:
    """Eq. 1 with the paper's constants, whatever the run was penalised with."""
    loss = LOSSES.get("squared" if block.kind == "regression" else "logistic")
    _, _, values = mean_gradients(block, P + Q, np.zeros(P.shape[:2]), loss)
    return float(values.sum()) + PRESETS.get("aso").value(P, Q, setting.shared, setting.own)


def test_error(W: np.ndarray, test: TaskBlock) -> float:
    """Error rate or mean squared error, averaged over tasks."""
    scores = test.scores(W, np.zeros(W.shape[:2]))[:, 0]
    wrong = np.square(scores - test.y[:, 0]) if test.kind == "regression" else (scores * test.y[:, 0] <= 0)
    return float(np.mean([wrong[test.rows(t)].mean() for t in range(test.n_tasks)]))


@lru_cache(maxsize=200)
def trace(name: str, variant: str, epsilon: float | None, seed: int, messages: int | None) -> dict[str, Any]:
    """One run. `epsilon`: epsilon_2 of one message (paper), whose epsilon_1 + epsilon_2 is the sound run's whole budget."""
    setting = SETTINGS[name]
    train, test = make_data(setting, seed)
    first = epsilon if setting.first is None else setting.first
    stated = None if epsilon is None else first + epsilon
    paper = variant == "paper"
    method = WatchedAsync(
        "aso",
        rounds=messages if paper or epsilon is None else None,
        refine=not paper,
        tol=0.0,
        step=setting.step if paper else None,
        first_share=0.5 if epsilon is None else first / stated,
    )
    if paper or epsilon is None:  # a sound private run keeps the method's own defaults
        method.set_params(shared_penalty=setting.shared, own_penalty=setting.own)
    public = PublicInfo(
        TASKS,
        train.n_features,
        1,
        setting.kind,
        fit_intercept=False,
        unit_rows=True,
        seed=seed,
        task_rows=tuple(int(n) for n in train.sizes),
    )
    neighbours = "replace-one" if paper else "add-remove"
    budget = method.adjust(Budget(stated, DELTA, "record", variant=variant, neighbours=neighbours))
    method.check(public, budget)
    plan = make_plan(method.requests(public, budget), budget)
    rounds = len(plan.rounds())
    watch = Curve(setting, method, train, test, TASKS * max(1, rounds // POINTS))
    start = at_start(setting, method, train, test, public, plan)
    method.sides = []
    record = virtual_clock.run(Run(method, public, plan, source=insecure_seeded_noise(seed + 1)), train, watch=watch)
    models = record.models if paper else keep_the_better(method, train, record)
    return {
        "messages": [0, *watch.messages],
        "objective": [start[0], *watch.objective],
        "error": [start[1], *watch.error],
        "stated": stated,
        "sent": method.messages(budget),
        "owner_error": test_error(models.coef, test),
    }


def at_start(
    setting: Setting, method: WatchedAsync, train: TaskBlock, test: TaskBlock, public: PublicInfo, plan: Plan
) -> tuple[float, float]:
    """(objective, test error) before the first message: zero, or in the paper's form each node's own model."""
    state = method.task_side(train, public, plan).start()
    P = np.zeros((TASKS, 1, train.n_features))
    Q = state.get("own", P)
    return objective(setting, train, P, Q), test_error(P + Q, test)


def composed(epsilon: float, messages: int) -> float:
    """What `messages` messages of pure epsilon each cost one record, at delta 1e-6, by the best valid accountant."""
    return best_epsilon([Charge(PureEvent(epsilon), messages)], DELTA)[0]
