"""A run with canaries, from the default method to the saved folder: canaries show faults, and are nobody's tasks afterwards."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
from tests.support import audit_faults as faults

import taskveil as tv
from taskveil.audits.both_worlds import log_ratios
from taskveil.audits.canary_tasks import CLOSE, PAIRS, ROWS, SIGNS, Canaries
from taskveil.audits.one_run import audit_one_run, fit_with_canaries
from taskveil.errors import DataError, OptionError
from taskveil.estimators.check_folder import check_folder
from taskveil.privacy.contributions import MomentSum, OuterSum, TaskStack, VectorSum
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.report import report_folder
from taskveil.report.audience import Audience
from taskveil.report.write import write_report
from taskveil.tasks.task import TaskSet

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def tasks(n=40, d=10) -> TaskSet:
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(n * 6, d)), np.repeat([f"site-{i:02d}" for i in range(n)], 6)
    return TaskSet.from_arrays(X, X @ rng.normal(size=d), names, kind="regression")


@contextmanager
def quarter_of_the_noise():
    with faults.noise_halved(), faults.noise_halved():
        yield


@pytest.mark.parametrize("fault, refuted", [(nullcontext, False), (quarter_of_the_noise, True)])
def test_the_default_method_is_audited_in_one_run(fault, refuted):
    """Second moments of 40 features hold 100 canaries apart; with too little noise they stand out."""
    with fault():
        found = audit_one_run(tv.TaskRegressor(epsilon=4.0, delta=1e-5), canaries=100, tasks=160, features=40, seed=3)
    assert found.refuted == refuted
    assert found.target == "together" and found.details["shape"] == SIGNS


def random_messages(what, n=9):
    rng = np.random.default_rng(5)
    return [3.0 * rng.normal(size=(n, *what.message_shape)) for _ in range(2)]


@pytest.mark.parametrize("what", [VectorSum((4,), 1.0), OuterSum(3, 1.0), MomentSum(3, 0.8, 0.1, 0.6), TaskStack(9, (1, 4), 1.0)])
def test_the_score_is_the_likelihood_ratio_of_flipping_one_canary(what):
    """Against totals with one message exchanged, around the middle of both worlds of all canaries: 4 real tasks, 5 canaries."""
    (planned,) = make_plan([Request("r", 1, what)], Budget(1.0, 1e-5)).releases
    here, there = random_messages(what)
    noisy = np.random.default_rng(7).normal(size=what.total_shape)
    noisy = (noisy + noisy.T) / 2 if what.symmetric else noisy
    found = log_ratios(planned, noisy, here, there, 4)

    def total(messages):
        return what.to_vector(what.total(what.clip(messages)))

    mixed = np.concatenate([here[:4], there[4:]])
    left = what.to_vector(noisy) - (total(here) + total(mixed)) / 2
    for i in range(5):
        flipped = here.copy()
        flipped[4 + i] = there[4 + i]
        move = total(here) - total(flipped)
        assert found.own[i] == pytest.approx(left @ move / planned.mechanism.scale**2, rel=1e-9, abs=1e-12)
        assert found.distances[i] == pytest.approx(move @ move / planned.mechanism.scale**2)


def test_the_two_worlds_of_a_sign_canary_are_orthogonal_and_the_null_world_says_nothing():
    one = Canaries(np.array([True] * 12), True, SIGNS)
    (u, _), (v, _) = one._worlds(20), one.flipped()._worlds(20)
    assert np.all((u * v).sum(axis=1) == 0)
    _, sign = Canaries(np.array([False] * 12), False, SIGNS)._worlds(20)
    assert not sign.any()


def test_canaries_on_nearly_equal_columns_are_as_long_as_the_closed_form_and_at_right_angles():
    """docs/theory/audits.md, length: ridge with penalty l on standardised columns; 10 canaries on 11 features, one left over."""
    n, penalty, r = ROWS[PAIRS], 2 / 3, CLOSE / (1 - CLOSE)
    joined = Canaries(np.ones(10, dtype=bool), True, PAIRS).join(tasks(3, 11))
    models = []
    for rows in np.split(np.arange(n * 10) + joined.offsets[3], 10):
        spread = joined.X[rows].std(axis=0)
        X, y = joined.X[rows] / np.where(spread > 0, spread, 1.0), joined.y[rows] / joined.y[rows].std()
        models.append(np.linalg.solve(X.T @ X + penalty * np.eye(11), X.T @ y))
    square = 2 * n * r**2 / (1 + r**2)
    expected = np.sqrt(square * n) / (square + penalty)
    assert np.allclose(np.array(models) @ np.array(models).T, expected**2 * np.eye(10), atol=1e-9) and expected > 3


@pytest.mark.parametrize("method", ["together", "mean", "relationship"])
def test_canaries_leave_no_model_no_figure_and_no_name_behind(method, tmp_path):
    est = fit_with_canaries(tv.TaskRegressor(method, epsilon=2.0, delta=1e-5), tasks(), 12)
    assert est.record_.public.n_tasks == 52 and est.record_.canaries == 12
    assert est.task_names_ == tasks().task_names and est.coef_.shape == (40, 10) and len(est.gain_) == 40
    with pytest.raises(DataError, match="unknown task"):
        est.set_params(unknown="error").predict(np.zeros((1, 10)), task=["audit-canary-00000"])
    est.set_params(unknown="billboard").save(tmp_path)
    write_report(est, tmp_path)
    report_folder(tmp_path, Audience("public"))
    loaded = tv.load(tmp_path)
    assert loaded.task_names_ == est.task_names_ and np.allclose(loaded.coef_, est.coef_)
    assert check_folder(tmp_path).problems == ()
    for file in tmp_path.iterdir():
        if file.suffix in (".html", ".json"):
            assert "audit-canary" not in file.read_text()
    assert "canary tasks among the tasks" in (tmp_path / "report-public.html").read_text()


def test_a_folder_that_lies_about_its_canaries_is_refused_in_one_line(tmp_path):
    est = fit_with_canaries(tv.TaskRegressor("mean", epsilon=2.0, delta=1e-5), tasks(), 12)
    est.save(tmp_path)
    about = json.loads((tmp_path / "model.json").read_text())
    for lie in (0, 11, 52, 10**9, -1, "12", None):
        (tmp_path / "model.json").write_text(json.dumps({**about, "canaries": lie}))
        with pytest.raises(DataError):
            tv.load(tmp_path)


def test_notes_are_about_real_tasks_only_and_strict_runs_are_possible():
    est = fit_with_canaries(tv.TaskRegressor("mean", epsilon=2.0, delta=1e-5, strict=True), tasks(), 12)
    assert est.warnings_ == [] and est.strict


def test_a_task_named_like_a_canary_is_refused_before_the_run():
    given = tasks()
    names = ("audit-canary-00003", *given.task_names[1:])
    with pytest.raises(OptionError, match="named like canary"):
        fit_with_canaries(tv.TaskRegressor("mean", epsilon=2.0), TaskSet(**{**given.__dict__, "task_names": names}), 12)


def test_what_canaries_showed_does_not_give_the_noise_of_the_run_away(tmp_path):
    """Scores are noise, found with everybody's rows. With a figure in full, one who knows all rows but one task's tries out data
    sets for it, and coins: only the true ones give that figure. The certificate travels, so it holds counts and one digit."""
    est = fit_with_canaries(tv.TaskRegressor("mean", epsilon=2.0, delta=1e-5), tasks(), 12)
    told = est.certificate_.audit["details"]
    for figure in (told["estimate"], told["as_recorded"]):
        assert figure is None or figure == float(f"{figure:.1g}")
    est.save(tmp_path / "run")
    checked = check_folder(tmp_path / "run")  # the sentence follows from the record of the run
    assert checked.problems == () and "no epsilon covers it" in checked.certificate.not_protected[0]
