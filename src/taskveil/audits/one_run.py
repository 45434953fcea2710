"""One run, many canary tasks: a lower bound on epsilon from the run itself, without repeating it.

K canary tasks join the others; for each a fair coin, unknown to the attacker, decides which of two neighbours takes part: the
canary or its opposite (replace-one), the canary or a null task (add-remove). Canary i's rows lie on axis i of the features, so
its message does too. They take the real path: clipped, summed, charged and noised like everybody's, and counted in the public
number of tasks. The attacker sees the releases, knows the messages of the real tasks (privacy is promised against such a one)
and scores every canary by its coordinate, rounds weighted by their noise. What so many right guesses show: one_run_bounds.py.

Coins must be fair and independent; outputs may depend on each other as they like. Little can be shown at small epsilon, or where
the release has fewer coordinates than there are canaries; `Outlook` says so before the run.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.audits.canaries import LARGE
from taskveil.audits.configuration import configuration
from taskveil.audits.lower_bound import CONFIDENCE, one_run_bound
from taskveil.audits.methods import claim_of, simulation_of
from taskveil.audits.one_run_bounds import (
    THEOREM_SHARE,
    Outlook,
    count_correct,
    fdp_epsilon,
    gaussian_estimate,
    outlook,
    recorded_p_value,
)
from taskveil.audits.rehearsal import RunLog, logged
from taskveil.audits.result import CONSISTENT, REFUTED, SIMULATION, AuditResult
from taskveil.errors import OptionError
from taskveil.estimators import inputs
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.plan import Plan
from taskveil.privacy.profile import Curve
from taskveil.runtime.run import Run
from taskveil.tasks.task import TaskSet

ROWS = 4
PREFIX = "audit-canary-"
ALARM = 0.05  # of a rehearsal, which can be repeated
ALARM_OF_A_RUN = 1e-3  # of a run that is kept: its certificate fails if the audit refutes it
ALONG = 0.95  # of a message's bound lies along the canary's axis, or more
REHEARSAL = "a rehearsal on your table: nothing was charged to a ledger, and no canary is in a released model"
REAL_RUN = "the real run: its canary tasks are among the tasks, and were charged and noised like the others"

Announce = Callable[[str], None]


@dataclass(frozen=True)
class Canaries:
    """K canary tasks and their coins."""

    coins: np.ndarray
    opposite: bool  # replace-one; otherwise present or null

    @property
    def names(self) -> list[str]:
        return [f"{PREFIX}{i:05d}" for i in range(len(self.coins))]

    def join(self, tasks: TaskSet) -> TaskSet:
        """The same tasks with the canaries after them; inside declared ranges, where there are any."""
        d, k = tasks.n_features, len(self.coins)
        of_task = np.repeat(np.arange(k), ROWS)
        side = np.tile([1.0, -1.0], len(of_task) // 2)
        middle, reach = _ranges(tasks)
        X = np.tile(middle, (len(of_task), 1))
        X[np.arange(len(X)), of_task % d] += side * reach[of_task % d]
        sign = np.where(self.coins, 1.0, -1.0 if self.opposite else 0.0)[of_task] * side
        y = self._targets(tasks, sign, side)
        ends = tasks.offsets[-1] + ROWS * np.arange(1, k + 1)
        groups = {name: np.concatenate([v, np.repeat(v[:1], len(X))]) for name, v in tasks.groups.items()}
        return replace(
            tasks, X=np.ascontiguousarray(np.concatenate([tasks.X, X])), y=np.concatenate([tasks.y, y]),
            offsets=np.concatenate([tasks.offsets, ends]), task_names=(*tasks.task_names, *self.names), row_index=None,
            person=None, groups=groups,
        )  # fmt: skip

    def _targets(self, tasks: TaskSet, sign: np.ndarray, side: np.ndarray) -> np.ndarray:
        if tasks.kind != "regression":
            assert tasks.classes is not None
            if len(tasks.classes) != 2:
                raise OptionError("one-run audits have canaries for regression and for two classes")
            parity = np.tile([1, 1, 0, 0], len(sign) // ROWS)  # explained by no direction
            return np.asarray(tasks.classes)[np.where(sign == 0, parity, sign > 0).astype(int)]
        declared = tasks.bounds.target if tasks.bounds is not None else None
        low, high = declared or (-LARGE, LARGE)
        return np.asarray((low + high) / 2 + sign * (high - low) / 2)


def audit_one_run(
    estimator: Any,
    data: Any = None,
    *,
    canaries: int = 100,
    tasks: int | None = None,
    features: int | None = None,
    seed: int | None = None,
    alarm: float = ALARM,
    announce: Announce | None = None,
) -> AuditResult:
    """Rehearse one run with canary tasks: no ledger, no folder. `data` is a TaskSet or (X, y, task); without it others are null.

    `tasks` is how many tasks take part in all when there is no data (default: one more than canaries), `features` of how many
    columns (default: as many as canaries).
    """
    if data is None:
        est = simulation_of(estimator)
        others = null_tasks(max((tasks or canaries) - canaries, 1), features or canaries, est._kind)
    else:
        params = {"ledger": None, "account": None, "run_dir": None, "progress": None, "runtime": "in_process"}
        est = type(estimator)(**{**estimator.get_params(deep=False), **params})
        others = data if isinstance(data, TaskSet) else _tasks(est, data)
    key = secrets.randbits(40) if seed is None else int(seed)
    est.insecure_noise_seed = key
    rng = np.random.default_rng(key) if seed is not None else None
    joined = Canaries(_coins(canaries, rng), str(est.neighbours) == "replace-one")
    return _audited(est, others, joined, alarm, announce, key, SIMULATION if data is None else REHEARSAL, data is not None)


def fit_with_canaries(estimator: Any, tasks: TaskSet, canaries: int, announce: Announce | None = None) -> Any:
    """Fit the estimator with canary tasks among its own, and set what they show beside its certificate."""
    if estimator.run_dir is not None:
        raise OptionError("a run with canaries keeps its coins in memory and cannot be resumed; give no run_dir")
    joined = Canaries(_coins(canaries, None), str(estimator.neighbours) == "replace-one")
    result = _audited(estimator, tasks, joined, ALARM_OF_A_RUN, announce, None, REAL_RUN, True)
    estimator.audit_ = result
    estimator.certificate_ = replace(estimator.certificate_, audit=result.to_dict())
    return estimator


def _tasks(est: Any, data: Any) -> TaskSet:
    if not (isinstance(data, tuple) and len(data) == 3):
        raise OptionError("one-run audits take data as a TaskSet (tv.load_tasks reads a file into one) or as (X, y, task)")
    return inputs.tasks_of(*data, est.task_column, est._kind, est.bounds, est.person, est._rules().unusable)


def null_tasks(count: int, n_features: int, kind: str) -> TaskSet:
    """Tasks that send nothing: rows of zeros, targets of zero."""
    names = [f"null-{i:05d}" for i in range(count)]
    y = np.zeros(count * ROWS) if kind == "regression" else np.tile([0, 1], count * ROWS // 2)
    positions = np.repeat(np.arange(count), ROWS)
    X = np.zeros((count * ROWS, n_features))
    classes = None if kind == "regression" else np.array([0, 1])
    return TaskSet.from_arrays(X, y, positions, task_names=names, kind=kind, classes=classes)


def _audited(
    est: Any, tasks: TaskSet, joined: Canaries, alarm: float, announce: Announce | None, key: int | None, note: str, known: bool
) -> AuditResult:  # fmt: skip
    """Fit under observation, guess, and say what the guesses show."""
    _check(est, len(joined.coins))
    logs: list[RunLog] = []
    expected: list[Outlook] = []

    def run(run: Run, block: Any) -> Any:
        expected.append(expect(run.plan, run.public, len(joined.coins), alarm, known))
        if announce is not None:
            announce(expected[0].words())
        logs.append(RunLog(run.method, block, run.public, run.plan))
        return type(est)._run(est, replace(run, method=logged(run.method, logs[0])), block)

    est._run = run  # this fit only
    try:
        est.fit(joined.join(tasks))
    finally:
        del est._run
    first = tasks.n_tasks
    scores = canary_scores(logs[0], first, joined, known)
    return conclude(est, scores, joined.coins, expected[0], key, note)


def _check(est: Any, canaries: int) -> None:
    if est.epsilon is None:
        raise OptionError("epsilon=None makes no claim, so there is nothing to refute; give an epsilon")
    if str(est.unit) != "task":
        raise OptionError("canary tasks audit unit='task'; for unit='record' audit with many runs (tv.audit without one_run)")
    if est.aggregation != "curator" or est.runtime != "in_process":
        raise OptionError("one-run audits need aggregation='curator' in one process, where releases can be watched")
    if canaries < 10:
        raise OptionError(f"a one-run audit needs at least 10 canaries, got {canaries}")


def vector_releases(plan: Plan, n_features: int, known: bool) -> list[Any]:
    """The planned sums of vectors of model size: there an axis of the features is a coordinate.

    Among real tasks only those of the first round: later messages lean toward what the others published, off the axis.
    """
    found = [
        p for p in plan.releases
        if (p.round == plan.releases[0].round or not known) and isinstance(p.contribution, VectorSum)
        and math.prod(p.contribution.total_shape) in (n_features, n_features + 1)
    ]  # fmt: skip
    if not found:
        raise OptionError(
            "this method releases no sum of vectors of model size, along which canaries could be told apart; one-run "
            "audits are for mean, subspace and dp-aggr. Use the audit of many runs (tv.audit without one_run)."
        )
    return found


def expect(plan: Plan, public: Any, canaries: int, alarm: float, known: bool) -> Outlook:
    """What this plan lets canaries show."""
    used = vector_releases(plan, public.n_features, known)
    worlds = 2.0 if str(plan.budget.neighbours) == "replace-one" else 1.0
    seen = ALONG * worlds * math.sqrt(math.fsum((p.contribution.bound / p.mechanism.scale) ** 2 for p in used))
    claim = (float(plan.budget.epsilon or math.inf), plan.budget.delta)
    return outlook(canaries, public.n_tasks - canaries, public.n_features, seen, _mu(plan), claim, alarm)


def _mu(plan: Plan) -> float | None:
    return Curve(plan.charges()).mu() if not any(p.rate for p in plan.releases) else None


def canary_scores(log: RunLog, first: int, joined: Canaries, known: bool) -> np.ndarray:
    """Every canary's coordinate over rounds, weighted by 1/noise^2, around the middle of its two worlds."""
    d, k = log.public.n_features, len(joined.coins)
    planned = {(p.round, p.name): p for p in vector_releases(log.plan, d, known)}
    axes = np.arange(k) % d
    total, weights = np.zeros(d), 0.0
    for (number, releases), seen, (_, message) in zip(log.plan.rounds(), log.releases, log.messages):
        for release in releases:
            mine = planned.get((number, release.name))
            if mine is None:
                continue
            weight = mine.contribution.bound / mine.mechanism.scale**2
            total += weight * (np.ravel(seen[mine.name]) - _of_others(mine, message, first, known))[:d]
            weights += weight * mine.contribution.bound
    sharing = np.bincount(axes, minlength=d)[axes]
    middle = 0.0 if joined.opposite else ALONG * weights * sharing / 2
    return total[axes] - middle


def _of_others(planned: Any, message: Any, first: int, known: bool) -> Any:
    """The real tasks' part of the sum, which the attacker knows; null tasks send nothing."""
    if not known:
        return 0.0
    raw = message[planned.name]
    if isinstance(raw, Bounded) or not isinstance(raw, np.ndarray) or planned.rate is not None:
        raise OptionError(
            "this method sums before its messages can be told apart, or samples who takes part: audit it in one run without data "
            "(tv.audit(est, one_run=True)), or with many runs"
        )
    return np.ravel(planned.contribution.total(planned.contribution.clip(raw[:first])))


def conclude(est: Any, scores: np.ndarray, coins: np.ndarray, expected: Outlook, key: int | None, note: str) -> AuditResult:
    """Bounds, estimate and verdict of one run's scores."""
    claim = claim_of(est)
    assert claim is not None
    epsilon, delta, k = claim["epsilon"], claim["delta"], len(coins)
    mu = _mu(est.record_.plan)
    guesses, correct = expected.guesses, int(count_correct(scores, coins, expected.guesses))
    both = mu is not None and k <= expected.directions
    level = expected.alarm * (THEOREM_SHARE if both else 1.0)
    bound, sure = (fdp_epsilon(k, guesses, correct, delta, a, mu is not None) for a in (1 - CONFIDENCE, level))
    chance = recorded_p_value(scores, coins, mu) if both and mu is not None else None
    unlikely = chance is not None and chance <= expected.alarm - level
    refuted = sure > epsilon or unlikely
    details = {
        "canaries": k, "guesses": guesses, "correct": correct, "outlook": expected.to_dict(),
        "threshold_bound": one_run_bound(k, guesses, correct, delta, 1 - CONFIDENCE),
        "estimate": gaussian_estimate(scores, coins, delta), "as_recorded": chance,
    }  # fmt: skip
    leaks = []
    if unlikely and not sure > epsilon:
        leaks = [f"had the noise been what is recorded, scores so far apart would have probability {chance:.1g}"]
    return AuditResult(
        str(est.record_.plan and est.certificate_.method), epsilon, delta, bound, CONFIDENCE, _attack(details), 1,
        REFUTED if refuted else CONSISTENT, sure, claim["neighbours"], claim["unit"], claim["observer"], est.variant, key,
        details,
        note, leaks, configuration=configuration(est), alarm=expected.alarm,
    )  # fmt: skip


def _attack(d: dict[str, Any]) -> str:
    estimate = "none" if d["estimate"] is None else f"{d['estimate']:.3g}"
    return (
        f"one run, {d['canaries']} canary tasks, {d['correct']} of {d['guesses']} guesses right (bound by the f-DP "
        f"theorem; by the "
        f"threshold theorem {d['threshold_bound']:.3g}; an estimate that is no bound: {estimate})"
    )


def _ranges(tasks: TaskSet) -> tuple[np.ndarray, np.ndarray]:
    """Middle and half width of every feature's declared range; 0 and 1 where nothing is declared."""
    if tasks.bounds is None or not tasks.bounds.covers(tasks.feature_names):
        return np.zeros(tasks.n_features), np.ones(tasks.n_features)
    low, high = tasks.bounds.arrays(tasks.feature_names)
    return (low + high) / 2, (high - low) / 2


def _coins(canaries: int, rng: np.random.Generator | None) -> np.ndarray:
    """Fair coins: from the operating system, or seeded for a reproducible rehearsal."""
    if rng is not None:
        return rng.integers(0, 2, canaries).astype(bool)
    return np.array([secrets.randbits(1) for _ in range(canaries)], dtype=bool)
