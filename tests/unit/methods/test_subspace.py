"""The private subspace: what is sent, what the server makes of noise, and that it helps without tuning."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.support.small import related_tasks

from taskveil import methods
from taskveil.errors import OptionError
from taskveil.estimators import TaskClassifier, TaskRegressor
from taskveil.methods.base import PublicInfo
from taskveil.methods.direction_mean import DECADES, DIRECTION_PART, LENGTH_PART, USUAL, contribution, estimate, messages
from taskveil.methods.shared_prior import denoised_mean, priors, unit_messages
from taskveil.methods.spikes import common_directions
from taskveil.methods.subspace import BOTH, MEAN, MOMENT, Subspace
from taskveil.privacy.contributions import OuterSum
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.synthetic import get_synthetic

PUBLIC = PublicInfo(n_tasks=50, n_features=6, n_outputs=1, kind="regression")
BUDGET = Budget(epsilon=1.0, delta=1e-5, unit="task", neighbours="replace-one")
PLAIN = Budget(epsilon=None, delta=1e-5, unit="task", neighbours="replace-one")


def task_side(block: TaskBlock, public: PublicInfo = PUBLIC, budget: Budget = PLAIN):
    method = Subspace()
    plan = make_plan(method.requests(public, budget), budget)
    _, board = method.server_side(public, plan).start()
    return method.task_side(block, public, plan), board


def sent(block: TaskBlock, centre: float = 0.0) -> dict[str, np.ndarray]:
    """Messages of the first two rounds, around a public centre."""
    side, board = task_side(block)
    values = {**board.values, "mean": np.full((1, block.n_features), centre)}
    out = {}
    for t in (0, 1):
        view = type(board)(t, values).view(None)
        out.update(side.step(side.start(), view)[1])
    return out


def block_of(X, y, sizes) -> TaskBlock:
    return TaskBlock(np.asarray(X, dtype=float), np.asarray(y, dtype=float), np.concatenate([[0], np.cumsum(sizes)]))


# ------------------------------------------------------------------ releases


def test_one_round_asks_for_both_sums_in_one_release_of_sensitivity_one():
    (asked,) = Subspace(rounds=1).requests(PUBLIC, BUDGET)
    assert (asked.round, asked.name, asked.contribution.bound) == (1, BOTH, 1.0)
    assert asked.contribution.sensitivity("replace-one").l2 == pytest.approx(1.0)


def test_pure_noise_asks_for_each_sum_apart():
    pure = Budget(epsilon=1.0, delta=0.0, unit="task", neighbours="replace-one")
    asked = Subspace(rounds=1).requests(PUBLIC, pure)
    assert [(r.round, r.name, r.contribution.bound) for r in asked] == [(1, MEAN, 1.0), (1, MOMENT, 1.0)]
    mean, moment = (r.contribution.sensitivity("replace-one").l2 for r in asked)
    assert (mean, moment) == (2.0, pytest.approx(math.sqrt(2)))


def variances(neighbours: str) -> dict[str, float]:
    """Of the noise on the sum of directions and on the second moment, together and in two releases."""
    budget = Budget(epsilon=1.0, delta=1e-5, unit="task", neighbours=neighbours)
    (both,) = make_plan(Subspace(rounds=1, mean_share=0.25).requests(PUBLIC, budget), budget).releases
    apart = [Request(MEAN, 1, contribution(1, 6), weight=0.5), Request(MOMENT, 1, OuterSum(6, 1.0), weight=math.sqrt(0.75))]
    mean, moment = make_plan(apart, budget).releases
    what, s = both.contribution, both.mechanism.scale
    return {
        "mean": (s / what.mean_weight) ** 2 / (mean.mechanism.scale / DIRECTION_PART) ** 2,
        "length": (s / what.extra_weight) ** 2 / (mean.mechanism.scale / LENGTH_PART) ** 2,
        "moment": (s / what.moment_weight) ** 2 / moment.mechanism.scale**2,
    }


def test_one_release_lowers_the_noise_of_the_mean_by_two_fifths_and_raises_no_other():
    """The closed form of docs/theory/spending.md#joint-release; add-remove has nothing to gain."""
    assert variances("replace-one") == pytest.approx({"mean": 0.575, "length": 0.575, "moment": 1.0}, abs=5e-4)
    assert variances("add-remove") == pytest.approx({"mean": 1.0, "length": 1.0, "moment": 1.0}, rel=1e-6)


@pytest.mark.parametrize("delta", [1e-5, 0.0])
@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
def test_the_shares_of_the_budget_do_not_depend_on_the_number_of_rounds(rounds, delta):
    asked = Subspace(rounds=rounds, mean_share=0.25).requests(PUBLIC, Budget(1.0, delta))
    assert sum(r.weight**2 for r in asked) == pytest.approx(1.0)
    moment = {BOTH: 2 * asked[-1].contribution.moment_weight ** 2 if delta else 0.0, MOMENT: 1.0, MEAN: 0.0}
    assert sum(r.weight**2 * moment[r.name] for r in asked) == pytest.approx(0.75)


def test_rounds_follow_from_public_sizes_and_epsilon():
    few = PublicInfo(n_tasks=50, n_features=30, n_outputs=1, kind="regression")
    many = PublicInfo(n_tasks=20_000, n_features=30, n_outputs=1, kind="regression")
    rounds = [max(r.round for r in Subspace().requests(p, BUDGET)) for p in (few, many)]
    assert rounds == [1, 3]
    assert max(r.round for r in Subspace().requests(few, PLAIN)) == 3


@pytest.mark.parametrize("options", [{"rounds": 0}, {"rounds": 1.5}, {"rounds": True}, {"mean_share": 1.0}])
def test_options_that_make_no_sense_are_refused_before_any_release(options):
    with pytest.raises(OptionError):
        Subspace(**options).requests(PUBLIC, BUDGET)


# ------------------------------------------------------------------ messages


def hostile() -> TaskBlock:
    """Tiny, huge, constant, single-row and non-finite tasks."""
    rng = np.random.default_rng(0)
    sizes = [6, 6, 6, 1, 6, 6, 2]
    X, y = rng.standard_normal((sum(sizes), 6)), rng.standard_normal(sum(sizes))
    y[6:12] = 7.3  # equal targets
    y[12:18] *= 1e150
    X[19:25] *= 1e-150
    X[25, 0], y[26] = np.nan, np.inf
    return block_of(X, y, sizes)


@pytest.mark.parametrize("centre", [0.0, 0.7])
def test_messages_have_norm_at_most_one_whatever_the_rows_are(centre):
    raw = sent(hostile(), centre)
    for part in (raw[MEAN], raw[BOTH][:, :-1], raw[BOTH][:, -1:]):
        assert np.isfinite(part).all() and (np.linalg.norm(part, axis=1) <= 1 + 1e-9).all()


def careless(W: np.ndarray) -> np.ndarray:
    """The planted fault: no care for zero and non-finite models."""
    flat = W.reshape(len(W), -1)
    with np.errstate(all="ignore"):
        return (flat / np.linalg.norm(flat, axis=1, keepdims=True)).reshape(W.shape)


def sends_zero(messages: np.ndarray) -> bool:
    return bool((messages == 0.0).all())


def test_tasks_that_cannot_fit_send_the_zero_message():
    """One row, equal targets, values that are not finite. The check rejects a careless normalisation."""
    unfit = [1, 3, 5]
    raw = sent(hostile())
    assert sends_zero(raw[MEAN][unfit]) and sends_zero(raw[BOTH][unfit])
    models = np.array([[[0.0, 0.0]], [[np.nan, 1.0]], [[np.inf, 1.0]]])
    assert sends_zero(unit_messages(models)) and sends_zero(messages(models))
    assert not sends_zero(careless(models))


def test_one_class_tasks_send_the_zero_message():
    X = np.random.default_rng(0).standard_normal((10, 6))
    y = np.ones(10)
    y[7] = -1.0
    public = PublicInfo(n_tasks=2, n_features=6, n_outputs=1, kind="classification")
    side, board = task_side(TaskBlock(X, y, np.array([0, 5, 10]), kind="classification"), public)
    raw = {}
    for t in (0, 1):
        raw.update(side.step({}, type(board)(t, board.values).view(None))[1])
    for name in (MEAN, BOTH):
        assert sends_zero(raw[name][0]) and not sends_zero(raw[name][1])


def centred_over_tasks(block: TaskBlock) -> np.ndarray:
    """The planted fault: a message that looks at the other tasks."""
    raw = sent(block)[MEAN]
    return raw - raw.mean(axis=0)


def test_a_message_never_depends_on_the_other_tasks():
    """Other rows in task 1 leave the message of task 0 as it was. The check rejects centring over tasks."""
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((16, 6)), rng.standard_normal(16)
    one = block_of(X, y, [8, 8])
    y_other, X_other = y.copy(), X.copy()
    y_other[8:], X_other[8:] = 5 * rng.standard_normal(8), rng.standard_normal((8, 6))
    two = block_of(X_other, y_other, [8, 8])
    for name in (MEAN, BOTH):
        np.testing.assert_array_equal(sent(one, 0.3)[name][0], sent(two, 0.3)[name][0])
        assert not np.allclose(sent(one)[name][1], sent(two)[name][1])
    assert not np.allclose(centred_over_tasks(one)[0], centred_over_tasks(two)[0])


# -------------------------------------------------------------------- server


def noise_matrix(rng: np.random.Generator, d: int, s: float) -> np.ndarray:
    upper = np.triu(rng.standard_normal((d, d)) * s / math.sqrt(2), 1)
    return upper + upper.T + np.diag(s * rng.standard_normal(d))


def isotropic(rng: np.random.Generator, m: int, d: int) -> np.ndarray:
    return unit_messages(rng.standard_normal((m, 1, d)))[:, 0]


@pytest.mark.statistical
def test_unrelated_directions_and_noise_are_doubted_and_change_little():
    """The mean passes by chance in 1 of 100: more than 20 of 400 have probability 1e-7 (binomial). Odds are above one, from
    e^-2 beforehand, with probability at most e^-2 (Markov): more than 100 of 400 have probability 1e-9. A third of the tasks
    along one direction is found every time."""
    rng = np.random.default_rng(0)
    found = np.zeros(3, dtype=int)
    m, d, s = 150, 12, 3.0
    for _ in range(400):
        u = isotropic(rng, m, d)
        found[0] += denoised_mean(u.sum(0) + s * rng.standard_normal(d), s, m)[0].any()
        share, _, doubt = common_directions(u.T @ u + noise_matrix(rng, d, s), s, m)
        found[1] += share.any() and doubt >= 0.0
        assert share.sum() < 0.5
        u[: m // 3] = np.eye(d)[0]
        share, _, doubt = common_directions(u.T @ u + noise_matrix(rng, d, s), s, m)
        found[2] += share.any() and doubt >= 0.0
    assert found[0] <= 20 and found[1] <= 100
    assert found[2] == 400


def test_without_noise_common_directions_are_those_of_the_tasks():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((10, 3)))[0]
    u = unit_messages(rng.standard_normal((400, 1, 3)) @ basis.T)[:, 0]
    share, vectors, doubt = common_directions(u.T @ u, 0.0, 400)
    kept = vectors[:, share > 0.01]
    assert kept.shape[1] == 3 and share.sum() <= 1.0 and doubt == 0.0
    np.testing.assert_allclose(kept @ kept.T, basis @ basis.T, atol=1e-8)


def test_the_mean_comes_back_from_its_direction_and_length():
    w = np.array([[3.0, -4.0, 0.0]])
    total = messages(np.repeat(w[None], 500, axis=0)).sum(axis=0)
    np.testing.assert_allclose(estimate(total, 0.0, 500, (1, 3))[0], w, rtol=0.01)


def test_noise_on_the_log_length_makes_the_mean_neither_long_nor_short():
    """At one and a half times the usual spread the posterior mean of a Gaussian is off by less than half of what noise is."""
    noise, draws = 1.5 * USUAL, np.random.default_rng(0).standard_normal(400)
    total, deviation = np.array([1e4, 0.0, 0.0]), noise * 100 * LENGTH_PART / DECADES
    noisy = total + np.outer(draws, [0.0, 0.0, deviation])
    lengths = np.array([np.linalg.norm(estimate(t, deviation, 100, (1, 2))[0]) for t in noisy])
    off = np.log10(lengths / np.linalg.norm(estimate(total, deviation, 100, (1, 2))[0]))
    np.testing.assert_allclose(off, np.clip(noise * draws, -DECADES, DECADES) / (1 + 1.5**2), atol=1e-9)
    assert np.sqrt(np.mean(off**2)) < noise / 2


def test_an_empty_billboard_means_learning_alone():
    options = priors(np.zeros((1, 4)), np.zeros(4), np.eye(4))
    assert len(options) == 1 and options[0].directions is None and options[0].centre is None
    est = TaskRegressor("subspace", epsilon=0.01, insecure_noise_seed=0).fit(related_tasks())
    alone = TaskRegressor("local").fit(related_tasks())
    np.testing.assert_allclose(est.coef_, alone.coef_)
    assert not est.models_.kept.any()


# ------------------------------------------------------------------- utility


def nmse(method: str, data, epsilon: float | None, seed: int = 0, delta: float = 1e-3) -> float:
    est = TaskRegressor(method, epsilon=epsilon, delta=delta, insecure_noise_seed=seed).fit(data.train)
    return float(np.mean((est.predict(data.test) - data.test.y) ** 2) / np.var(data.test.y))


@pytest.mark.parametrize("seed", [0, 1])
def test_low_rank_tasks_gain_most_of_what_there_is_to_gain(seed):
    """The sizes of MP-MTL section 5.4. Six draws: 81 % (77 to 84) at epsilon 1, 95 % (94 to 96) at 3."""
    data = get_synthetic("low-rank", seed, n_test=60)
    options = {"seed": seed, "delta": 0.00054}
    alone, plain = nmse("local", data, None), nmse("subspace", data, None)
    share = {e: (alone - nmse("subspace", data, e, **options)) / (alone - plain) for e in (1.0, 3.0)}
    assert share[1.0] >= 0.75 and share[3.0] >= 0.88
    assert nmse("subspace", data, 0.05, **options) <= 1.02 * alone


@pytest.mark.parametrize("relation", ["related", "unrelated", "noise"])
def test_tiny_tasks_lose_nothing_by_joining(relation):
    """180 tasks of 6 rows and 14 features, epsilon 1; at epsilon 10 related ones gain."""
    ratios = []
    for seed in (0, 1, 2):
        data = get_synthetic("tiny", seed, relation=relation)
        alone = nmse("local", data, None)
        ratios.append([nmse("subspace", data, e, seed) / alone for e in (1.0, 10.0)])
    at_one, at_ten = np.mean(ratios, axis=0)
    assert at_one <= 1.02
    assert at_ten < 0.8 if relation == "related" else at_ten <= 1.02


@pytest.mark.parametrize("classes", [2, 3])
def test_classification_gains_too(classes):
    tasks = related_tasks(n_tasks=150, rows=(30, 30), n_features=8, rank=1, kind="classification", classes=classes)
    first = np.tile(np.arange(30) < 10, 150)
    train, test = tasks.select(first), tasks.select(~first)
    options = {"delta": 1e-3, "insecure_noise_seed": 0}
    alone = TaskClassifier("local", epsilon=None).fit(train).score(test)
    shared = TaskClassifier("subspace", epsilon=3.0, **options).fit(train).score(test)
    assert shared > alone + 0.02


@pytest.mark.parametrize("mechanism", ["l2-laplace", "two-sided-wishart"])
def test_pure_privacy_is_refused_or_works(mechanism):
    """A mechanism that fits only one of the two releases is refused; delta = 0 picks one for each."""
    with pytest.raises(OptionError):
        TaskRegressor("subspace", epsilon=1.0, mechanism=mechanism).fit(related_tasks())
    est = TaskRegressor("subspace", epsilon=50.0, delta=0.0, insecure_noise_seed=0).fit(related_tasks())
    assert np.isfinite(est.coef_).all()


def test_the_same_method_is_registered_under_its_name():
    assert isinstance(methods.get("subspace", rounds=2), Subspace)
