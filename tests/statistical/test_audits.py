"""Audits of our own mechanisms and methods: sound ones stay consistent, planted faults are refuted.

False alarms: a verdict `refuted` on correct code has probability at most 1e-6 per audit (Clopper-Pearson on held-out runs,
shared over stages). Seeds are fixed, so a pass stays a pass; with fresh seeds the default selection fails with probability
below 2e-5, the full one (`make audit`, 20 seeds of everything) below 1e-3. Every fault has its twin: the same audit without
the fault must be consistent.
"""

from __future__ import annotations

import pytest
from tests.support.audit_cases import CASES

import taskveil as tv
from taskveil import methods
from taskveil.audits import audit_estimator, audit_mechanism
from taskveil.audits.mechanisms import TARGETS

pytestmark = pytest.mark.statistical

SOUND = [name for name in TARGETS if name != "paper-wishart"]
METHODS = {
    "low-rank": {}, "group-sparse": {}, "low-rank-sparse": {}, "relationship": {}, "subspace": {}, "dp-mtrl": {},
    "dp-aggr": {}, "mean": {}, "pooled": {}, "svm": {}, "mocha": {}, "frank-wolfe": {}, "fixed-relationship": {},
}  # fmt: skip
FAST = [case for case in CASES if not case.slow]


def name_of(case):
    return f"{case.fault}: {case.where}"


def estimator(name, **given):
    return tv.TaskRegressor(methods.get(name, **METHODS.get(name, {})), **{"epsilon": 1.0, "delta": 1e-5, **given})


@pytest.mark.parametrize("case", FAST, ids=name_of)
def test_a_planted_fault_is_refuted_and_its_twin_is_not(case):
    assert not case.audit(11).refuted
    with case.plant():
        broken = case.audit(11)
    assert broken.refuted
    bounds = (broken.refutation_bound, broken.gaussian_refutation_bound or 0.0)  # either may refute
    assert max(bounds) > broken.claimed_epsilon


@pytest.mark.audit
@pytest.mark.timeout(1800)  # tens of thousands of rounds; three minutes on a quiet core
@pytest.mark.parametrize("case", [case for case in CASES if case.slow], ids=name_of)
def test_a_planted_fault_over_many_rounds_is_refuted_and_its_twin_is_not(case):
    assert not case.audit(11).refuted
    with case.plant():
        assert case.audit(11).refuted


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", SOUND)
def test_sound_mechanisms_are_consistent(name, neighbours):
    trials = 5_000 if name == "l2-laplace" else 50_000
    assert audit_mechanism(name, 1.0, 1e-5, trials=trials, seed=1, neighbours=neighbours).verdict == "consistent"


def test_the_bound_for_one_gaussian_release_is_tight():
    found = audit_mechanism("gaussian", 1.0, 1e-5, trials=1_000_000, seed=2)
    assert 0.6 <= found.lower_bound <= 1.0


def test_the_bound_for_the_two_sided_wishart_in_one_dimension_is_tight():
    """It is Laplace noise there. Doubles are rounded first: their low bits leak, which the second audit shows."""
    found = audit_mechanism("two-sided-wishart", 1.0, trials=200_000, seed=2, dimension=1)
    assert 0.9 <= found.lower_bound <= 1.0
    assert audit_mechanism("two-sided-wishart", 1.0, trials=100_000, seed=2, dimension=1, low_bits=True).refuted


@pytest.mark.parametrize("dimension", [1, 5])
def test_the_papers_wishart_is_refuted_in_every_dimension(dimension):
    found = audit_mechanism("paper-wishart", 1.0, 1e-5, seed=3, dimension=dimension)
    assert found.refuted and found.lower_bound > 3


@pytest.mark.parametrize("name", ["dp-aggr", "subspace"])
def test_sound_methods_are_consistent(name):
    assert audit_estimator(estimator(name), trials=150, seed=4).verdict == "consistent"


def test_the_papers_low_rank_method_is_refuted_end_to_end():
    """Two rounds instead of twenty, to be quick; all twenty in the full audits."""
    est = tv.TaskRegressor(methods.get("low-rank", rounds=2), epsilon=1.0, delta=1e-5, variant="paper")
    found = audit_estimator(est, trials=500, seed=5)
    assert found.refuted and found.lower_bound > 3


@pytest.mark.audit
@pytest.mark.parametrize("name", ["low-rank", "group-sparse"])
def test_the_papers_methods_are_refuted_as_printed(name):
    found = audit_estimator(estimator(name, variant="paper"), seed=5)
    assert found.refuted and found.lower_bound > 3


@pytest.mark.audit
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", SOUND)
def test_sound_mechanisms_are_consistent_over_seeds(name, seed):
    trials = 20_000 if name == "l2-laplace" else 200_000
    assert audit_mechanism(name, 1.0, 1e-5, trials=trials, seed=seed).verdict == "consistent"


@pytest.mark.audit
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", sorted(METHODS))
def test_sound_methods_are_consistent_over_seeds(name, seed):
    assert audit_estimator(estimator(name), trials=200, seed=seed).verdict == "consistent"


@pytest.mark.audit
@pytest.mark.parametrize("given", [
    {"name": "low-rank", "aggregation": "local", "observer": "server"},
    {"name": "low-rank", "delta": 0.0},
    {"name": "group-sparse", "delta": 0.0},
    {"name": "mean", "unit": "record"},
    {"name": "relationship", "mechanism": "l2-laplace"},
])  # fmt: skip
def test_other_observers_units_and_mechanisms_are_consistent(given):
    given = dict(given)
    assert audit_estimator(estimator(given.pop("name"), **given), trials=200, seed=6).verdict == "consistent"
