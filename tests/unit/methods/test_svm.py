"""The federated SVM: exact with everybody, robust to late participants, refused where it cannot work."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.svm_reference import objective, optimum, random_problem
from tests.support.svm_runs import excess, public_of, related_block, run

import taskveil as tv
from taskveil.errors import CheckFailed, DataError, OptionError
from taskveil.methods.svm.method import Svm
from taskveil.privacy.plan import Budget, make_plan


@pytest.mark.parametrize("classification", [True, False])
@pytest.mark.parametrize("C2", [0.01, 0.5, 1.0, 10.0, 1e6])
def test_the_public_estimator_reaches_the_optimum_of_the_stacked_svm(classification, C2):
    problem = random_problem(1, classification)
    kind = tv.TaskClassifier if classification else tv.TaskRegressor
    method = Svm(C1=0.05, C2=C2, fit_intercept=False, tol=1e-7)
    est = kind(method=method, epsilon=None, scaling="none").fit(problem.X, problem.y, task=problem.task)
    w = est.record_.billboards[-1].values["shared"][0]
    reached = objective(problem, w, est.coef_ - w, 0.05, C2)
    assert reached == pytest.approx(optimum(problem, 0.05, C2), rel=1e-6)
    assert est.certificate_.statements == ()


def test_federated_rounds_and_one_process_find_the_same_models():
    block = related_block()
    federated = run(Svm(tol=1e-9), block).models
    public = public_of(block)
    method = Svm(mode="sequential", tol=1e-9)
    plan = make_plan(method.requests(public, Budget(None, 1e-5)), Budget(None, 1e-5))
    side = method.task_side(block, public, plan)
    np.testing.assert_allclose(federated.coef, side.finish(side.start(), None).coef, atol=2e-4)


def test_few_rounds_suffice_when_everybody_answers():
    record = run(Svm(C2=5.0, tol=1e-3), related_block(n_tasks=20))
    assert record.rounds <= 60
    assert record.billboards[-1].done


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_with_late_participants_it_still_converges(share):
    block, method = related_block(n_tasks=12), Svm(rounds=150)
    record = run(method, block, share)
    assert 0.5 * share < record.response_share < 1.5 * share
    assert excess(method, block, record) < 1e-3


def test_without_rolling_back_a_late_participant_the_duals_and_w_part():
    """The twin of the test above: a participant that keeps a dropped step leaves w = sum r_k behind."""
    from taskveil.methods.svm import tasks

    block, method = related_block(n_tasks=12), Svm(rounds=150, coordinator="safe")
    kept = tasks.settle
    try:
        tasks.settle = lambda state, accepted: tasks.acknowledge(state)
        broken = run(method, block, 0.25)
    finally:
        tasks.settle = kept
    assert not excess(method, block, broken) < 1e-3


def test_the_safe_coordinator_alone_reaches_the_optimum():
    block, method = related_block(), Svm(coordinator="safe", rounds=300, tol=1e-5)
    assert excess(method, block, run(method, block)) < 1e-4


def test_adding_up_the_steps_unscaled_diverges():
    """Why s is there: with s forced to 1/K the dual falls round after round, and rounds are refused."""
    block = related_block(n_tasks=20, rows=10)
    public = public_of(block)
    method = Svm(coordinator="safe", rounds=3)
    plan = make_plan(method.requests(public, Budget(None, 1e-5)), Budget(None, 1e-5))
    server, side = method.server_side(public, plan), method.task_side(block, public, plan)
    state, billboard = server.start()
    state["scaling"][0] = 1e-3
    billboard = server._billboard(state, None)
    _, message = side.step(side.start(), billboard.view(None))
    totals = {name: value.sum(axis=0) for name, value in message.items()}
    state, billboard = server.step(state, totals, np.ones(20, dtype=bool))
    assert billboard.accepted is not None and not billboard.accepted.any()
    assert not state["total"].any()


def test_multi_class_problems_are_solved_one_class_against_the_rest():
    rng = np.random.default_rng(0)
    X, y, task = rng.standard_normal((90, 4)), rng.integers(0, 3, 90), np.repeat(np.arange(3), 30)
    X[np.arange(90), y] += 2.0
    est = tv.TaskClassifier("svm", epsilon=None).fit(X, y, task=task)
    assert est.coef_.shape == (3, 3, 4)
    assert est.score(X, y, task=task) > 0.7


def test_a_task_nobody_has_seen_learns_from_the_last_billboard_alone():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((200, 5)), np.repeat(np.arange(10), 20)
    y = X @ np.ones(5)
    est = tv.TaskRegressor("svm", epsilon=None, scaling="none").fit(X, y, task=task)
    new = rng.standard_normal((4, 5))
    assert np.abs(est.adapt(new, new @ np.ones(5)).coef_ - 1.0).max() < 0.2


def test_a_private_run_sends_clipped_personal_parts_only_and_certifies_them():
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((400, 3)), np.repeat(np.arange(40), 10)
    y = np.where(X[:, 0] + 0.2 * rng.standard_normal(400) > 0, 1, 0)
    est = tv.TaskClassifier(Svm(rounds=2), epsilon=3.0).fit(X, y, task=task)
    assert {p.name for p in est.record_.executed} == {"personal"}
    assert est.certificate_.holds and est.certificate_.statements[0].epsilon <= 3.0 * (1 + 1e-9)
    assert str(est.certificate_.statements[0].unit) == "task"


def test_without_noise_and_clipping_the_private_server_finds_the_joint_optimum():
    """The Moreau step is gradient descent on F: at epsilon 1e9 and a wide clip it ends where `svm` does."""
    block = related_block(n_tasks=6)
    method = Svm(rounds=120, C2=0.5, clip=50.0)
    record = run(method, block, budget=Budget(epsilon=1e9, delta=1e-5))
    assert excess(method, block, record) < 1e-3


def test_noise_on_dw_would_leave_the_dual_but_the_personal_part_stays_exact():
    """Whatever noisy w a task is sent, its own v_k is the exact minimiser for it."""
    block, method = related_block(n_tasks=6), Svm(rounds=1)
    record = run(method, block, budget=Budget(epsilon=0.5, delta=1e-5))
    w = record.billboards[-1].values["shared"][0]
    problem = method.task_side(block, public_of(block), record_plan(method, block)).problems[0]
    points = np.concatenate([record.models.coef[:, 0], record.models.intercept], axis=1)
    at = problem.primal(w, points - w)
    rng = np.random.default_rng(0)
    for _ in range(50):
        assert problem.primal(w, points - w + 1e-2 * rng.standard_normal(points.shape)) >= at * (1 - 1e-6)


def record_plan(method, block):
    return make_plan(method.requests(public_of(block), Budget(None, 1e-5)), Budget(None, 1e-5))


# ------------------------------------------------------------------ paper


def test_the_paper_variant_reports_divergence_instead_of_returning_it():
    """docs/theory/svm.md#wrong: simultaneous steps added up (line 15) and eq. 27 diverge; the sound variant does not."""
    block = related_block(n_tasks=20, classification=False)
    problem = {"X": block.X, "y": block.y[:, 0], "task": block.task_of_row}
    est = tv.TaskRegressor(Svm(C2=0.5), epsilon=None, variant="paper", scaling="none")
    with pytest.raises(CheckFailed, match="diverged"):
        est.fit(**problem)
    assert np.isfinite(est.set_params(variant="sound").fit(**problem).coef_).all()


def test_the_paper_regression_divides_by_zero_at_equal_weights_and_is_refused():
    block = related_block(classification=False)
    with pytest.raises(OptionError, match=r"eq\. 27"):
        tv.TaskRegressor(Svm(C2=1.0), epsilon=None, variant="paper").fit(block.X, block.y[:, 0], task=block.task_of_row)


def test_the_paper_variant_has_no_noise_and_so_no_epsilon():
    block = related_block()
    with pytest.raises(OptionError, match="masks but no noise"):
        tv.TaskClassifier(Svm(), epsilon=1.0, variant="paper").fit(block.X, block.y[:, 0], task=block.task_of_row)


# -------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "options",
    [{"C1": 0.0}, {"C1": -1.0}, {"C2": 0.0}, {"C2": -2.0}, {"scope": "global"}, {"mode": "fast"}, {"rounds": 0},
     {"rounds": 2.5}, {"tol": -1.0}, {"insensitivity": -0.1}, {"coordinator": "fast"}, {"mask_mode": "other"},
     {"mask": ("bernoulli", 0.0)}, {"mask": ("gamma", 1.0)}, {"mask": ("beta", 0.0, 1.0)}],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options):
    block = related_block(classification="insensitivity" not in options)
    kind = tv.TaskRegressor if "insensitivity" in options else tv.TaskClassifier
    with pytest.raises(OptionError):
        kind(Svm(**options), epsilon=None).fit(block.X, block.y[:, 0], task=block.task_of_row)


def test_labels_of_the_wrong_kind_are_refused():
    block = related_block(classification=False)
    with pytest.raises(DataError):
        tv.TaskClassifier(Svm(), epsilon=None).fit(block.X, block.y[:, 0], task=block.task_of_row)


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_one_class_participants_zero_vectors_and_single_rows_are_normal(epsilon):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((61, 3)), np.append(np.repeat(np.arange(6), 10), 6)
    y = np.where(X[:, 0] > 0, 1, 0)
    y[task == 2] = 1
    X[task == 3] = 0.0
    est = tv.TaskClassifier("svm", epsilon=epsilon).fit(X, y, task=task)
    assert np.isfinite(est.coef_).all()
    assert np.isfinite(est.decision_function(X, task=task)).all()


@pytest.mark.parametrize("scope", ["local", "pooled"])
def test_the_baselines_run_through_the_same_solver(scope):
    block = related_block()
    est = tv.TaskClassifier(Svm(scope=scope), epsilon=None, scaling="none").fit(block.X, block.y[:, 0], task=block.task_of_row)
    same = np.allclose(est.coef_, est.coef_[0])
    assert same == (scope == "pooled")


def test_pooling_rows_is_refused_in_a_private_run():
    block = related_block()
    for options in ({"scope": "pooled"}, {"mode": "sequential"}, {"mask": ("bernoulli", 0.5)}):
        with pytest.raises(OptionError):
            tv.TaskClassifier(Svm(**options), epsilon=1.0).fit(block.X, block.y[:, 0], task=block.task_of_row)


def test_class_weights_are_checked_and_used():
    block = related_block()
    with pytest.raises(OptionError, match="class_weight"):
        tv.TaskClassifier(Svm(class_weight="even"), epsilon=None).fit(block.X, block.y[:, 0], task=block.task_of_row)
    fits = [
        tv.TaskClassifier(Svm(C1=0.5, class_weight=c), epsilon=None).fit(block.X, block.y[:, 0], task=block.task_of_row)
        for c in (None, {-1: 1.0, 1: 1.0}, {-1: 1.0, 1: 10.0})
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert np.mean(fits[2].predict(block.X, task=block.task_of_row) > 0) > np.mean(
        fits[0].predict(block.X, task=block.task_of_row) > 0
    )
