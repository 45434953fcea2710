"""Plans: calibrated to the target from below, right mechanism by default, clear refusals."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from tests.support.privacy_reference import composition_bound_by_hand

from taskveil.errors import OptionError, UnknownName
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.calibrate import geometric, largest_base_epsilon, largest_feasible, power, uniform
from taskveil.privacy.contributions import DiagonalSum, OuterSum, RowSum, TaskGram, VectorSum
from taskveil.privacy.events import Charge, GaussianEvent, PureEvent, SampledGaussianEvent
from taskveil.privacy.guarantees import gaussian_delta, gaussian_epsilon, gaussian_mu
from taskveil.privacy.plan import Budget, Plan, Request, make_plan

OUTER, VECTOR, DIAGONAL = OuterSum(6, 1.0), VectorSum((6,), 1.0), DiagonalSum(6, 1.0)


def rounds(contribution, n, weights=None, **options):
    w = np.ones(n) if weights is None else weights
    return [Request("S", t + 1, contribution, weight=float(w[t]), **options) for t in range(n)]


CASES = {
    "one matrix": (rounds(OUTER, 1), {}),
    "thirty matrices": (rounds(OUTER, 30), {}),
    "growing matrices": (rounds(OUTER, 30, power(30, 0.4)), {}),
    "pure matrices": (rounds(OUTER, 30), {"mechanism": "two-sided-wishart"}),
    "growing pure matrices": (rounds(OUTER, 30, power(30, 0.4)), {"mechanism": "two-sided-wishart"}),
    "pure with delta 0": (rounds(OUTER, 10), {"delta": 0.0}),
    "diagonals": (rounds(DIAGONAL, 5), {"mechanism": "laplace"}),
    "vectors by l2-laplace": (rounds(VECTOR, 3), {"mechanism": "l2-laplace"}),
    "sampled": (rounds(VECTOR, 100, rate=0.05), {}),
    "sampled add-remove": (rounds(VECTOR, 100, rate=0.05), {"neighbours": "add-remove"}),
    "sampled and not": ([*rounds(VECTOR, 20, rate=0.1), Request("once", 1, OUTER)], {}),
    "local": (rounds(VECTOR, 20, rate=0.1), {"aggregation": "local"}),
    "rows": (rounds(RowSum((6,), 1.0), 50, rate=0.1), {"unit": "record"}),
    "by rdp": (rounds(VECTOR, 100, rate=0.05), {"accountant": "rdp", "neighbours": "add-remove"}),
    "by zcdp": (rounds(OUTER, 30), {"accountant": "zcdp"}),
    "by kairouz": (rounds(OUTER, 30), {"accountant": "kairouz", "mechanism": "two-sided-wishart"}),
}


def budget(epsilon=1.0, **options):
    return Budget(**{"epsilon": epsilon, "delta": 1e-5, **options})


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("case", CASES)
def test_a_plan_spends_its_budget_and_never_more(case, epsilon):
    requests, options = CASES[case]
    reached = make_plan(requests, budget(epsilon, **options)).epsilon()
    assert 0.999 * epsilon <= reached <= epsilon


@pytest.mark.parametrize("case", CASES)
def test_a_plan_survives_a_round_trip_through_json(case):
    requests, options = CASES[case]
    plan = make_plan(requests, budget(**options))
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict(), allow_nan=False))) == plan


def within(charges, epsilon, delta) -> bool:
    return best_epsilon(charges, delta)[0] <= epsilon


def test_the_check_rejects_half_the_noise_and_a_forgotten_round():
    plan = make_plan(rounds(OUTER, 30), budget())
    z = plan.releases[0].event.noise_multiplier
    assert within(plan.charges(), 1.0, 1e-5)
    assert not within([Charge(GaussianEvent(z / 2), 30)], 1.0, 1e-5)
    assert not within([Charge(GaussianEvent(z), 31)], 1.0, 1e-5)


def test_gaussian_calibration_is_the_analytic_gaussian_mechanism():
    """Balle & Wang 2018: delta at the target epsilon is met exactly, from below."""
    plan = make_plan(rounds(OUTER, 30), budget(delta=5e-4))
    mu = math.sqrt(sum(1 / r.event.noise_multiplier**2 for r in plan.releases))
    assert gaussian_delta(1.0, mu) <= 5e-4
    assert gaussian_delta(1.0, mu) == pytest.approx(5e-4, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.01, 1e-9), (0.1, 1e-5), (1.0, 1e-5), (10.0, 1e-3)])
def test_the_analytic_gaussian_and_its_inverse_round_toward_privacy(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta < gaussian_delta(epsilon, mu * (1 + 1e-6))
    assert gaussian_epsilon(delta, mu) <= epsilon * (1 + 1e-9)
    assert gaussian_delta(gaussian_epsilon(delta, mu), mu) <= delta


def test_weights_set_the_ratio_of_noise_multipliers_and_of_epsilons():
    weights = power(4, 0.5)
    gaussian = make_plan(rounds(OUTER, 4, weights), budget())
    z = np.array([r.event.noise_multiplier for r in gaussian.releases])
    np.testing.assert_allclose(1 / z / (1 / z[0]), weights, rtol=1e-6)
    pure = make_plan(rounds(OUTER, 4, weights), budget(mechanism="two-sided-wishart"))
    e = np.array([r.event.epsilon for r in pure.releases])
    np.testing.assert_allclose(e / e[0], weights, rtol=1e-6)


@pytest.mark.parametrize(
    ("contribution", "options", "expected"),
    [
        (OUTER, {}, "matrix-gaussian"),
        (TaskGram(4, 6, 1.0), {}, "matrix-gaussian"),
        (VECTOR, {}, "gaussian"),
        (DIAGONAL, {}, "gaussian"),
        (OUTER, {"mechanism": "gaussian"}, "matrix-gaussian"),
        (OUTER, {"delta": 0.0}, "two-sided-wishart"),
        (TaskGram(4, 6, 1.0), {"mechanism": "two-sided-wishart"}, "two-sided-wishart"),
        (DIAGONAL, {"delta": 0.0}, "laplace"),
        (VECTOR, {"delta": 0.0}, "l2-laplace"),
        (OUTER, {"variant": "paper"}, "paper-wishart"),
        (DIAGONAL, {"variant": "preprint"}, "paper-wishart"),
        (VECTOR, {"variant": "paper"}, "gaussian"),
        (OUTER, {"epsilon": None}, "none"),
    ],
)
def test_the_default_mechanism_fits_the_contribution(contribution, options, expected):
    assert make_plan([Request("S", 1, contribution)], budget(**options)).releases[0].mechanism.name == expected


def test_paper_variants_use_exactly_definition_7_and_the_printed_scales():
    weights = power(20, 0.4)
    for variant, sensitivity in (("paper", 1.7**2), ("preprint", 2 * 1.7)):
        plan = make_plan(rounds(OuterSum(6, 1.7), 20, weights), budget(delta=1e-3, variant=variant))
        epsilons = [r.event.claimed_epsilon for r in plan.releases]
        assert composition_bound_by_hand(epsilons, 1e-3) == pytest.approx(1.0, rel=1e-10)
        assert composition_bound_by_hand(epsilons, 1e-3) <= 1.0 + 1e-12
        scales = [r.mechanism.scale for r in plan.releases]
        np.testing.assert_allclose(scales, sensitivity / (2 * np.array(epsilons)), rtol=1e-12)
        assert plan.epsilon() == math.inf


@pytest.mark.parametrize("schedule", [uniform(25), power(25, 0.4), geometric(25, 0.9), geometric(400, 0.1)])
@pytest.mark.parametrize("delta", [0.0, 1e-4])
def test_the_base_epsilon_is_the_largest_that_meets_the_bound(schedule, delta):
    e = largest_base_epsilon(schedule, 1.0, delta)
    assert composition_bound_by_hand(list(e * schedule), delta) <= 1.0
    assert composition_bound_by_hand(list(1.0001 * e * schedule), delta) > 1.0


def test_schedules_are_the_papers():
    np.testing.assert_allclose(power(3, 0.4), [1, 2**0.4, 3**0.4])
    np.testing.assert_allclose(geometric(3, 0.5) / geometric(3, 0.5)[0], [1, 2, 4])
    assert np.array_equal(power(5, 0.0), uniform(5))
    for wrong in (0, -1, 2.5):
        with pytest.raises(OptionError, match="rounds"):
            uniform(wrong)


def test_sampling_is_amplified_only_where_the_cohort_is_secret():
    def event(contribution, **options):
        return make_plan(rounds(contribution, 5, rate=0.1), budget(**options)).releases[0].event

    assert isinstance(event(VECTOR), SampledGaussianEvent)
    assert isinstance(event(VECTOR, aggregation="local"), GaussianEvent)
    assert isinstance(event(RowSum((6,), 1.0), unit="record", aggregation="local"), SampledGaussianEvent)


def test_sampled_noise_is_relative_to_the_clipping_norm_in_both_relations():
    for neighbours in ("add-remove", "replace-one"):
        plan = make_plan(rounds(VectorSum((6,), 3.0), 5, rate=0.1), budget(neighbours=neighbours))
        made = plan.releases[0]
        assert made.event.noise_multiplier == pytest.approx(made.mechanism.scale / 3.0, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"epsilon": -1.0}, "epsilon must be positive"),
        ({"epsilon": math.nan}, "epsilon must be positive"),
        ({"epsilon": math.inf}, "epsilon must be positive"),
        ({"delta": 1.0}, "delta must be"),
        ({"delta": -1e-9}, "delta must be"),
        ({"unit": "person"}, "unknown unit 'person': expected one of record, task"),
        ({"neighbours": "both"}, "unknown neighbours 'both'"),
        ({"variant": "fast"}, "unknown variant 'fast'"),
        ({"mechanism": "paper-wishart"}, "needs variant"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(OptionError, match=message):
        budget(**options)


def test_unknown_names_list_the_known_ones():
    with pytest.raises(UnknownName, match="did you mean 'gaussian'"):
        budget(mechanism="gausian")
    with pytest.raises(UnknownName, match="expected one of curator"):
        budget(aggregation="trusted")


@pytest.mark.parametrize(
    ("requests", "options", "message"),
    [
        (rounds(VECTOR, 1), {"mechanism": "two-sided-wishart"}, "does not fit a vector-sum; choose one of"),
        (rounds(OUTER, 1), {"mechanism": "laplace"}, "does not fit a outer-sum"),
        (rounds(OUTER, 1), {"mechanism": "gaussian", "delta": 0.0}, "delta=0 needs a pure mechanism"),
        (rounds(OUTER, 1), {"mechanism": "none"}, "goes with epsilon=None"),
        (rounds(OUTER, 1), {"unit": "record"}, "bounds a task"),
        (rounds(RowSum((6,), 1.0), 1), {}, "bounds a record"),
        (rounds(OUTER, 1) * 2, {}, "requested twice"),
        (rounds(TaskGram(4, 6, 1.0), 1, rate=0.5), {}, "cannot be sampled"),
    ],
)
def test_requests_that_cannot_be_met_are_refused_with_a_remedy(requests, options, message):
    with pytest.raises(OptionError, match=message):
        make_plan(requests, budget(**options))


def test_rounds_come_in_order_with_their_releases():
    plan = make_plan([Request("b", 2, VECTOR), Request("a", 1, VECTOR), Request("a", 2, OUTER)], budget())
    assert [(t, [r.name for r in made]) for t, made in plan.rounds()] == [(1, ["a"]), (2, ["b", "a"])]
    assert plan.releases[0].id == "2/b"


def test_a_plan_without_releases_costs_nothing():
    assert make_plan([], budget()).epsilon() == 0.0
    assert make_plan([], budget(None)).epsilon() == 0.0


def test_a_search_ends_on_the_feasible_side_even_for_awkward_functions():
    for f in (lambda c: c**3, lambda c: math.exp(c) - 1, lambda c: 0.0 if c < 0.5 else c, lambda c: c if c < 2 else math.inf):
        c = largest_feasible(f, 1.0, 1e-6, tolerance=1e-9)
        assert f(c) <= 1.0 < f(c * 1.001)


def test_pure_releases_use_the_best_of_the_valid_accountants():
    """PLD allows more loss per round than Def. 7, which allows more than the sum."""
    by = {
        a: make_plan(rounds(OUTER, 30), budget(mechanism="two-sided-wishart", accountant=a)) for a in ("pure", "kairouz", "pld")
    }
    best = make_plan(rounds(OUTER, 30), budget(mechanism="two-sided-wishart"))
    e = {name: plan.releases[0].event.epsilon for name, plan in by.items()}
    assert e["pure"] < e["kairouz"] < e["pld"] and best.releases[0].event.epsilon == pytest.approx(e["pld"], rel=1e-3)
    assert isinstance(best.releases[0].event, PureEvent)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.5, 1e-9, float("nan")])
def test_a_sampling_rate_that_means_nobody_or_more_than_everybody_is_refused(rate):
    with pytest.raises(OptionError, match=r"sampling rate of release 'mean' must lie in \[1e-06, 1\]"):
        Request("mean", 1, VectorSum((3,), 1.0), rate=rate)
