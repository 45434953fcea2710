"""One run, many canary tasks: a lower bound on epsilon from the run itself, without repeating it.

K canary tasks (canary_tasks.py) join the others; for each a fair coin, unknown to the attacker, decides which of two neighbours
takes part. They take the real path: clipped, summed, charged and noised like everybody's, and counted in the public number of
tasks. The attacker sees all releases, knows the rows of the real tasks (privacy is promised against such a one) and both possible
data sets of every canary, and scores each by its likelihood ratio over all releases (both_worlds.py). What so many right guesses
show: one_run_bounds.py.

Coins must be fair and independent; outputs may depend on each other as they like. Little can be shown at small epsilon, or where
the release has fewer coordinates than there are canaries; `Outlook` says so before the run. After a run that is kept, canaries
are no tasks of the fitted estimator: nobody predicts for them, and no figure counts them.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.audits import one_run_bounds as bounds
from taskveil.audits.both_worlds import SUMS, Ratios, log_ratios, squared_distances, with_other_worlds
from taskveil.audits.canary_tasks import AXES, FEW, PAIRS, SIGNS, Canaries, null_tasks, parts_apart, without_canaries
from taskveil.audits.configuration import configuration
from taskveil.audits.lower_bound import CONFIDENCE, one_run_bound
from taskveil.audits.methods import claim_of, simulation_of
from taskveil.audits.result import CONSISTENT, REFUTED, SIMULATION, AuditResult
from taskveil.errors import OptionError
from taskveil.estimators import inputs
from taskveil.estimators.certify import CANARIES_SHOW
from taskveil.privacy.contributions import TaskStack
from taskveil.privacy.plan import Plan
from taskveil.privacy.profile import Curve
from taskveil.runtime.run import Run
from taskveil.tasks.task import TaskSet

ALARM = 0.05  # of a rehearsal, which can be repeated
NEARLY = 1e-3  # of a right angle
HARDLY = 0.05  # more power, or share of the claim: no reason for shorter canaries
ALARM_OF_A_RUN = 1e-3  # of a run that is kept: its certificate fails if the audit refutes it
REHEARSAL = "a rehearsal on your table: nothing was charged to a ledger, and no canary is in a released model"
REAL_RUN = "the real run: canary tasks took part, were charged and noised like the others, and left no model"

Announce = Callable[[str], None]


@dataclass
class Scores:
    """Log likelihood ratios of every canary's own world, summed over releases."""

    first: int  # canaries stand after this many tasks
    seen: Ratios | None = None

    def on_release(self, planned: Any, noisy: np.ndarray, here: np.ndarray, there: np.ndarray) -> None:
        """Adds what one release says for and against each canary."""
        ratios = log_ratios(planned, noisy, here, there, self.first)
        self.seen = ratios if self.seen is None else self.seen + ratios

    def towards(self, coins: np.ndarray) -> np.ndarray:
        """In noise units, larger for the world of coin 1."""
        assert self.seen is not None
        own = self.seen.own / np.sqrt(np.maximum(self.seen.distances, 1e-300))
        return np.asarray(np.where(coins, own, -own))

    def apart(self) -> bool:
        """Whether canaries moved the releases along orthogonal directions, so that their scores are independent."""
        overlaps = None if self.seen is None else self.seen.overlaps
        if overlaps is None or not np.all(np.diag(overlaps) > 0):
            return False
        length = np.sqrt(np.diag(overlaps))
        return bool(np.linalg.norm(overlaps / length / length[:, None] - np.eye(len(length)), 2) <= NEARLY)


@dataclass
class Attempt:
    """One audited fit: who, with how many canaries, and how sure it must be."""

    estimator: Any
    tasks: TaskSet
    canaries: Canaries
    alarm: float
    announce: Announce | None = None
    key: int | None = None
    note: str = REAL_RUN
    among_real: bool = True  # the others are the user's tasks, and publish something


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
    note, real = SIMULATION if data is None else REHEARSAL, data is not None
    return _audited(Attempt(est, others, canaries_for(est, canaries, rng), alarm, announce, key, note, real))


def fit_with_canaries(estimator: Any, tasks: TaskSet, canaries: int, announce: Announce | None = None) -> Any:
    """Fit the estimator with canary tasks among its own, and set what they show beside its certificate."""
    if estimator.run_dir is not None:
        raise OptionError("a run with canaries keeps its coins in memory and cannot be resumed; give no run_dir")
    prepared(estimator, tasks)
    notes, strict = list(estimator.warnings_), estimator.strict  # of the real tasks alone
    estimator.strict = False
    try:
        result = _audited(Attempt(estimator, tasks, canaries_for(estimator, canaries, None), ALARM_OF_A_RUN, announce))
    finally:
        estimator.strict = strict
    without_canaries(estimator, canaries)
    open_points = (CANARIES_SHOW, *estimator.certificate_.not_protected)
    estimator.certificate_ = replace(estimator.certificate_, not_protected=open_points)
    estimator.warnings_ = [*notes, *estimator.record_.warnings]
    estimator.audit_ = result = replace(result, configuration=configuration(estimator))
    estimator.certificate_ = replace(estimator.certificate_, audit=result.to_dict())
    for note in estimator.warnings_:
        warnings.warn(note, UserWarning, stacklevel=2)
    return estimator


def canaries_for(est: Any, count: int, rng: np.random.Generator | None) -> Canaries:
    """Fair coins: from the operating system, or seeded for a reproducible rehearsal."""
    if count < 10:
        raise OptionError(f"a one-run audit needs at least 10 canaries, got {count}")
    coins = rng.integers(0, 2, count) if rng is not None else [secrets.randbits(1) for _ in range(count)]
    return Canaries(np.asarray(coins, dtype=bool), str(est.neighbours) == "replace-one")


def _tasks(est: Any, data: Any) -> TaskSet:
    if not (isinstance(data, tuple) and len(data) == 3):
        raise OptionError("one-run audits take data as a TaskSet (tv.load_tasks reads a file into one) or as (X, y, task)")
    return inputs.tasks_of(*data, est.task_column, inputs.Reading(est._kind, est.bounds, est.person, est._rules().unusable))


class _Prepared(Exception):
    """No error: it carries what a run would begin with."""

    def __init__(self, run: Run, block: Any):
        self.method, self.block, self.public, self.plan = run.method, block, run.public, run.plan


def prepared(est: Any, tasks: TaskSet) -> _Prepared:
    """What `fit` would run on this table; nothing is run, charged or released."""

    def stop(run: Run, block: Any) -> Any:
        raise _Prepared(run, block)

    est._run = stop
    try:
        est.fit(tasks)
    except _Prepared as found:
        return found
    finally:
        del est._run
    raise AssertionError("fit runs")


def _audited(at: Attempt) -> AuditResult:
    """Fit under observation, guess, and say what the guesses show."""
    est = at.estimator
    check(est)
    ready = prepared(est, at.canaries.join(at.tasks))
    check_method(ready.method, ready.plan)
    canaries, expected = expect(ready.plan, ready.public, at)
    if at.announce is not None:
        at.announce(expected.words())
    others = prepared(est, canaries.flipped().join(at.tasks)).block
    scores = Scores(at.tasks.n_tasks)

    def run(run: Run, block: Any) -> Any:
        watched = with_other_worlds(run.method, others, scores.on_release)
        return type(est)._run(est, replace(run, method=watched), block)

    est._run = run  # this fit only
    try:
        with warnings.catch_warnings():  # about canaries' rows, which are nobody's concern
            warnings.simplefilter("ignore")
            est.fit(canaries.join(at.tasks))
    finally:
        del est._run
    return conclude(est, scores, canaries, expected, at)


def check(est: Any) -> None:
    """Refuse in words, before anything is prepared, what one run cannot audit."""
    if est.epsilon is None:
        raise OptionError("epsilon=None makes no claim, so there is nothing to refute; give an epsilon")
    if isinstance(est.epsilon, Mapping):
        raise OptionError("canary tasks audit one epsilon for all tasks, got a budget per task; audit it with many runs")
    if str(est.unit) != "task":
        raise OptionError("canary tasks audit unit='task'; for unit='record' audit with many runs (tv.audit without one_run)")
    if est.aggregation != "curator" or est.runtime != "in_process":
        raise OptionError("one-run audits need aggregation='curator' in one process, where releases can be watched")


def check_method(method: Any, plan: Plan) -> None:
    """The same, of what the plan says."""
    many = "Use the audit of many runs (tv.audit without one_run)."
    if not method.linear or method.schedule != "synchronous":
        raise OptionError(f"method {method.name!r} sums, or sends, before its messages can be told apart. {many}")
    if plan.total is not None:
        raise OptionError("canaries are told apart in every planned release; use spending='fixed' for an audit in one run")
    if any(p.rate is not None for p in plan.releases):
        raise OptionError(f"rounds with sampled tasks hide which canaries took part, so guesses show next to nothing. {many}")
    odd = [p.name for p in plan.releases if not isinstance(p.contribution, SUMS)]
    if odd or not plan.releases:
        what = f"the release {odd[0]!r} is no sum of what single tasks send" if odd else f"method {method.name!r} shares nothing"
        raise OptionError(f"{what}, so canaries cannot be told apart. {many}")


def expect(plan: Plan, public: Any, at: Attempt) -> tuple[Canaries, bounds.Outlook]:
    """The canaries that show most under this plan, and what they can show; of equals those whose models are longest."""
    shaped = [replace(at.canaries, shape=shape) for shape in _shapes(public.n_features)]
    options = [(c, o) for c, o in ((c, _expected(plan, public, at, c)) for c in shaped) if o is not None]
    if not options:
        raise OptionError(
            "this method releases no sum of vectors or second moments of model size, along which canaries could be told apart. "
            "Use the audit of many runs (tv.audit without one_run)."
        )
    shows = [o.power + o.typical_bound / o.claimed_epsilon for _, o in options]
    return next(option for option, much in zip(options, shows) if much >= max(shows) - HARDLY)


def _shapes(n_features: int) -> tuple[str, ...]:
    return (PAIRS, AXES, SIGNS) if n_features >= FEW else (PAIRS, AXES) if n_features > 1 else (AXES,)


def _expected(plan: Plan, public: Any, at: Attempt, canaries: Canaries) -> bounds.Outlook | None:
    k, shape, d = len(canaries.coins), canaries.shape, public.n_features - public.n_features % 2 * (canaries.shape == PAIRS)
    apart = [(p, *parts_apart(p.contribution, shape, canaries.replaced, public.n_features)) for p in plan.releases]
    useful = [(p, a / p.mechanism.scale**2, b / p.mechanism.scale**2) for p, a, b in apart if a + b > 0]
    if not useful:
        return None
    linear, square = math.fsum(u[1] for u in useful), math.fsum(u[2] for u in useful)
    straight, bent = linear / (linear + square), square / (linear + square)
    own_rows = all(isinstance(u[0].contribution, TaskStack) for u in useful)
    overlap = straight**2 / d + bent**2 * 2 / d**2 if shape == SIGNS else 1 / d
    directions = max(k, d) if own_rows else max(int(1 / overlap), 1)
    rounds = {u[0].round for u in useful}
    seen = distances_ahead(at, canaries, min(rounds) + 1)
    total = math.fsum(seen[min(number, len(seen)) - 1] for number in rounds)
    claim, alone = (float(plan.budget.epsilon or math.inf), plan.budget.delta), shape != SIGNS or own_rows
    return bounds.outlook(k, public.n_tasks - k, directions, math.sqrt(total), _mu(plan), claim, at.alarm, apart=alone)


def distances_ahead(at: Attempt, canaries: Canaries, rounds: int) -> list[float]:
    """Squared distances of canaries' worlds in the first rounds, in noise, if all other tasks sent one and the same message.

    Of made-up rows at made-up billboards: nothing is looked at. Later messages lean toward what others published.
    """
    worlds = [prepared(at.estimator, c.join(at.tasks)) for c in (canaries, canaries.flipped())]
    method, public, plan = worlds[0].method, worlds[0].public, worlds[0].plan
    sides = [method.task_side(w.block.take(slice(at.tasks.n_tasks, None)), public, plan) for w in worlds]
    states, server = [side.start() for side in sides], method.server_side(public, plan)
    state, board = server.start()
    distances: list[float] = []
    for _, releases in plan.rounds():
        (states[0], here), (states[1], there) = (side.step(s, board.view(None)) for side, s in zip(sides, states))
        apart = [squared_distances(p.contribution, here[p.name], there[p.name]) / p.mechanism.scale**2 for p in releases]
        distances.append(float(np.mean(np.sum(apart, axis=0))))
        if len(distances) == rounds or board.done:
            break
        agreed = {p.name: _agreed(p.contribution, public.n_tasks, at.among_real) for p in releases}
        state, board = server.step(state, agreed, np.ones(public.n_tasks, dtype=bool))
    return distances


def _agreed(what: Any, n_tasks: int, sent: bool) -> np.ndarray:
    """The sum if every task sends the same signs, at the bound; or nothing."""
    signs = np.random.default_rng(20250124).choice([-1.0, 1.0], what.message_shape) * what.bound * sent
    return np.asarray(what.total(what.clip(np.broadcast_to(signs, (n_tasks, *what.message_shape)))))


def _mu(plan: Plan) -> float | None:
    return Curve(plan.charges()).mu()


@dataclass(frozen=True)
class Shown:
    """What the scores of one run show."""

    lower_bound: float
    correct: int
    sure: float  # the bound at the level of the alarm
    as_recorded: float | None
    refuted: bool


def shown(plan: Plan, seen: Scores, coins: np.ndarray, expected: bounds.Outlook) -> Shown:
    """Against the outlook's claim, at its alarm."""
    scores, k, mu = seen.towards(coins), len(coins), _mu(plan)
    guesses, correct = expected.guesses, int(bounds.count_correct(scores, coins, expected.guesses))
    both = mu is not None and expected.exact
    level = expected.alarm * (bounds.THEOREM_SHARE if both else 1.0)
    counts = (k, guesses, correct, expected.delta)
    bound, sure = (bounds.fdp_epsilon(*counts, a, mu is not None) for a in (1 - CONFIDENCE, level))
    chance = bounds.recorded_p_value(scores, coins, mu) if both and mu is not None and seen.apart() else None
    refuted = sure > expected.claimed_epsilon or (chance is not None and chance <= expected.alarm - level)
    return Shown(bound, correct, sure, chance, refuted)


def conclude(est: Any, seen: Scores, canaries: Canaries, expected: bounds.Outlook, at: Attempt) -> AuditResult:
    """Bounds, estimate and verdict of one run's scores."""
    claim = claim_of(est)
    assert claim is not None
    expected = replace(expected, claimed_epsilon=claim["epsilon"], delta=claim["delta"])
    conclusion, coins = shown(est.record_.plan, seen, canaries.coins, expected), canaries.coins
    k, delta, guesses = len(coins), expected.delta, expected.guesses
    details = {
        "canaries": k, "shape": canaries.shape, "guesses": guesses, "correct": conclusion.correct, "outlook": expected.to_dict(),
        "threshold_bound": one_run_bound(k, guesses, conclusion.correct, delta, 1 - CONFIDENCE),
        "estimate": _round(bounds.gaussian_estimate(seen.towards(coins), coins, delta)),
        "as_recorded": _round(conclusion.as_recorded),
    }  # fmt: skip
    leaks = []
    if conclusion.refuted and not conclusion.sure > expected.claimed_epsilon:
        leaks = [f"had the noise been what is recorded, scores so far apart would have probability {conclusion.as_recorded:.1g}"]
    return AuditResult(
        str(est.record_.plan and est.certificate_.method), expected.claimed_epsilon, delta, conclusion.lower_bound, CONFIDENCE,
        _attack(details), 1, REFUTED if conclusion.refuted else CONSISTENT, conclusion.sure, claim["neighbours"], claim["unit"],
        claim["observer"], est.variant, at.key, details, at.note, leaks, configuration=configuration(est), alarm=expected.alarm,
    )  # fmt: skip


def _round(figure: float | None) -> float | None:
    """One digit. Scores are the noise of the releases, found with everybody's rows: with a figure in full whoever sees the
    releases could try out which rows are the true ones, because others give another figure."""
    return None if figure is None else float(f"{figure:.1g}")


def _attack(d: dict[str, Any]) -> str:
    estimate = "none" if d["estimate"] is None else f"{d['estimate']:.3g}"
    return (
        f"one run, {d['canaries']} canary tasks, {d['correct']} of {d['guesses']} guesses right (bound by the f-DP "
        f"theorem; by the "
        f"threshold theorem {d['threshold_bound']:.3g}; an estimate that is no bound: {estimate})"
    )
