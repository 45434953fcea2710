"""Cox models against scikit-survival, and the partial likelihood against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.util import Surv

import taskveil as tv
from taskveil import methods
from taskveil.losses.cox import expected_events
from taskveil.solvers.cox import partial_likelihood


def rows(seed=0, n=250, ties=True):
    """Rows, events and times; with many equal times where `ties`."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) * [1.0, 3.0, 0.2, 1.0] + [0.0, 5.0, 0.0, -1.0]
    time, end = rng.exponential(np.exp(-X @ [0.8, -0.2, 1.0, 0.0])), rng.exponential(2.0, n)
    seen, time = time <= end, np.minimum(time, end)
    return X, seen, np.ceil(5 * time) if ties else time


def slow(X, seen, time, w):
    """The definition: over events, the log of the risk set's sum less the score."""
    s = X @ w
    return sum(np.log(np.exp(s[time >= time[i]]).sum()) - s[i] for i in np.flatnonzero(seen))


@pytest.mark.parametrize("ties", [True, False])
def test_the_partial_likelihood_and_its_slope_are_those_of_the_definition(ties):
    X, seen, time = rows(n=60, ties=ties)
    w, y = np.array([0.3, -0.1, 0.5, 0.0]), np.where(seen, time, -time)
    value, gradient, curvature = partial_likelihood(X, y, np.ones(60), w)
    assert value == pytest.approx(slow(X, seen, time, w), rel=1e-12)
    np.testing.assert_allclose(gradient, approx_fprime(w, lambda v: slow(X, seen, time, v)), rtol=1e-4, atol=1e-4)
    slopes = [approx_fprime(w, lambda v, j=j: partial_likelihood(X, y, np.ones(60), v)[1][j]) for j in range(4)]
    np.testing.assert_allclose(curvature, slopes, rtol=1e-3, atol=1e-3)


def test_expected_events_add_up_to_those_that_happened_and_see_nothing_but_the_order_of_times():
    _, seen, time = rows()
    scores = np.random.default_rng(1).normal(size=time.size)
    expected = expected_events(scores, np.where(seen, time, -time), np.ones(time.size))
    assert expected.sum() == pytest.approx(seen.sum())
    stretched = np.exp(time) - 0.5
    again = expected_events(scores + 7.0, np.where(seen, stretched, -stretched), np.ones(time.size))
    np.testing.assert_allclose(expected, again, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 15.0])
@pytest.mark.parametrize("ties", [True, False])
def test_one_task_alone_agrees_with_scikit_survival_to_a_millionth(alpha, ties):
    """A penalty alpha there is a strength alpha / n here, on rows as they come."""
    X, seen, time = rows(ties=ties)
    theirs = CoxPHSurvivalAnalysis(alpha=alpha, ties="breslow", tol=1e-14, n_iter=500).fit(X, Surv.from_arrays(seen, time))
    local = methods.get("local", strength=alpha / len(X))
    ours = tv.TaskSurvival(local, epsilon=None, scaling="none").fit(X, Surv.from_arrays(seen, time), task=np.zeros(len(X)))
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, atol=1e-6)


def test_one_pooled_task_agrees_with_scikit_survival_to_a_millionth():
    X, seen, time = rows()
    theirs = CoxPHSurvivalAnalysis(ties="breslow", tol=1e-14, n_iter=500).fit(X, Surv.from_arrays(seen, time))
    ours = tv.TaskSurvival("pooled", epsilon=None).fit(X, Surv.from_arrays(seen, time), task=np.zeros(len(X)))
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_, atol=1e-5)


def test_survival_functions_agree_with_scikit_survival_at_the_same_coefficients():
    """With 50 event times or fewer nothing is thinned out."""
    X, seen, time = rows(n=120)
    y = Surv.from_arrays(seen, time)
    theirs = CoxPHSurvivalAnalysis(ties="breslow", tol=1e-14, n_iter=500).fit(X, y)
    ours = tv.TaskSurvival(methods.get("local", strength=0.0), epsilon=None).fit(X, y, task=np.zeros(120))
    assert np.unique(time[seen]).size <= 50
    times = theirs.unique_times_
    expected = theirs.predict_survival_function(X[:9], return_array=True)
    np.testing.assert_allclose(ours.predict_survival_function(X[:9], task=np.zeros(9), times=times), expected, atol=1e-6)
    f = ours.predict_survival_function(X[:1], task=[0])[0]
    assert f(0.0) == 1.0 and np.all(np.diff(f.y) <= 0.0) and f(f.x[-1]) == f.y[-1]
