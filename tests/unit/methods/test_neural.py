"""Methods on the neural engine: optimum and limits, cohorts and what they are charged as, options, images."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.support.small import related_tasks

import taskveil as tv
from taskveil import methods
from taskveil.errors import OptionError
from taskveil.estimators import TaskClassifier, TaskRegressor
from taskveil.methods.base import Disclosure, PublicInfo
from taskveil.methods.neural_sides import ADAPTATION, BIT_SHARE, RELEASE
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.events import Charge, GaussianEvent, SampledGaussianEvent
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import round as rounds

pytest.importorskip("jax")

from taskveil.methods.neural import NeuralMean
from taskveil.methods.papers import hu_2023

SLOW_STEPS = {"model": "linear", "batch_size": None, "learning_rate": 0.3, "clip": 1e4, "personalise": "none"}
PRIVATE = Budget(epsilon=2.0, delta=1e-3, neighbours="add-remove")


def centred_tasks(n_tasks=6, seed=2):
    """Regression tasks whose rows and targets have mean zero, so that penalised and free intercepts agree.

    All rows of every task in each step, in one compiled width.
    """
    tasks = related_tasks(n_tasks=n_tasks, rows=(17, 24), n_features=3, seed=seed)
    X, y, ids = tasks.X.copy(), np.array(tasks.y, float), np.repeat(np.arange(n_tasks), tasks.sizes)
    for k in range(n_tasks):
        X[ids == k] -= X[ids == k].mean(axis=0)
        y[ids == k] -= y[ids == k].mean()
    return X, y, ids


def params_of(method, epsilon=None, data=None, **options) -> np.ndarray:
    """(m, p): bias first, then weights."""
    X, y, ids = centred_tasks() if data is None else data
    est = TaskRegressor(method, epsilon=epsilon, scaling="none", seed=0, **options).fit(X, y, task=ids)
    return np.asarray(est.models_.extra["params"])


# ------------------------------------------------------------------- optimum


def test_without_noise_it_reaches_the_closed_form_optimum():
    """(H_k + lambda) w_k - lambda wbar = c_k, wbar the mean of the w_k."""
    X, y, ids = data = centred_tasks()
    strength, m, d = 0.5, 6, 3
    A, c = np.kron(np.full((m, m), -strength / m), np.eye(d)), np.zeros((m, d))
    for k in range(m):
        own, rows = slice(k * d, (k + 1) * d), X[ids == k]
        A[own, own] += rows.T @ rows / len(rows) + strength * np.eye(d)
        c[k] = rows.T @ y[ids == k] / len(rows)
    exact = np.linalg.solve(A, c.ravel()).reshape(m, d)
    found = params_of(NeuralMean(strength=strength, rounds=150, local_steps=10, **SLOW_STEPS), data=data)
    np.testing.assert_allclose(found[:, 1:], exact, atol=2e-4)
    np.testing.assert_allclose(found[:, 0], 0.0, atol=1e-4)


def test_strength_zero_is_every_task_alone():
    X, y, ids = data = centred_tasks()
    alone = np.stack([np.linalg.lstsq(X[ids == k], y[ids == k], rcond=None)[0] for k in range(6)])
    found = params_of(NeuralMean(strength=0.0, rounds=60, local_steps=20, **SLOW_STEPS), data=data)
    np.testing.assert_allclose(found[:, 1:], alone, atol=1e-3)


def test_a_large_strength_is_one_model_for_all_the_fixed_point_of_federated_averaging():
    """Both minimise the mean of the tasks' losses; one local step keeps federated averaging unbiased."""
    X, y, ids = data = centred_tasks()
    G = sum(X[ids == k].T @ X[ids == k] / (ids == k).sum() for k in range(6))
    c = sum(X[ids == k].T @ y[ids == k] / (ids == k).sum() for k in range(6))
    exact = np.linalg.solve(G, c)
    averaged = params_of(methods.get("fedavg", rounds=150, local_steps=1, **SLOW_STEPS), data=data)
    options = SLOW_STEPS | {"server_rate": 100.0}  # a strongly held task moves by 1/strength of a step
    held = params_of(NeuralMean(strength=100.0, rounds=150, local_steps=20, **options), data=data)
    np.testing.assert_allclose(averaged[:, 1:], np.tile(exact, (6, 1)), atol=1e-3)
    np.testing.assert_allclose(held[:, 1:], averaged[:, 1:], atol=0.05 * np.abs(exact).max())
    assert np.ptp(held, axis=0).max() < 0.05 * np.abs(exact).max()


def test_jax_and_numpy_agree():
    data = centred_tasks()
    X, y, ids = data
    numpy = TaskRegressor(methods.get("mean", strength=0.5), epsilon=None, scaling="none").fit(X, y, task=ids)
    jax = params_of(NeuralMean(strength=0.5, rounds=150, local_steps=10, **SLOW_STEPS), data=data)
    np.testing.assert_allclose(jax[:, 1:], numpy.coef_, atol=2e-4)


def test_a_name_with_a_model_trains_on_the_engine_and_linear_needs_no_jax():
    assert methods.get("mean", model="cnn").linear is False
    assert methods.get("mean", model="linear").linear is True


# ------------------------------------------------------------------- cohorts


def small_classifier(method, tasks=None, **options):
    tasks = related_tasks(n_tasks=30, kind="classification", classes=3) if tasks is None else tasks
    given = {"epsilon": 2.0, "delta": 1e-3, "seed": 0, "insecure_noise_seed": 0, **options}
    return TaskClassifier(method, **given).fit(tasks)


FAST = {"rounds": 3, "local_steps": 2, "batch_size": 4, "personalise": "none"}


def test_poisson_cohorts_are_drawn_and_charged_as_such():
    est = small_classifier(methods.get("fedavg", rate=0.3, **FAST), neighbours="add-remove")
    sizes = [cohort.size for cohort in est.record_.schedule]
    assert len(set(sizes)) > 1, "Poisson cohorts differ in size; choose another seed"
    assert all(isinstance(p.event, SampledGaussianEvent) and p.event.rate == 0.3 for p in est.record_.executed)


def test_an_empty_cohort_releases_noise_like_any_other():
    est = small_classifier(methods.get("fedavg", rate=0.001, shrink=False, **FAST))
    assert all(cohort.size == 0 for cohort in est.record_.schedule)
    assert len(est.record_.executed) == 3
    assert np.abs(est.record_.billboards[-1].values["mean"]).max() > 0


@pytest.mark.parametrize("name", ["fedavg", "mean", "pp-sgd"])
def test_sums_are_divided_by_the_expected_cohort(name):
    """The realised cohort never enters. The check rejects a server that divides by it."""
    public = PublicInfo(n_tasks=100, n_features=3, n_outputs=1, kind="regression", seed=0)
    method = methods.get(name, model="softmax", rate=0.2, rounds=1, server_rate=1.0, shrink=False)
    plan = make_plan(method.requests(public, PRIVATE), PRIVATE)
    server = method.server_side(public, plan)
    state, _ = server.start()
    total = np.full(method.total_shape(public), 5.0)

    def moved(accepted) -> np.ndarray:
        return np.abs(server.step(state, {RELEASE: total}, accepted)[1].values["mean"])

    few, many = np.arange(100) < 10, np.arange(100) < 40
    np.testing.assert_allclose(moved(few), 5.0 / 20.0, rtol=1e-6)
    np.testing.assert_array_equal(moved(few), moved(many))
    assert not np.array_equal(total / few.sum(), total / many.sum())


def test_fixed_size_cohorts_are_never_accounted_as_poisson():
    """The paper's sampler under an accounting that claims to hold is refused before anything is released.

    Twin: with the refutation in place, which puts `holds: false` on the certificate, the same plan runs.
    """
    public = PublicInfo(n_tasks=150, n_features=4, n_outputs=3, kind="classification", seed=0)
    paper = Budget(epsilon=2.0, delta=1e-3, neighbours="add-remove", variant="paper")

    class Hopeful(hu_2023.Mean):
        def disclosure(self, public, plan):
            return Disclosure()

    for kind, refused in ((Hopeful, True), (hu_2023.Mean, False)):
        method = kind(**FAST)
        plan = make_plan(method.requests(public, paper), paper)
        assert isinstance(plan.releases[0].event, SampledGaussianEvent)
        if refused:
            with pytest.raises(OptionError, match="cannot be accounted as Poisson"):
                rounds.fixed_cohort(method, public, plan)
        else:
            assert rounds.fixed_cohort(method, public, plan) == 100


def test_cohorts_of_a_fixed_size_have_it_and_poisson_ones_do_not():
    public = PublicInfo(n_tasks=150, n_features=4, n_outputs=3, kind="classification")
    releases = list(make_plan(NeuralMean(rate=0.5, **FAST).requests(public, PRIVATE), PRIVATE).releases[:1])
    source = insecure_seeded_noise(1)
    fixed = [rounds.draw_cohort(releases, 150, source, t, 100).sum() for t in range(20)]
    poisson = [rounds.draw_cohort(releases, 150, source, t).sum() for t in range(20)]
    assert set(fixed) == {100} and len(set(poisson)) > 5


def test_the_papers_variant_says_that_its_claim_fails_and_what_is_true():
    """True epsilon: one plain Gaussian release a round, because colluders know who was drawn."""
    tasks = related_tasks(n_tasks=120, rows=(2, 4), kind="classification", classes=3)
    est = small_classifier(NeuralMean(**FAST), tasks, variant="paper", neighbours="add-remove", insecure_noise_seed=None)
    assert [cohort.size for cohort in est.record_.schedule] == [100, 100, 100]
    (statement,) = est.certificate_.statements
    assert not statement.holds and "exactly 100 tasks" in statement.reason
    noise = est.record_.plan.releases[0].event.noise_multiplier
    true = best_epsilon([Charge(GaussianEvent(noise), 3)], 1e-3)[0]
    assert true > 2.0 and f"epsilon {true:.3g}" in statement.reason


def test_against_the_server_every_round_is_charged_in_full():
    """It sees who takes part: the same rate buys nothing. The other tasks' statement does profit from it."""
    public = PublicInfo(n_tasks=100, n_features=4, n_outputs=1, kind="regression")
    for aggregation, sampled in (("curator", True), ("local", False)):
        budget = Budget(epsilon=2.0, delta=1e-3, aggregation=aggregation)
        plan = make_plan(NeuralMean(model="softmax", rate=0.1, rounds=10).requests(public, budget), budget)
        assert all(isinstance(p.event, SampledGaussianEvent) is sampled for p in plan.releases)
        if not sampled:
            true = best_epsilon([Charge(p.event) for p in plan.releases], 1e-3)[0]
            assert true == pytest.approx(2.0, rel=1e-3) and len(plan.charges()) == 10


# ----------------------------------------------------------------- clipping


def test_adaptive_clipping_is_part_of_the_one_charged_release():
    public = PublicInfo(n_tasks=100, n_features=4, n_outputs=1, kind="regression")
    fixed, adaptive = (NeuralMean(model="softmax", rounds=5, clip=0.7, adaptive_clip=a) for a in (None, 0.5))
    one, two = (make_plan(m.requests(public, PRIVATE), PRIVATE) for m in (fixed, adaptive))
    assert two.releases[0].contribution.total_shape == (one.releases[0].contribution.total_shape[0] + 1,)
    assert two.releases[0].contribution.bound == pytest.approx(0.7 * math.hypot(1, BIT_SHARE / 2))
    assert two.releases[0].mechanism.scale > one.releases[0].mechanism.scale, "the bit is paid for with more noise"
    assert len(two.releases) == 5


@pytest.mark.parametrize("fitting, grows", [(0.0, True), (1.0, False)])
def test_the_clipping_norm_moves_toward_its_quantile(fitting, grows):
    public = PublicInfo(n_tasks=100, n_features=2, n_outputs=1, kind="regression", seed=0)
    method = NeuralMean(model="softmax", rounds=1, clip=1.0, adaptive_clip=0.5)
    plan = make_plan(method.requests(public, PRIVATE), PRIVATE)
    server = method.server_side(public, plan)
    state, _ = server.start()
    total = np.zeros(method.total_shape(public))
    total[-1] = 100 * (fitting - 0.5) * BIT_SHARE
    new = float(server.step(state, {RELEASE: total}, np.ones(100, bool))[1].values["clip"])
    assert new == pytest.approx(math.exp(-ADAPTATION * (fitting - 0.5))) and (new > 1) is grows


def test_an_adaptive_run_certifies_its_epsilon():
    est = small_classifier(methods.get("fedavg", adaptive_clip=0.5, **FAST), neighbours="add-remove", insecure_noise_seed=None)
    assert est.certificate_.holds and est.certificate_.statements[0].epsilon <= 2.0
    assert float(est.record_.billboards[-1].values["clip"]) != 1.0


# ------------------------------------------------------------------- groups


def test_one_group_is_mean_and_disjoint_groups_do_not_mix():
    tasks = related_tasks(n_tasks=8, kind="classification", classes=3)
    given = dict(FAST, strength=0.5)
    mean = small_classifier(NeuralMean(**given), tasks, epsilon=None, insecure_noise_seed=None)
    one = methods.get("clustered-mean", relationship=np.ones((8, 1)), **given)
    same = small_classifier(one, tasks, epsilon=None, insecure_noise_seed=None)
    np.testing.assert_allclose(same.models_.extra["params"], mean.models_.extra["params"], atol=1e-5)
    two = methods.get("clustered-mean", clusters=[0, 0, 0, 0, 1, 1, 1, 1], **given)
    split = small_classifier(two, tasks, epsilon=None, insecure_noise_seed=None)
    own = small_classifier(NeuralMean(**given), tasks.take_tasks(range(4)), epsilon=None, insecure_noise_seed=None)
    np.testing.assert_allclose(split.models_.extra["params"][:4], own.models_.extra["params"], atol=1e-5)


@pytest.mark.parametrize("options", [
    {}, {"clusters": [0, 1]}, {"relationship": -np.eye(8)}, {"relationship": np.ones((8, 2))},
    {"clusters": [0] * 8, "relationship": np.ones((8, 1))},
])  # fmt: skip
def test_a_relationship_must_be_public_complete_and_a_mixture(options):
    public = PublicInfo(n_tasks=8, n_features=4, n_outputs=3, kind="classification")
    with pytest.raises(OptionError):
        methods.get("clustered-mean", **options).check(public, PRIVATE)


def test_a_tasks_part_of_all_groups_together_fits_the_bound():
    """|A_k| <= 1 for a mixture, so one release of all groups costs what one mean does."""
    public = PublicInfo(n_tasks=8, n_features=4, n_outputs=3, kind="classification", seed=0)
    A = np.random.default_rng(0).dirichlet(np.ones(3), 8)
    method = methods.get("clustered-mean", relationship=A, clip=0.3, **FAST)
    (what,) = {r.contribution for r in method.requests(public, PRIVATE)}
    assert what.total_shape[0] == 3 and what.bound == 0.3
    assert (np.linalg.norm(A, axis=1) <= 1 + 1e-12).all()


# -------------------------------------------------------------------- images


def images(n_tasks=4, seed=0):
    """Two shapes, a bar that lies or stands; some writers hold one image, some many."""
    rng = np.random.default_rng(seed)
    sizes = np.array([1, 6, 12, 3])[:n_tasks]
    y = rng.integers(0, 2, sizes.sum())
    X = rng.random((sizes.sum(), 8, 8)) * 0.2
    for i, label in enumerate(y):
        at = int(rng.integers(2, 6))
        X[i, at, :] = X[i, at, :] + 1 if label == 0 else X[i, at, :]
        X[i, :, at] = X[i, :, at] + 1 if label == 1 else X[i, :, at]
    return X, y, np.repeat(np.arange(n_tasks), sizes)


def test_a_cnn_learns_from_flat_and_from_shaped_images_alike():
    X, y, ids = images()
    method = tv.methods.get(
        "mean", model={"name": "cnn", "channels": (2, 4), "hidden": 8}, rounds=10, clip=100.0, local_steps=5,
        learning_rate=0.3, strength=0.1, personalise="none",
    )  # fmt: skip
    fits = [TaskClassifier(method=method, epsilon=None, seed=0).fit(rows, y, task=ids) for rows in (X, X.reshape(len(X), -1))]
    np.testing.assert_array_equal(fits[0].predict_proba(X, task=ids), fits[1].predict_proba(X.reshape(len(X), -1), task=ids))
    assert fits[0].predict_proba(X, task=ids).shape == (len(X), 2)
    assert fits[0].score(X, y, task=ids) > 0.8


def test_a_users_own_pair_trains_privately_and_predicts(tmp_path):
    import jax

    def init(key):
        return {"w": jax.random.normal(key, (5, 3)) * 0.1, "b": jax.numpy.zeros(3)}

    def apply(params, rows):
        return jax.numpy.tanh(rows) @ params["w"] + params["b"]

    tasks = related_tasks(n_tasks=6, kind="classification", classes=3)
    est = small_classifier(NeuralMean(model=(init, apply), **FAST), tasks, insecure_noise_seed=None)
    assert est.certificate_.holds
    assert est.predict(tasks).shape == (tasks.n_rows,)


@pytest.mark.parametrize("options", [
    {"rounds": 0}, {"rate": 0.0}, {"rate": 2.0}, {"adaptive_clip": 1.5}, {"personalise": "magic"}, {"local_steps": 0},
    {"features": "pixels"}, {"model": "transformer"},
])  # fmt: skip
def test_options_that_make_no_sense_are_refused_before_any_release(options):
    public = PublicInfo(n_tasks=8, n_features=4, n_outputs=3, kind="classification")
    with pytest.raises(OptionError):
        method = NeuralMean(**options)
        method.check(public, PRIVATE)
        method.requests(public, PRIVATE)


def test_pp_sgd_is_for_linear_models():
    public = PublicInfo(n_tasks=8, n_features=4, n_outputs=3, kind="classification")
    with pytest.raises(OptionError, match="linear"):
        methods.get("pp-sgd", model="mlp").check(public, PRIVATE)


def test_pp_sgd_adds_a_private_and_a_shared_part():
    """Without noise: theta_k and w walk the same gradients, the mean of what leaves; both sums reach the targets."""
    X, y, ids = data = centred_tasks()
    found = params_of(methods.get("pp-sgd", model="linear", rounds=300, learning_rate=0.2, server_rate=0.2, clip=1e4), data=data)
    alone = np.stack([np.linalg.lstsq(X[ids == k], y[ids == k], rcond=None)[0] for k in range(6)])
    np.testing.assert_allclose(found[:, 1:], alone, atol=1e-2)


def pp_sgd_over_alone(personalise):
    """Log loss of pp-sgd at epsilon 1 over that of learning alone, on new rows of 40 tasks that share little."""
    rng = np.random.default_rng(0)
    W, task = rng.standard_normal((40, 4)), np.repeat(np.arange(40), 60)
    X = rng.standard_normal((len(task), 4))
    y = (np.einsum("nd,nd->n", X, W[task]) + rng.logistic(size=len(task)) > 0).astype(int)
    old = np.arange(len(task)) % 60 < 30

    def loss(method):
        est = TaskClassifier(method, epsilon=1.0, delta=1e-5, insecure_noise_seed=0).fit(X[old], y[old], task=task[old])
        chance = est.predict_proba(X[~old], task=task[~old])[:, 1]
        return -np.mean(np.log(np.where(y[~old] == 1, chance, 1.0 - chance)))

    return loss(methods.get("pp-sgd", personalise=personalise)) / loss("local")


def test_pp_sgd_is_not_worse_than_alone():
    assert pp_sgd_over_alone(None) <= 1.02


def test_its_unfinished_walk_would_be():
    """The twin: w + theta_i as the rounds left them."""
    assert pp_sgd_over_alone("none") > 1.05


def test_naive_client_noise_hides_every_personal_model_from_the_public():
    from experiments.hu_2023.naive_dp import NaiveDP

    tasks = related_tasks(n_tasks=8, kind="classification", classes=3)
    method = NaiveDP(rounds=1, local_steps=5, clip=1.0)
    est = small_classifier(method, tasks, observer="public", insecure_noise_seed=None, scaling="none")
    assert {s.observer for s in est.certificate_.statements} >= {"public"} and est.certificate_.holds
    noisy = est.models_.extra["params"]
    scale = est.record_.plan.releases[0].mechanism.scale
    assert np.std(noisy) == pytest.approx(scale, rel=0.35), "no averaging reduces the noise"


def test_a_saved_neural_model_predicts_the_same_and_shows_its_gain_before(tmp_path):
    tasks = related_tasks(n_tasks=6, rows=(9, 15), kind="classification", classes=3)
    options = {"rounds": 2, "local_steps": 2, "batch_size": 4, "tune_steps": 3, "options": ("alone", "mean")}
    est = small_classifier(NeuralMean(**options), tasks)
    assert est.gain_.error_alone.shape == (6,)
    est.save(tmp_path / "model")
    np.testing.assert_array_equal(tv.load(tmp_path / "model").predict_proba(tasks), est.predict_proba(tasks))


def test_a_block_of_clients_equals_its_clients_one_by_one():
    est = small_classifier(NeuralMean(strength=0.5, **FAST), related_tasks(n_tasks=6, kind="classification", classes=3))
    record, block = est.record_, est._training
    view = record.billboards[-1].view(None)
    together = est.method_.task_side(block, record.public, record.plan)
    whole, _ = together.step(together.start(), view)
    for k in (0, 4):
        side = est.method_.task_side(block.take([k]), record.public, record.plan)
        alone, _ = side.step(side.start(), view)
        np.testing.assert_allclose(np.asarray(alone["models"])[0], np.asarray(whole["models"])[k], atol=1e-5)
