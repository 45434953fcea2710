"""The default method against its certificate by exact likelihood ratios of whole runs, with noise of the system.

Null: the certificate holds. In every run no release moves further than its sensitivity, one summand of a message differs, and
all moves together stay below what epsilon and delta allow (exact: no false alarms). Over the runs, losses beyond epsilon and the
size of the noise contradict the certificate with probability at most 1e-6 each. The twins show that planted faults do. In the
default suite a few runs of every case; hundreds under `make audit`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from tests.support import audit_faults as faults
from tests.support.likelihood import Neighbours, Table, gaussian_delta, violations

import taskveil as tv
from taskveil.methods import base_rates
from taskveil.methods.together import TogetherTasks
from taskveil.methods.together_records import TRIED, RecordTasks
from taskveil.privacy.events import ZeroEvent
from taskveil.privacy.plan import Plan, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import run as assembly

pytestmark = [pytest.mark.statistical, pytest.mark.timeout(1800)]

EPSILON, DELTA = 1.0, 0.05  # a delta that a few hundred runs can contradict
BOUNDS = {"features": {"*": [-1.0, 1.0]}}
TARGETS = {"numbers": {"target": [-2.0, 2.0]}, "labels": {"classes": ["no", "yes"]}, "three labels": {"classes": ["a", "b", "c"]}}
OF_ROWS = {"base", "centre", "lengths", "curvature", "score", "gain"}  # and slopes, of numbers: all that is ever bought
OF_TASKS = {"score", "moment", "strength"}  # and the base, of labels
RUNS = [pytest.param(2, id="a few runs"), pytest.param(150, id="many runs", marks=pytest.mark.audit)]
FURTHER, SEVERAL = "moves further than its sensitivity", "several summands of a message differ"
TOO_FAR, TOO_OFTEN = "the sums lie further apart than epsilon allows", "losses beyond epsilon are more frequent than delta"

# What the protected unit holds in both worlds: size of its features, sign of its target; None is the null unit.
CANARIES = {
    "opposite corners": ((1e6, 1), (-1e6, 1)),
    "opposite targets": ((1e6, 1), (1e6, -1)),
    "at the bounds against the middle": ((1.0, 1), (0.0, -1)),
    "huge against tiny": ((1e150, -1), (1e-160, 1)),
    "absent": ((-1e6, -1), None),
}


def rows(kind: str, tasks: int, each: int) -> Table:
    """One label in ten is the second, one in thirty the third."""
    rng = np.random.default_rng(0)
    X, task = rng.uniform(-1.0, 1.0, (tasks * each, 3)), np.repeat([f"t{i:03d}" for i in range(tasks)], each)
    score = X @ [1.0, 0.5, -0.5] + 0.1 * rng.standard_normal(len(X))
    if kind == "numbers":
        return X, score, task
    labels = TARGETS[kind]["classes"]
    return X, np.array(labels)[np.digitize(score, np.quantile(score, [0.9, 0.97][: len(labels) - 1]))], task


def holding(kind: str, table: Table, unit: str, what: tuple[float, int]) -> Table:
    """The table with these cells in the protected unit's place: a row in a corner, or a task that is steep along a feature."""
    X, y, task = (part.copy() for part in table)
    size, sign = what
    place = slice(0, 1) if unit == "record" else task == task[0]
    signs = np.ones((1, 3)) if unit == "record" else np.random.default_rng(1).choice([-1.0, 1.0], X[place].shape)
    X[place], targets = size * signs, sign * signs[:, 0]
    labels = TARGETS[kind].get("classes")
    y[place] = targets * max(abs(size), 2.0) if labels is None else np.where(targets > 0, labels[-1], labels[0])
    return X, y, task


def neighbours(kind: str, canary: str, unit: str = "record", declared: bool = True, **options) -> Neighbours:
    first, second = CANARIES[canary]
    table = rows(kind, 4, 60) if unit == "record" else rows(kind, 220, 3)
    est = (tv.TaskRegressor if kind == "numbers" else tv.TaskClassifier)(
        tv.methods.get("together", rounds=2, **({} if unit == "record" else {"messages": "scores"})), epsilon=EPSILON,
        delta=DELTA, unit=unit, neighbours="add-remove" if second is None else "replace-one",
        bounds=BOUNDS | TARGETS[kind] if declared else None,
    ).set_params(**options)  # fmt: skip
    other = None if second is None else holding(kind, table, unit, second)
    return Neighbours.of(est, holding(kind, table, unit, first), other)


def bought(pair: Neighbours) -> set[str]:
    return {planned.name for planned in pair.worlds[0].plan.releases}


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("canary", CANARIES)
@pytest.mark.parametrize("kind", TARGETS)
def test_runs_that_protect_rows_are_as_private_as_certified(kind, canary, runs):
    pair = neighbours(kind, canary)
    assert bought(pair) == OF_ROWS | ({"slopes"} if kind == "numbers" else set())
    for real in (0, 1):
        assert violations(pair, pair.runs(runs, real)) == []


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "undeclared"])
@pytest.mark.parametrize("canary", ["opposite targets", "huge against tiny", "absent"])
@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_runs_that_protect_tasks_are_as_private_as_certified(kind, canary, declared, runs):
    pair = neighbours(kind, canary, "task", declared, epsilon=8.0)
    assert bought(pair) >= OF_TASKS
    for real in (0, 1):
        assert violations(pair, pair.runs(runs // 5 + 1, real)) == []


def beside_directions(kind: str, canary: str, **options) -> Neighbours:
    """Labels whose base rate is released beside directions."""
    pair = neighbours(kind, canary, "task", method__messages="directions", **{"epsilon": 8.0, **options})
    assert bought(pair) == {"base", "mean", "moments"}
    return pair


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("canary", ["opposite targets", "huge against tiny", "absent"])
@pytest.mark.parametrize("kind", ["labels", "three labels"])
def test_base_rates_beside_directions_are_as_private_as_certified(kind, canary, runs):
    pair = beside_directions(kind, canary)
    for real in (0, 1):
        assert violations(pair, pair.runs(runs // 5 + 1, real)) == []


@pytest.mark.parametrize("unit, epsilon", [("record", 1.0), ("record", 0.1), ("task", 8.0), ("directions", 8.0)])
def test_other_accountants_find_the_certified_epsilon(unit, epsilon):
    """From sensitivities and scales of the releases alone: the closed form of one Gaussian, and dp-accounting's distributions."""
    options = {"epsilon": epsilon, "delta": 1e-6}
    if unit == "directions":
        pair = beside_directions("labels", "opposite targets", **options)
    else:
        pair = neighbours("numbers", "opposite targets", unit, **options)
    releases, (statement, *_) = pair.worlds[0].plan.releases, pair.estimator.certificate_.statements
    relative = [p.mechanism.scale / p.contribution.sensitivity("replace-one").l2 for p in releases]
    assert gaussian_delta(statement.epsilon, np.sqrt(np.sum(np.square(1 / np.array(relative))))) == pytest.approx(1e-6, rel=1e-3)
    together = pld.from_gaussian_mechanism(relative[0], value_discretization_interval=1e-4)
    for one in relative[1:]:
        together = together.compose(pld.from_gaussian_mechanism(one, value_discretization_interval=1e-4))
    assert together.get_epsilon_for_delta(1e-6) == pytest.approx(statement.epsilon, rel=0.01)


# ------------------------------------------------------------------ twins


def found(pair: Neighbours, runs: int = 2, **noise) -> str:
    return " | ".join(violations(pair, pair.runs(runs, **noise)))


def long_gain(self, view):
    """A gain in units so small that every row's is far beyond its bound."""
    return np.repeat(np.sign(self.block.y - 0.1) * 100.0, len(TRIED), axis=1), np.ones((self.block.n_rows, 1))


def long_steps(self, model, real=TogetherTasks._steps):
    return 100.0 * real(self, model)


@contextmanager
def long_messages():
    with patch.object(RecordTasks, "_gain", long_gain), patch.object(TogetherTasks, "_steps", long_steps):
        yield


@pytest.mark.parametrize("unit, epsilon, releases", [("record", 1.0, ["score", "gain"]), ("task", 8.0, ["score"])])
def test_messages_that_are_not_clipped_are_seen_and_long_ones_are_clipped(unit, epsilon, releases):
    pair = neighbours("numbers", "opposite targets", unit, epsilon=epsilon)
    with long_messages():
        assert found(pair) == ""
        with faults.clipping_off():
            assert all(f"/{name} {FURTHER}" in found(pair) for name in releases)


def test_rows_around_their_own_mean_are_seen():
    def around(self, view):
        rows = self._wide()
        rows[:, : self.public.n_features] -= self.block.X.mean(axis=0)
        return rows

    with patch.object(RecordTasks, "_around", around):
        assert SEVERAL in found(neighbours("numbers", "opposite corners"))


def test_steps_of_tasks_around_their_mean_are_seen():
    real = TogetherTasks._steps
    pair = neighbours("numbers", "opposite targets", "task", epsilon=8.0)
    with patch.object(TogetherTasks, "_steps", lambda self, model: (s := real(self, model)) - s.mean(axis=0)):
        assert SEVERAL in found(pair)


def test_a_mean_label_that_is_not_clipped_or_seen_from_the_others_is_seen():
    real, pair = base_rates.base_message, beside_directions("labels", "opposite targets")
    with patch.object(base_rates, "base_message", lambda block: 100.0 * real(block)):
        assert found(pair) == ""
        with faults.clipping_off():
            assert f"/base {FURTHER}" in found(pair)
    with patch.object(base_rates, "base_message", lambda block: (sent := real(block)) - sent.mean(axis=0)):
        assert SEVERAL in found(pair)


@contextmanager
def free_gain(scale: float):
    """The plan spends everything on the others; the gain has noise of this scale and is entered as nothing."""

    def careless(requests, budget, policy):
        *paid, gain = requests
        plan = make_plan(paid, budget)
        noise = replace(plan.releases[0].mechanism, scale=scale)
        last = replace(plan.releases[0], name=gain.name, round=gain.round, mechanism=noise, event=ZeroEvent())
        return Plan((*plan.releases, replace(last, contribution=gain.contribution)), budget)

    with patch.object(assembly, "make_plan", careless):
        yield


def test_a_release_that_is_not_charged_is_seen_by_the_distance_and_by_counting():
    with free_gain(scale=4.0):  # as much noise as a score's
        assert TOO_FAR in found(neighbours("numbers", "absent"))
    with free_gain(scale=0.7):
        pair = neighbours("numbers", "absent")
    assert TOO_OFTEN in found(pair, runs=60)


def test_half_of_the_noise_is_seen():
    pair = neighbours("numbers", "opposite targets")
    with faults.noise_halved():
        assert found(pair, source=insecure_seeded_noise(1)) == "the noise has another deviation than planned"
    assert found(pair, source=insecure_seeded_noise(1)) == ""
