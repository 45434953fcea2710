"""`subspace` with spending="adaptive": a probe, then the rest where something shows; never more than the total."""

from __future__ import annotations

import math
import warnings
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import taskveil as tv
from taskveil.errors import BudgetExceeded, OptionError
from taskveil.estimators.storage import load
from taskveil.methods import probing
from taskveil.methods.probing import PROBE, Probing, ProbingServer
from taskveil.methods.subspace import BOTH
from taskveil.privacy.guarantees import gaussian_epsilon
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.planned import spent_share

DELTA = 1e-5


def tasks(related: bool, m=200, n=10, d=8, seed=0):
    """Models that are one model and a little more, or have nothing in common."""
    rng = np.random.default_rng(seed)
    W = np.ones(d) + 0.2 * rng.standard_normal((m, d)) if related else rng.standard_normal((m, d))
    X, task = rng.standard_normal((m * n, d)), np.repeat([f"t{i:03d}" for i in range(m)], n)
    return X, (X * np.repeat(W, n, axis=0)).sum(axis=1) + 0.3 * rng.standard_normal(m * n), task


def fitted(related=True, epsilon=3.0, spending="adaptive", ends=False, **options):
    """`ends`: whatever the probe shows, the run ends after it, and says so."""
    X, y, task = tasks(related)
    method = tv.methods.get("subspace", spending=spending, **({"rounds": 1} if spending == "fixed" else {}))
    est = tv.TaskRegressor(method, epsilon=epsilon, delta=DELTA, **options)
    if not ends:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return est.fit(X, y, task=task)
    with policy(lambda self, state, possible: [p for p in possible if p.round == 1]), pytest.warns(UserWarning, match="budget"):
        return est.fit(X, y, task=task)


def made(est):
    return [p.id for p in est.record_.executed]


@contextmanager
def policy(chooses):
    before, ProbingServer.chosen = ProbingServer.chosen, chooses
    try:
        yield
    finally:
        ProbingServer.chosen = before


def test_it_stops_where_nothing_is_in_common_and_goes_on_where_something_is():
    """Over six draws of noise each; chosen without looking at these."""
    stopped = [made(fitted(False, epsilon=3.0, insecure_noise_seed=seed)) == [f"1/{BOTH}"] for seed in range(50, 56)]
    assert sum(stopped) >= 4
    assert all(len(made(fitted(True, epsilon=1.0, insecure_noise_seed=seed))) == 2 for seed in range(50, 56))


def test_a_run_that_ends_after_the_probe_still_states_the_total():
    est = fitted(related=False, ends=True)
    assert made(est) == [f"1/{BOTH}"]
    assert spent_share(est.record_.plan, est.record_.executed) == pytest.approx(PROBE, rel=1e-6)
    assert any("nothing in common showed: 70 % of the budget was not used" in text for text in est.warnings_)
    statement = est.certificate_.statements[0]
    assert statement.epsilon == 3.0 and statement.holds and est.certificate_.verify()
    assert sum(e["count"] for e in est.certificate_.events) == 1
    assert "30 %" in str(est.certificate_)


def test_where_something_shows_all_of_the_budget_is_spent():
    est = fitted()
    assert made(est) == [f"1/{BOTH}", f"2/{BOTH}"]
    assert not any("budget" in text for text in est.warnings_)
    assert spent_share(est.record_.plan, est.record_.executed) == pytest.approx(1.0, rel=1e-6)


def test_sums_of_both_rounds_are_averaged_to_the_precision_of_one_release():
    fixed, adaptive = (
        fitted(epsilon=3.0, spending=spending, insecure_noise_seed=1).record_ for spending in ("fixed", "adaptive")
    )
    (whole,), parts = fixed.plan.releases, adaptive.plan.releases
    scale = [p.mechanism.coordinate_deviation(p.contribution) for p in (*parts, whole)]
    assert scale[0] ** -2 + scale[1] ** -2 == pytest.approx(scale[2] ** -2, rel=1e-4)
    totals = np.random.default_rng(0).standard_normal((2, *whole.contribution.total_shape)) * 50
    weights = np.square([scale[2] / scale[0], scale[2] / scale[1]])
    one, two = (Probing(spending="adaptive").under("task"), tv.methods.get("subspace"))
    server = one.server_side(adaptive.public, adaptive.plan)
    state, _ = server.start()
    for total in totals:
        state, board = server.step(state, {BOTH: total}, np.ones(200, bool))
    server = two.server_side(fixed.public, fixed.plan)
    _, expected = server.step(server.start()[0], {BOTH: weights @ totals}, np.ones(200, bool))
    assert expected.values["share"].any() and np.any(expected.values["mean"])
    for name, value in expected.values.items():
        np.testing.assert_allclose(np.abs(board.values[name]), np.abs(value), rtol=1e-3, atol=1e-6, err_msg=name)


def test_both_rounds_send_the_same_message():
    """Sums of different messages could not be averaged; the billboard after the probe changes nothing."""
    seen = []

    def step(self, state, view, before=probing.SubspaceTasks.step):
        result = before(self, state, view)
        seen.append(result[1])
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(probing.SubspaceTasks, "step", step)
        fitted()
    np.testing.assert_array_equal(seen[0][BOTH], seen[1][BOTH])


# ------------------------------------------------- the total is kept, not trusted to the policy


def greedy(self, state, possible):
    """The planted fault: what follows the probe gets half the noise that was planned, four times the cost."""
    if possible[0].round == 1:
        return possible
    (planned,) = possible
    loud = replace(planned.mechanism, scale=planned.mechanism.scale / 2)
    return [replace(planned, mechanism=loud, event=loud.event(planned.contribution, "replace-one"))]


def test_a_policy_that_asks_for_more_than_the_total_is_refused_before_any_noise():
    with policy(greedy), pytest.raises(BudgetExceeded, match="not reserved"):
        fitted()


def test_a_ledger_refuses_it_by_what_it_costs_and_takes_back_the_rest(tmp_path):
    url, book = opened(tmp_path, "gaussian", 50.0)
    with policy(greedy), pytest.raises(BudgetExceeded, match="total"):
        fitted(ledger=url)
    assert book.spent(Key("h"))[0] < 2.0 and book.open_runs(Key("h")) == []


def test_without_that_filter_the_ledger_lets_it_pass_and_no_certificate_can_be_made(tmp_path, monkeypatch):
    url, book = opened(tmp_path, "gaussian", 50.0)
    monkeypatch.setattr("taskveil.privacy.events.GaussianTotal.without", lambda self, event: self)
    with policy(greedy), pytest.raises(OptionError, match="more than the total"):
        fitted(ledger=url)
    (row,) = book.accounts()
    assert sum(e.kind == "commit" for e in book.rows(row.id)) == 2


def opened(folder, rule, limit=3.0):
    url = f"sqlite:///{folder / 'l.db'}"
    book = Book(url)
    book.set_limit(Key("h"), limit, DELTA, rule="gaussian" if rule == "gaussian" else None)
    return url, book


@pytest.mark.parametrize(
    ("rule", "limit", "words", "left"),
    [
        ("gaussian", 3.0, "70 % of the budget was returned", PROBE),
        ("renyi", 3.5, "70 % of the budget was returned", PROBE),
        ("sum", 3.0, "70 % of the budget was not used, but stays charged", 1.0),
    ],
)
def test_the_ledger_takes_back_what_was_not_released_and_says_so(tmp_path, rule, limit, words, left):
    url, book = opened(tmp_path, rule, limit)
    est = fitted(related=False, ledger=url, ends=True)
    assert book.accounts()[0].rule == rule
    assert any(words in text for text in est.warnings_), est.warnings_
    mu = 1 / est.record_.plan.total.noise_multiplier
    assert book.spent(Key("h"))[0] == pytest.approx(
        gaussian_epsilon(DELTA, mu * math.sqrt(left)), rel=0.1 if rule == "renyi" else 1e-5
    )
    assert book.verify() == []


def test_three_runs_that_find_nothing_fit_where_one_fixed_run_does(tmp_path):
    url, book = opened(tmp_path, "gaussian", 3.0)
    fitted(related=False, ledger=url, ends=True)
    with pytest.raises(BudgetExceeded):
        fitted(related=False, ledger=url)  # a whole total is reserved first, of which 30 % is gone
    smaller = gaussian_epsilon(DELTA, math.sqrt(1 - PROBE) * 1 / fitted().record_.plan.total.noise_multiplier)
    fitted(related=False, epsilon=smaller * (1 - 1e-6), ledger=url, ends=True)
    assert book.spent(Key("h"))[0] < 3.0


# ---------------------------------------------------------- refusals, folders


@pytest.mark.parametrize("options", [{"delta": 0.0}, {"epsilon": {"*": 1.0, "t000": 0.5}}])
def test_what_cannot_follow_evidence_is_refused_in_one_line(options):
    X, y, task = tasks(related=True, m=30)
    method = tv.methods.get("subspace", spending="adaptive")
    with pytest.raises(OptionError, match="adaptive"):
        tv.TaskRegressor(method, **{"epsilon": 1.0, "delta": DELTA, **options}).fit(X, y, task=task)


def test_common_units_do_not_go_with_it():
    X, y, task = tasks(related=True, m=30)
    est = tv.TaskRegressor(tv.methods.get("subspace", spending="adaptive"), epsilon=1.0, delta=DELTA, scaling="private")
    with pytest.raises(OptionError, match="adaptive"):
        est.fit(X, y, task=task)


def test_several_rounds_follow_the_probe_where_they_are_asked_for():
    X, y, task = tasks(related=True)
    method = tv.methods.get("subspace", spending="adaptive", rounds=3)
    est = tv.TaskRegressor(method, epsilon=3.0, delta=DELTA).fit(X, y, task=task)
    assert made(est) == [f"{t}/{BOTH}" for t in (1, 2, 3)] and est.certificate_.verify()
    assert spent_share(est.record_.plan, est.record_.executed) == pytest.approx(1.0, rel=1e-6)


def test_a_federation_is_refused_before_rows_are_read():
    from taskveil.runtime.run import agreed_beforehand

    with pytest.raises(OptionError, match="spending='fixed'"):
        agreed_beforehand(fitted().record_.plan)


def test_without_noise_it_is_the_fixed_method():
    a, b = fitted(epsilon=None), tv.TaskRegressor("subspace", epsilon=None).fit(*tasks(True)[:2], task=tasks(True)[2])
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_a_saved_run_comes_back_with_its_total(tmp_path):
    est = fitted(related=False, ends=True)
    est.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.record_.plan == est.record_.plan and again.certificate_ == est.certificate_
    np.testing.assert_array_equal(again.coef_, est.coef_)


def test_models_are_never_worse_than_alone_where_it_stops():
    """Tasks weigh what the probe showed as they weigh everything: nothing, here."""
    alone = tv.TaskRegressor("local", epsilon=None).fit(*tasks(False)[:2], task=tasks(False)[2])
    np.testing.assert_allclose(fitted(related=False, ends=True).coef_, alone.coef_, atol=0.02)
