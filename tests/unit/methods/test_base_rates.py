"""Base rates: tasks of few labels learn the level of all where it can be afforded, and one task moves it by its bound at most."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit

import taskveil as tv
from taskveil import methods
from taskveil.methods.base import Models, PublicInfo
from taskveil.methods.base_rates import BASE, ROWS_WORTH, base_message, mean_label, near_base_rates
from taskveil.methods.subspace import BOTH
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.plan import Budget, make_plan
from taskveil.tasks.block import TaskBlock


def few_labels(n_tasks=186, rows=4, rate=0.1, seed=0):
    """Twenty features that say nothing."""
    rng, task = np.random.default_rng(seed), np.repeat(np.arange(n_tasks), rows)
    return rng.standard_normal((task.size, 20)), (rng.uniform(size=task.size) < rate).astype(int), task


def loss(est, rate):
    X, y, task = few_labels(rows=20, rate=rate, seed=1)
    return -np.mean(np.log(np.where(y == 1, *est.predict_proba(X, task=task).T[::-1])))


@pytest.mark.parametrize("rate", [0.08, 0.4])
def test_four_rows_a_task_are_no_worse_than_a_constant_where_the_rate_can_be_afforded(rate):
    """Alone they are 14 to 18 % worse than the constant."""
    X, y, task = few_labels(rate=rate)
    constant = -np.mean([rate * np.log(y.mean()), (1 - rate) * np.log(1 - y.mean())]) * 2
    ours = loss(tv.TaskClassifier(epsilon=3.0, delta=1e-5, insecure_noise_seed=1).fit(X, y, task=task), rate)
    assert ours < 1.02 * constant < loss(tv.TaskClassifier("local", epsilon=None).fit(X, y, task=task), rate)


def planned(epsilon=1.0, n_tasks=186, kind="classification"):
    public, budget = PublicInfo(n_tasks, 20, 1, kind), Budget(epsilon, 1e-5)
    return make_plan(methods.get("together", messages="directions").requests(public, budget), budget)


def test_it_is_bought_for_labels_where_public_sizes_allow_and_leaves_the_total_as_it_was():
    found = {p.name: p for p in planned().releases}
    assert set(found) == {BASE, BOTH} and found[BASE].contribution.plain == VectorSum((1,), 1.0)
    assert {p.name for p in planned(n_tasks=20).releases} == {p.name for p in planned(kind="regression").releases} == {BOTH}


def test_it_gets_most_of_the_budget_where_directions_can_tell_little():
    """Precision of the rate, over that of the whole budget: epsilon 0.3 is lost for 20 directions, epsilon 1 is not."""

    def share(epsilon):
        costs = {p.name: 1.0 / p.event.noise_multiplier**2 for p in planned(epsilon).releases}
        return costs[BASE] / sum(costs.values())

    assert share(0.3) == pytest.approx(0.8, abs=0.01)
    assert share(1.0) == pytest.approx(0.3, abs=0.01)
    assert share(3.0) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("rate", [0.08, 0.4])
def test_four_rows_a_task_gain_by_the_rate_at_a_small_epsilon(rate):
    X, y, task = few_labels(rate=rate)
    ours = loss(tv.TaskClassifier(epsilon=0.3, delta=1e-5, insecure_noise_seed=1).fit(X, y, task=task), rate)
    assert ours < 0.95 * loss(tv.TaskClassifier("local", epsilon=None).fit(X, y, task=task), rate)


def block_of(*labels):
    y = np.concatenate([np.asarray(task, dtype=float) for task in labels])
    return TaskBlock(np.zeros((y.size, 1)), y[:, None], np.cumsum([0, *map(len, labels)]), kind="classification")


def test_a_mean_label_is_its_tasks_own_and_no_longer_than_one():
    sent, other = base_message(block_of([1, 1, -1, -1], [1, 1])), base_message(block_of([-1], [1, 1]))
    np.testing.assert_array_equal(sent, [[0.0], [1.0]])
    assert other[0] == -1.0 and other[1] == sent[1]


@pytest.mark.parametrize(("seen", "noise"), [(-0.84, 0.13), (-1.1, 0.3), (0.2, 0.05)])
def test_a_rate_is_the_mean_of_its_posterior(seen, noise):
    """Against quadrature over rates that 100 tasks could tell from none."""
    public, least = PublicInfo(100, 1, 1, "classification"), 1 / 201

    def moment(k):
        return quad(lambda p: p**k * (p * (1 - p)) ** -0.5 * np.exp(-(((seen + 1 - 2 * p) / noise) ** 2) / 2), least, 1 - least)[
            0
        ]

    found = (1 + mean_label(np.array([100 * seen]), noise, public)[0]) / 2
    assert found == pytest.approx(moment(1) / moment(0), rel=1e-2)


def level_of(labels, rate=0.1, noise=0.02, others=()):
    block = block_of(labels, *others)
    nothing = Models(np.zeros((block.n_tasks, 1, 1)), np.zeros((block.n_tasks, 1)))
    own = np.clip((1 + block.means_by_task(block.y)) / 2, *(abs(k - 0.5 / (block.counts[:, None] + 1)) for k in (0, 1)))
    public = PublicInfo(block.n_tasks, 1, 1, "classification", loss="logistic")
    moved = near_base_rates(block, public, nothing, np.array([2 * rate - 1]), noise).intercept
    return float(expit(moved + np.log(own / (1 - own)))[0, 0])


@pytest.mark.parametrize(("hits", "rows"), [(0, 4), (1, 4), (2, 4), (0, 30)])
def test_a_share_is_the_mean_of_its_posterior(hits, rows):
    """Against quadrature over shares under the mixture of Beta laws."""
    rate, known = 0.1, 4 * 0.1 * 0.9 / 0.02**2
    worth = np.maximum(1 / (1 / ROWS_WORTH + 1 / known), 0.5 / rate)

    def density(p):
        from scipy.stats import beta

        return np.mean(beta.pdf(p, worth * rate, worth * (1 - rate))) * p**hits * (1 - p) ** (rows - hits)

    moments = [quad(lambda p, k=k: p**k * density(p), 0, 1, limit=400, points=[1e-6, 1e-3, 0.5])[0] for k in (0, 1)]
    assert level_of([1] * hits + [-1] * (rows - hits)) == pytest.approx(moments[1] / moments[0], rel=1e-3)


def test_a_level_follows_from_the_tasks_own_labels_and_the_rate():
    assert level_of([-1] * 4, others=([1] * 9,)) == level_of([-1] * 4, others=([-1] * 9,))


def test_a_rate_that_noise_hides_moves_nobody():
    assert level_of([-1] * 4, noise=0.5) == pytest.approx(0.1)  # half a row added to each class


def test_labels_that_tell_enough_keep_their_own_share():
    assert level_of([1] * 20 + [-1] * 20) == pytest.approx(0.5)
