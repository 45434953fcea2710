"""Private tuning costs what the theory says, and naive tuning is refused by the ledger at the same limit."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest
from dp_accounting import rdp
from scipy.stats import chisquare
from sklearn.model_selection import GridSearchCV, KFold
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.errors import BudgetExceeded, OptionError
from taskveil.privacy.guarantees import negative_binomial_gamma
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.mechanisms.selection import Selection, truncated_negative_binomial
from taskveil.privacy.randomness import insecure_seeded_noise

GRID = {"method__rounds": [1, 2, 3], "method__local_steps": [1, 5], "method__penalty": [0.01, 0.1]}
DELTA = 1e-5


def estimator(**options) -> tv.TaskRegressor:
    return tv.TaskRegressor(tv.methods.get("low-rank"), **{"epsilon": 1.0, "delta": DELTA, **options})


def test_the_cost_of_twelve_configurations_is_what_dp_accounting_says():
    """Our SelectEvent against dp-accounting's repeat-and-select event on the same Gaussian run."""
    search = tv.TaskSearch(estimator(), GRID)
    planned = search.plan(search.estimator._budget(related_tasks()))
    assert len(search.configurations()) == 12
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    inner = dp_accounting.GaussianDpEvent(planned.selection.scale)
    accountant.compose(dp_accounting.dp_event.RepeatAndSelectDpEvent(inner, 12.0, 1.0))
    assert planned.plan.epsilon() <= 1.0
    assert accountant.get_epsilon(DELTA) == pytest.approx(planned.plan.epsilon(), rel=2e-2)


def test_the_ledger_is_charged_once_and_the_certificate_verifies(tmp_path):
    url = f"sqlite:///{tmp_path / 'l.db'}"
    Book(url).set_limit(Key("x"), 1.2, DELTA)
    search = tv.TaskSearch(estimator(ledger=url, account="x"), GRID, mean_runs=3).fit(related_tasks())
    assert search.certificate_.verify().ok, search.certificate_.verify().problems
    assert Book(url).spent(Key("x"))[0] <= 1.2
    assert len([e for e in Book(url).rows(1) if e.kind == "commit"]) == 1
    assert search.best_params_ in search.configurations()


def test_the_naive_search_is_refused_at_the_same_limit(tmp_path):
    """Twelve configurations, each trained at the same epsilon and compared in the open: every fit is charged."""
    url = f"sqlite:///{tmp_path / 'l.db'}"
    Book(url).set_limit(Key("x"), 1.2, DELTA)
    tasks = related_tasks()
    ids = np.repeat(np.asarray(tasks.task_names), tasks.sizes)
    naive = GridSearchCV(
        estimator(ledger=url, account="x", task_column=0), GRID, cv=KFold(2, shuffle=True, random_state=0), error_score="raise"
    )
    X = np.column_stack([np.unique(ids, return_inverse=True)[1], tasks.X])
    with pytest.raises(BudgetExceeded):
        naive.fit(X, np.asarray(tasks.y))
    spent, limit = Book(url).spent(Key("x"))
    assert 0 < spent <= limit


def test_a_search_refused_by_the_ledger_trains_nothing(tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path / 'l.db'}"
    Book(url).set_limit(Key("x"), 0.5, DELTA)
    search = tv.TaskSearch(estimator(ledger=url, account="x"), GRID)
    monkeypatch.setattr(search, "_one_run", lambda *a: pytest.fail("a run was started"))
    with pytest.raises(BudgetExceeded):
        search.fit(related_tasks())


@pytest.mark.statistical
@pytest.mark.parametrize("shape", [1.0, 0.0, 0.5])
def test_the_number_of_runs_has_the_stated_law(shape):
    """Chi-squared test at 1e-6 on 4,000 draws; the same test rejects a law with another mean."""
    mechanism, source = Selection(5.0, 4.0, shape), insecure_seeded_noise(1)
    draws = np.asarray([mechanism.draw_runs(source.at(k, "runs")) for k in range(4000)])

    def p_value(mean):
        gamma = negative_binomial_gamma(mean, shape)
        law = np.asarray([truncated_negative_binomial(k, gamma, shape) for k in range(1, 9)])
        observed = np.asarray([(draws == k).sum() for k in range(1, 9)] + [(draws > 8).sum()])
        return chisquare(observed, 4000 * np.append(law, 1 - law.sum())).pvalue

    assert p_value(4.0) > 1e-6
    assert p_value(5.5) < 1e-6


def test_runs_that_are_not_gaussian_are_refused():
    search = tv.TaskSearch(estimator(mechanism="two-sided-wishart"), GRID, mean_runs=2)
    with pytest.raises(OptionError, match="Gaussian"):
        search.fit(related_tasks())


def test_local_tuning_is_free_and_refuses_what_changes_a_release():
    tasks = related_tasks()
    search = tv.TaskSearch(estimator(), {"method__local_steps": [1, 5, 20]}, locally_tuned=True).fit(tasks)
    assert search.certificate_.statements[0].epsilon == 1.0
    assert set(search.best_estimator_.models_.extra["configuration"]) <= {0, 1, 2}
    with pytest.raises(OptionError, match="changes what is released"):
        tv.TaskSearch(estimator(), {"method__rounds": [1, 5]}, locally_tuned=True).fit(tasks)


def test_a_search_whose_delta_alone_covers_a_run_still_runs():
    est = tv.TaskRegressor("low-rank", epsilon=0.1, delta=0.0098, insecure_noise_seed=1)
    search = tv.TaskSearch(est, {"method__rounds": [1, 2]}, mean_runs=2)
    search.fit(related_tasks(n_tasks=30, rows=(6, 8), n_features=3))
    assert search.certificate_.statements[0].epsilon <= 0.1


def test_options_of_a_method_given_by_name_can_be_set():
    est = tv.TaskRegressor("low-rank").set_params(method__rounds=7)
    assert est.method.rounds == 7 and tv.TaskRegressor("low-rank").get_params()["method"] == "low-rank"


SMALL = {"method__rounds": [1, 2]}


@pytest.mark.parametrize("aggregation", ["curator", "local"])
def test_a_search_states_what_it_can_and_lists_what_a_plain_run_lists(aggregation):
    """The server sees every run and every score, also where single runs add their noise at the tasks."""
    tasks = related_tasks()
    search = tv.TaskSearch(estimator(aggregation=aggregation), SMALL, mean_runs=2).fit(tasks)
    plain = estimator().fit(tasks).certificate_
    certificate = search.certificate_
    assert [s.observer for s in certificate.statements] == ["other-tasks"]
    assert certificate.holds and certificate.verify().ok, certificate.verify().problems
    assert set(plain.not_protected) <= set(certificate.not_protected)
    assert set(plain.assumptions) <= set(certificate.assumptions)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"aggregation": "secure"}, "'curator'"), ({"aggregation": "local-model"}, "'curator'"),
        ({"unit": "record"}, "unit='task'"),
        ({"observer": "server", "aggregation": "local"}, "observer='other-tasks'"), ({"variant": "paper"}, "variant='sound'"),
    ],
)  # fmt: skip
def test_what_a_search_cannot_protect_is_refused_with_a_remedy_before_any_run(options, remedy, monkeypatch):
    search = tv.TaskSearch(estimator(**options), SMALL)
    monkeypatch.setattr(search, "_one_run", lambda *a: pytest.fail("a run was started"))
    with pytest.raises(OptionError, match=remedy):
        search.fit(related_tasks())


@pytest.mark.parametrize(
    "grid",
    [
        {"neighbours": ["add-remove"]}, {"unit": ["record"]}, {"aggregation": ["secure"]}, {"observer": ["server"]},
        {"variant": ["paper"]}, {"epsilon": [9.0]}, {"insecure_noise_seed": [3]}, {"scaling": ["private"]}, {"person": [[1]]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("locally", [False, True])
def test_a_grid_cannot_change_what_the_certificate_is_about(grid, locally):
    """A grid over `neighbours` halved the noise of every run under a certificate for replace-one, and it verified."""
    search = tv.TaskSearch(estimator(), {**grid, **SMALL}, locally_tuned=locally)
    with pytest.raises(OptionError, match=next(iter(grid))):
        search.fit(related_tasks())


def test_a_grid_over_units_and_intercepts_is_searched_and_certified():
    search = tv.TaskSearch(estimator(), {"scaling": ["own", "none"], "fit_intercept": [True, False]}).fit(related_tasks())
    run, planned = search.best_estimator_.record_.plan.budget, search.plan(estimator()._budget(related_tasks())).plan.budget
    assert (run.unit, run.neighbours, run.variant) == (planned.unit, planned.neighbours, planned.variant)
    assert search.certificate_.verify().ok


def test_a_search_over_one_configuration_is_one_run():
    search = tv.TaskSearch(estimator(), {"method__rounds": [2]}).fit(related_tasks())
    assert search.n_runs_ == 1 and search.certificate_.verify().ok


def test_a_task_of_one_or_two_rows_trains_on_all_of_them():
    search = tv.TaskSearch(estimator(insecure_noise_seed=1), SMALL, mean_runs=2).fit(related_tasks(rows=(1, 3)))
    assert np.isfinite(search.best_score_)


def test_the_winner_s_tasks_use_all_their_rows_with_their_weights():
    rng = np.random.default_rng(0)
    X, ids = rng.standard_normal((240, 2)), np.repeat(np.arange(12), 20)
    y = np.where(X[:, 0] + rng.standard_normal(240) > 0, "yes", "no")
    base = tv.TaskClassifier("mean", epsilon=20.0, class_weight={"yes": 1e3, "no": 1.0})
    search = tv.TaskSearch(base, {"method__rounds": [1]}).fit(X, y, task=ids)
    assert (search.predict(X, task=ids) == "yes").mean() > 0.9


def test_local_tuning_keeps_the_curves_of_a_survival_model():
    rng = np.random.default_rng(1)
    X, ids = rng.standard_normal((80, 2)), np.repeat(np.arange(4), 20)
    y = np.column_stack([np.ones(80), rng.exponential(size=80)])
    search = tv.TaskSearch(tv.TaskSurvival("mean", epsilon=20.0), {"method__rounds": [1]}, locally_tuned=True).fit(X, y, task=ids)
    curves = search.best_estimator_.predict_survival_function(X, task=ids, times=[0.0, 1e9])
    assert (curves[:, 0] == 1.0).all() and (curves[:, 1] < 0.5).all()
