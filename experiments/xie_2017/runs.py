"""Runs behind Fig. 2-7: objective and test error over messages, as printed and sound, over draws of the data and of the noise.

Three models of a task are compared, like with like:

    published    p_t + q_t as the algorithm ends. The paper calls it private; its q_t was never noised.
    refined      q_t fitted again to the end on the task's rows, given its p_t: for the owner's eyes.
    chosen       the refined one where held-out rows of the task prefer it to learning alone.

"As printed" takes the paper's steps and thresholds; "tuned" the best of random ones, found on a draw of the data of its own by the
error on its test rows, which no private run could see: it flatters the paper's side. The sound method is not tuned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.xie_2017.algorithm1 import Algorithm1, Runs, State
from experiments.xie_2017.data import SETTINGS, SHOWN_TASKS, TASKS, Setting, make_data, objective, task_errors
from taskveil.estimators.choice import keep_the_better
from taskveil.methods.async_mtl import AsyncMTL
from taskveil.methods.base import Billboard, PublicInfo
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.events import Charge, PureEvent
from taskveil.privacy.plan import Budget, Plan, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import virtual_clock
from taskveil.runtime.run import Run, RunRecord
from taskveil.tasks.block import TaskBlock

Array = np.ndarray
DELTA, TUNING_DRAW, CHOOSING_DRAWS, FINALISTS = 1e-6, 1000, (1001, 1002), 5
FORMS = ("published", "refined", "chosen")


@dataclass(frozen=True)
class Size:
    """How much is run: draws of data, draws of noise for each, messages of a node, random settings tried."""

    data: int
    noise: int
    messages: int
    tried: int
    tried_messages: int


QUICK, FULL = Size(2, 2, 20, 8, 10), Size(3, 2, 300, 200, 20)
LONG = 10_000  # messages of a node in the paper


def size_of(quick: bool) -> Size:
    return QUICK if quick else FULL


def checkpoints(messages: int, points: int = 40) -> list[int]:
    """Where a curve is measured: rising, from 0 to the end."""
    return sorted(
        {0, *np.round(np.linspace(0, messages, points)).astype(int).tolist(), *(k for k in (1, 3, 10, 30) if k < messages)}
    )


class Curve:
    """What is measured while messages arrive, run by run."""

    def __init__(self, setting: Setting, train: TaskBlock, test: TaskBlock) -> None:
        self.setting, self.train, self.test = setting, train, test
        self.messages: list[int] = []
        self.objective: list[Array] = []
        self.errors: list[Array] = []  # (runs, tasks)
        self.rank: list[Array] = []

    def __call__(self, number: int, state: State) -> None:
        self.messages.append(number)
        self.objective.append(objective(self.setting, self.train, state.P, state.Q))
        self.errors.append(task_errors(state.P + state.Q, self.test))
        self.rank.append(np.linalg.matrix_rank(state.P, tol=1e-9))


@lru_cache(maxsize=64)
def printed(name: str, quick: bool, messages: int | None = None, rate: float = 1.0, draws: int | None = None) -> dict[str, Any]:
    """Algorithm 1 with the paper's constants: epsilon -> curves (data draws, noise draws, points), and the models' errors by form."""
    size, setting = size_of(quick), SETTINGS[name]
    noise = size.noise if draws is None else 1
    each: list[float | None] = [None, *(e for e in setting.epsilons for _ in range(noise))]
    parts = []
    for seed in range(size.data if draws is None else draws):
        runs = Runs.of(
            [setting.step] * len(each), [setting.threshold] * len(each), [setting.first_of(e) for e in each], each, rate
        )
        parts.append(one_batch(setting, runs, seed, messages or size.messages, forms=messages is None))
    return {"messages": parts[0]["messages"], **{e: _of_epsilon(parts, each, e) for e in dict.fromkeys(each)}}


def one_batch(setting: Setting, runs: Runs, seed: int, messages: int, forms: bool = True) -> dict[str, Any]:
    """One draw of the data, all runs of a batch on it."""
    train, test = make_data(setting, seed)
    curve = Curve(setting, train, test)
    state = Algorithm1(train, setting.ridge, runs, np.random.default_rng([seed, 5])).run(messages, curve, checkpoints(messages))
    errors = np.stack(curve.errors, axis=1)  # (runs, points, tasks)
    found = {
        "messages": curve.messages, "objective": np.stack(curve.objective, axis=1), "rank": np.stack(curve.rank, axis=1),
        "error": errors.mean(axis=2), "first tasks": errors[:, :, :SHOWN_TASKS],
    }  # fmt: skip
    return found | {"forms": _forms(setting, train, test, state, seed)} if forms else found


def _of_epsilon(parts: list[dict[str, Any]], each: list[float | None], epsilon: float | None) -> dict[str, Any]:
    chosen = [i for i, e in enumerate(each) if e == epsilon]
    found = {key: np.stack([p[key][chosen] for p in parts]) for key in ("objective", "rank", "error", "first tasks")}
    if "forms" in parts[0]:
        found |= {form: np.stack([p["forms"][form][chosen] for p in parts]) for form in FORMS}
    return found


# ------------------------------------------------------------------- the three models of a task


def _forms(setting: Setting, train: TaskBlock, test: TaskBlock, state: State, seed: int) -> dict[str, Array]:
    """Form -> mean test error of every run of the batch."""
    method, public, plan = sound_method(setting, train, None, seed)
    found: dict[str, list[float]] = {form: [] for form in FORMS}
    for P, Q in zip(state.P, state.Q):
        found["published"].append(mean_error(P + Q, test))
        board = Billboard(1, {"shared": P[:, None], "own": 0 * P[:, None], "intercept": np.zeros((TASKS, 1))}, frozenset())
        side = method.task_side(train, public, plan)
        refined = side.finish(side.start(), board.view(None))
        record = RunRecord(refined, [board, board], plan, public, [], {})
        found["refined"].append(mean_error(refined.coef[:, 0], test))
        found["chosen"].append(mean_error(keep_the_better(method, train, record).coef[:, 0], test))
    return {form: np.array(values) for form, values in found.items()}


def mean_error(W: Array, test: TaskBlock) -> float:
    return float(task_errors(W[None], test).mean())


# ------------------------------------------------------------------- the paper's side, tuned


def random_settings(setting: Setting, count: int, seed: int) -> tuple[Array, Array]:
    """Steps and penalties, drawn evenly on a log scale; the last is the paper's."""
    rng = np.random.default_rng([seed, int(setting.adni)])
    step = np.append(10 ** rng.uniform(-4, 0, count - 1), setting.step)
    return step, np.append(10 ** rng.uniform(-4, 0, count - 1), setting.penalty)


def trial_errors(setting: Setting, epsilon: float, step: Array, penalty: Array, draw: int, messages: int) -> Array:
    """Error of the published models on one draw of the data, (settings, messages from 1 on)."""
    many = len(step)
    runs = Runs.of(step, step * penalty, [setting.first_of(epsilon)] * many, [epsilon] * many)
    found = one_batch(setting, runs, draw, messages, forms=False)
    assert found["messages"] == list(range(messages + 1))
    return np.nan_to_num(found["error"][:, 1:], nan=np.inf)


def best_setting(setting: Setting, epsilon: float, step: Array, penalty: Array, messages: int) -> dict[str, Any]:
    """One draw of the data sorts the settings, each with its best number of messages; the best five are judged on two more."""
    first = trial_errors(setting, epsilon, step, penalty, TUNING_DRAW, messages)
    few = np.argsort(first.min(axis=1))[:FINALISTS]
    at = first[few].argmin(axis=1)
    again = [trial_errors(setting, epsilon, step[few], penalty[few], draw, messages) for draw in CHOOSING_DRAWS]
    best = int(np.mean(again, axis=0)[np.arange(len(few)), at].argmin())
    return {
        "step": float(step[few[best]]), "penalty": float(penalty[few[best]]), "messages": int(at[best]) + 1, "tried": len(step),
    }  # fmt: skip


@lru_cache(maxsize=64)
def tuned(name: str, epsilon: float, quick: bool) -> dict[str, Any]:
    """Best of random steps, thresholds and numbers of messages for the published model; then its errors on the usual draws."""
    size, setting = size_of(quick), SETTINGS[name]
    chosen = best_setting(setting, epsilon, *random_settings(setting, size.tried, TUNING_DRAW), size.tried_messages)
    same = [[setting.first_of(epsilon)] * size.noise, [epsilon] * size.noise]
    runs = Runs.of([chosen["step"]] * size.noise, [chosen["step"] * chosen["penalty"]] * size.noise, *same)
    parts = [one_batch(setting, runs, seed, chosen["messages"]) for seed in range(size.data)]
    return {"setting": chosen, **{form: np.stack([p["forms"][form] for p in parts]) for form in FORMS}}


# ------------------------------------------------------------------- the sound method


def sound_method(setting: Setting, train: TaskBlock, epsilon: float | None, seed: int) -> tuple[AsyncMTL, PublicInfo, Plan]:
    """`async` as it comes; without noise with the paper's penalties. `epsilon` is for all messages of a node together."""
    method = AsyncMTL("aso", tol=0.0, rounds=100 if epsilon is None else None)
    if epsilon is None:  # the library's squared loss has a half, its |q|^2 none
        half = 0.5 if setting.kind == "regression" else 1.0
        method.set_params(shared_penalty=half * setting.penalty, own_penalty=half * setting.ridge / 2)
    public = PublicInfo(
        TASKS, train.n_features, 1, setting.kind, fit_intercept=False, unit_rows=True, seed=seed,
        task_rows=tuple(int(n) for n in train.sizes),
    )  # fmt: skip
    budget = method.adjust(Budget(epsilon, DELTA, "record", neighbours="replace-one"))
    method.check(public, budget)
    return method, public, make_plan(method.requests(public, budget), budget)


@lru_cache(maxsize=64)
def sound(name: str, epsilon: float | None, quick: bool) -> dict[str, Any]:
    """Curves and errors by form (data draws, noise draws); the printed epsilon_1 + epsilon_2 is the whole budget of a node."""
    size, setting = size_of(quick), SETTINGS[name]
    whole = None if epsilon is None else setting.stated(epsilon)
    draws = 1 if epsilon is None else size.noise
    found = [[_sound_run(setting, whole, seed, draw) for draw in range(draws)] for seed in range(size.data)]
    keys = ("objective", "error", *FORMS)
    return {"messages": found[0][0]["messages"], **{k: np.array([[r[k] for r in row] for row in found]) for k in keys}}


def _sound_run(setting: Setting, epsilon: float | None, seed: int, draw: int) -> dict[str, Any]:
    train, test = make_data(setting, seed)
    method, public, plan = sound_method(setting, train, epsilon, seed)
    curve = Curve(setting, train, test)
    zero = np.zeros((1, TASKS, train.n_features))
    curve(0, State(zero, zero, zero, zero))
    every = TASKS * max(1, len(plan.rounds()) // 20)

    def watch(now: float, arrivals: int, server: Any, state: Any) -> bool:
        if arrivals % every == 0:
            P = server._prox_for(state).all().reshape(zero.shape)
            curve(arrivals // TASKS, State(P, state["own"][:, 0][None], zero, zero))
        return False

    run = Run(method, public, plan, source=insecure_seeded_noise(1 + seed + 100 * draw))
    record = virtual_clock.run(run, train, watch=watch)
    published = record.models.extra["unrefined_coef"][:, 0]
    return {
        "messages": curve.messages, "objective": [float(o[0]) for o in curve.objective],
        "error": [float(e.mean()) for e in curve.errors], "published": mean_error(published, test),
        "refined": mean_error(record.models.coef[:, 0], test),
        "chosen": mean_error(keep_the_better(method, train, record).coef[:, 0], test),
    }  # fmt: skip


def composed(epsilon: float, messages: int, rate: float = 1.0) -> float:
    """What `messages` messages of pure epsilon each cost one record, at delta 1e-6, by the best valid accountant.

    `rate`: each row is in a message with this probability; a message then costs log(1 + rate (e^epsilon - 1)) (section 3.4's remedy).
    """
    one = float(np.log1p(rate * np.expm1(epsilon)))
    return best_epsilon([Charge(PureEvent(one), messages)], DELTA)[0]
