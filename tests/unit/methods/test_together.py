"""Together: tiny tasks learn a common model, noise that is too large leaves `subspace`, and one task moves a sum by its bound."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

import taskveil as tv
from taskveil import methods
from taskveil.methods.base import PublicInfo
from taskveil.methods.together import SCORE, TogetherTasks
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.plan import Budget, make_plan
from taskveil.tasks.block import TaskBlock

WEIGHTS = np.array([3.0, -2.0, 0.5])


def tiny_tasks(n_tasks=400, rows=3, seed=0, rare=False):
    """Three rows each, one model for all, a level of its own for each task; units are far from one."""
    rng, levels = np.random.default_rng(seed), np.random.default_rng(99).standard_normal(n_tasks)
    task = np.repeat(np.arange(n_tasks), rows)
    X = rng.standard_normal((task.size, 3)) * [1.0, 20.0, 0.1] + [5.0, 0.0, -1.0]
    score = (X - [5.0, 0.0, -1.0]) / [1.0, 20.0, 0.1] @ WEIGHTS + levels[task]
    if rare:
        return X, (score + rng.logistic(size=task.size) > 5.5).astype(int), task
    return X, 100.0 + 10.0 * (score + rng.standard_normal(task.size)), task


@pytest.mark.parametrize(("epsilon", "worse"), [(None, 1.02), (10.0, 1.1)])
def test_tiny_tasks_learn_what_one_model_of_all_rows_would_tell_them(epsilon, worse):
    X, y, task = tiny_tasks()
    Z, z, of = tiny_tasks(seed=1)
    pooled = RidgeCV(np.geomspace(1e-3, 1e3, 7)).fit(X, y).predict(Z)
    ours = tv.TaskRegressor(epsilon=epsilon, delta=1e-5, insecure_noise_seed=1).fit(X, y, task=task).predict(Z, task=of)
    assert np.mean((ours - z) ** 2) <= worse * np.mean((pooled - z) ** 2)


@pytest.mark.parametrize(("epsilon", "share"), [(None, 0.65), (10.0, 0.75)])
def test_tiny_tasks_find_the_directions_they_differ_in(epsilon, share):
    """Seven rows, nine features, models in a plane: an average over ways to differ has hardly a direction left to send."""
    rng, m = np.random.default_rng(0), 300
    W = rng.standard_normal((m, 2)) @ rng.standard_normal((2, 9)) / np.sqrt(18)

    def rows(n):
        task = np.repeat(np.arange(m), n)
        X = rng.standard_normal((task.size, 9))
        return X, np.einsum("nd,nd->n", X, W[task]) + 0.3 * rng.standard_normal(task.size), task

    (X, y, task), (Z, z, of) = rows(7), rows(10)

    def error(method, epsilon):
        est = tv.TaskRegressor(method, epsilon=epsilon, delta=1e-5, insecure_noise_seed=1).fit(X, y, task=task)
        return np.mean((est.predict(Z, task=of) - z) ** 2)

    assert error(methods.get("together", messages="scores"), epsilon) <= share * error("local", None)


def test_six_rows_of_noise_hardly_pass_for_slopes():
    """A belief as wide above as below has 1.38 times the error of the mean of six rows."""
    rng = np.random.default_rng(0)
    X, y, task = rng.standard_normal((1200, 6)), rng.standard_normal(1200), np.repeat(np.arange(200), 6)
    Z, z, of = rng.standard_normal((4000, 6)), rng.standard_normal(4000), np.repeat(np.arange(200), 20)
    mean = y.reshape(200, 6).mean(axis=1)[of]
    alone = tv.TaskRegressor("local", epsilon=None).fit(X, y, task=task).predict(Z, task=of)
    assert np.mean((alone - z) ** 2) <= 1.3 * np.mean((mean - z) ** 2)


def test_a_rare_class_is_not_taken_for_a_common_one():
    X, y, task = tiny_tasks(rare=True)
    Z, z, of = tiny_tasks(seed=1, rare=True)
    chance = tv.TaskClassifier(epsilon=None).fit(X, y, task=task).predict_proba(Z, task=of)[:, 1]
    base = y.mean()
    loss = -np.mean(np.where(z == 1, np.log(chance), np.log1p(-chance)))
    constant = -np.mean(np.where(z == 1, np.log(base), np.log1p(-base)))
    assert base < 0.12 and loss < 0.85 * constant


@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_where_noise_is_large_it_is_subspace(epsilon):
    public, budget = PublicInfo(100, 12, 1, "regression"), Budget(epsilon, 1e-5)
    plans = [make_plan(methods.get(name).requests(public, budget), budget) for name in ("together", "subspace")]
    assert plans[0].to_dict() == plans[1].to_dict()


def score_change(bound_everything):
    """How far the clipped sum of scores moves when one task's rows are replaced by huge ones."""
    public, budget = PublicInfo(50, 3, 1, "regression"), Budget(3.0, 1e-5)
    plan = make_plan(methods.get("together", messages="scores", rounds=1).requests(public, budget), budget)
    planned = next(p for p in plan.releases if p.name == SCORE)
    what = planned.contribution if bound_everything else VectorSum(planned.contribution.total_shape, 1e12)
    X, y, task = tiny_tasks(50, 4)
    sums = []
    for size in (1e6, -1e6):
        target = y.copy()
        target[:4] = size
        block = TaskBlock(X, target, np.arange(0, 201, 4))
        side = TogetherTasks(methods.get("together"), block, public, plan)
        _, billboard = methods.get("together", messages="scores").server_side(public, plan).start()
        _, message = side.step(side.start(), billboard.view(None))
        sums.append(what.total(what.clip(message[SCORE])))
    return float(np.linalg.norm(sums[0] - sums[1])), planned.contribution.sensitivity("replace-one").l2


def test_one_task_moves_the_score_by_its_sensitivity_at_most():
    moved, allowed = score_change(bound_everything=True)
    assert moved <= allowed == 2.0


def test_without_the_bound_it_would_move_further():
    """The twin: a bound that binds nobody, under which the check above fails."""
    moved, _ = score_change(bound_everything=False)
    assert moved > 1e3
