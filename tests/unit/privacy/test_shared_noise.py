"""Noise in shares: at least as much as stated for every cohort that can be opened, and charged for what it
is."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from taskveil.errors import OptionError, SecureSumRefused
from taskveil.privacy.aggregation import secure_messages, use_integer_sum
from taskveil.privacy.certificate import Certificate, build_certificate
from taskveil.privacy.contributions import DiagonalSum, OuterSum, RowSum, TaskGram, VectorSum
from taskveil.privacy.integer_sampler import KeyStream
from taskveil.privacy.mechanisms.shared import SharedGaussian, SharedSkellam, grid_sensitivity
from taskveil.privacy.plan import Budget, Plan, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise, system_noise
from taskveil.privacy.release import MemoryAccount, release
from taskveil.privacy.secure_options import SecureOptions
from taskveil.privacy.units import Neighbours
from taskveil.runtime import secure

CONTRIBUTIONS = [VectorSum((7,), 0.5), OuterSum(5, 1.0), DiagonalSum(6, 2.0, 2)]


def plan_for(contribution, n_tasks=12, rounds=1, neighbours="replace-one", epsilon=1.0, **options):
    figures = SecureOptions.for_tasks(n_tasks, **options)
    budget = Budget(epsilon, 1e-5, neighbours=neighbours, aggregation="secure", secure=figures)
    return make_plan([Request("sum", t + 1, contribution) for t in range(rounds)], budget)


@pytest.mark.parametrize("contribution", CONTRIBUTIONS, ids=lambda c: c.kind)
@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("law", ["discrete-gaussian", "skellam"])
def test_plans_meet_the_budget_and_survive_a_round_trip(contribution, neighbours, law):
    plan = plan_for(contribution, neighbours=neighbours, law=law, rounds=3)
    epsilon, accountant = plan.certified()
    assert 0.999 < epsilon <= 1.0
    assert accountant == ("rdp" if law == "skellam" else "gaussian")
    assert Plan.from_dict(plan.to_dict()) == plan


@pytest.mark.parametrize("contribution", CONTRIBUTIONS, ids=lambda c: c.kind)
def test_a_secure_sum_needs_hardly_more_noise_than_a_curator(contribution):
    """The h guaranteed shares together: within 1.5 % of the curator's scale at the same epsilon."""
    shared = plan_for(contribution).releases[0].mechanism.scale
    curator = make_plan([Request("sum", 1, contribution)], Budget(1.0, 1e-5)).releases[0].mechanism.scale
    assert 1.0 <= shared / curator < 1.015


def test_every_cohort_that_can_be_opened_holds_the_stated_noise():
    """All cohorts of at least min_cohort sites, all sets of colluders: what is left is never below the
    plan."""
    plan = plan_for(OuterSum(4, 1.0), n_tasks=6, colluders=2, min_cohort=5)
    mechanism = plan.releases[0].mechanism
    stated = mechanism.scale / mechanism.step
    for size in range(mechanism.min_cohort, 7):
        for cohort in itertools.combinations(range(6), size):
            for colluders in itertools.combinations(range(6), mechanism.colluders):
                left = len(set(cohort) - set(colluders)) * mechanism.share_variance
                assert math.sqrt(left) >= stated * (1 - 1e-12)
    event = mechanism.event(OuterSum(4, 1.0), Neighbours.REPLACE_ONE)
    grid = mechanism.grid(OuterSum(4, 1.0))
    assert event.noise_multiplier <= stated / grid.sensitivity(math.sqrt(2), True)


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["discrete-gaussian", "skellam"])
def test_the_smallest_cohort_without_its_colluders_is_noisy_enough(law):
    """Variance of the h shares colluders do not know, 4000 coordinates, chi-square at 1e-6 on the lower
    side; half the shares (a task that forgot its noise) fail it."""
    contribution = VectorSum((4000,), 1.0)
    plan = plan_for(contribution, n_tasks=8, colluders=2, min_cohort=6, law=law)
    planned, mechanism = plan.releases[0], plan.releases[0].mechanism
    bounded = contribution.clip(np.zeros((8, 4000)))
    honest = secure_messages(planned, bounded, system_noise(), None)[2:6]  # 6 came, 2 of them collude

    def p_value(shares):
        ratio = np.square(shares.sum(axis=0) * mechanism.step / mechanism.scale).sum()
        return stats.chi2(4000).cdf(ratio)

    assert p_value(honest) > 1e-6
    assert p_value(honest[:2]) < 1e-6


def test_more_dropouts_than_planned_release_nothing_but_are_charged():
    contribution = VectorSum((5,), 1.0)
    planned_tasks, plan = 6, plan_for(contribution, n_tasks=6, min_cohort=5)
    account = MemoryAccount()
    account.reserve(plan)
    secure.install()
    with pytest.raises(SecureSumRefused, match="6 tasks, 4 are here"):
        release(plan.releases[0], contribution.clip(np.ones((4, 5))), account, system_noise(), "secure")
    assert planned_tasks == 6 and len(account.spent()) == 1


@pytest.mark.parametrize("contribution", CONTRIBUTIONS, ids=lambda c: c.kind)
def test_the_released_total_is_the_sum_plus_noise_of_the_planned_size(contribution):
    secure.install()
    plan = plan_for(contribution, epsilon=20.0)
    planned, account = plan.releases[0], MemoryAccount()
    account.reserve(plan)
    raw = np.random.default_rng(0).normal(size=(12, *contribution.message_shape))
    bounded = contribution.clip(raw)
    noisy = release(planned, bounded, account, system_noise(), "secure").value
    error = contribution.to_vector(noisy - contribution.total(bounded))
    limit = planned.mechanism.coordinate_deviation(planned.contribution) * math.sqrt(2 * math.log(2e6 * error.size))
    assert np.abs(error).max() < limit
    assert noisy.shape == contribution.total_shape


def test_the_protocol_changes_nothing_but_who_sees_what():
    """Seeded noise: the secure sum equals the plain integer sum of the same messages, bit for bit."""
    contribution = OuterSum(4, 1.0)
    plan = plan_for(contribution, n_tasks=9)
    planned = plan.releases[0]
    bounded = contribution.clip(np.random.default_rng(0).normal(size=(9, 1, 4)))
    values = []
    for way in (secure.install, lambda: use_integer_sum(lambda messages, mechanism: messages.sum(axis=0))):
        way()
        account = MemoryAccount()
        account.reserve(plan)
        values.append(release(planned, bounded, account, insecure_seeded_noise(1), "secure").value)
    secure.install()
    assert np.array_equal(values[0], values[1])


def certificate():
    plan = plan_for(OuterSum(4, 1.0), n_tasks=40, rounds=2)
    return build_certificate("subspace", plan, system_noise().describe())


def test_the_certificate_makes_two_statements_and_verifies():
    made = Certificate.from_json(certificate().to_json())
    assert made.verify()
    assert [(s.observer, s.colluders) for s in made.statements] == [("other-tasks", 2), ("server", 2)]
    text = str(made)
    assert "the server and up to 2 other sites together" in text
    assert "which may lie in a secure sum" in text


def test_a_certificate_that_claims_more_colluders_or_less_noise_does_not_verify():
    made = certificate()
    for colluders in (3, None):
        claims = tuple(replace(s, colluders=colluders) for s in made.statements)
        assert not replace(made, statements=claims).verify()
    forged = [
        dict(entry, mechanism=dict(entry["mechanism"], share_variance=entry["mechanism"]["share_variance"] / 4))
        for entry in made.events
    ]
    assert not replace(made, events=tuple(forged)).verify()
    richer = [dict(entry, mechanism=dict(entry["mechanism"], colluders=1)) for entry in made.events]
    assert not replace(made, events=tuple(richer)).verify()


def test_what_cannot_be_shared_is_refused():
    figures = SecureOptions.for_tasks(12)
    request = Request("sum", 1, OuterSum(5, 1.0))
    for changes in ({"mechanism": "two-sided-wishart"}, {"delta": 0.0}, {"variant": "paper"}, {"secure": None}):
        options = {"delta": 1e-5, "aggregation": "secure", "secure": figures, "epsilon": 1.0} | changes
        with pytest.raises(OptionError):
            make_plan([request], Budget(**options))
    with pytest.raises(OptionError, match="not a sum"):
        make_plan([Request("gram", 1, TaskGram(12, 5, 1.0))], Budget(1.0, 1e-5, aggregation="secure", secure=figures))
    with pytest.raises(OptionError, match="delta is too small"):
        make_plan([request], Budget(1.0, 1e-12, aggregation="secure", secure=figures))


@pytest.mark.parametrize(
    "n_tasks, given, expected",
    [
        (100, {}, (5, 100)),
        (3, {}, (1, 3)),
        (100, {"colluders": 0.1, "dropouts": 0.2}, (10, 80)),
        (100, {"colluders": 7, "min_cohort": 60}, (7, 60)),
        (100, {"colluders": 0.001}, (1, 100)),
        (10, {"colluders": 2, "sites": [4, 1, 1, 4]}, (2, 4)),
    ],
)
def test_shares_and_numbers_of_tasks_are_both_understood(n_tasks, given, expected):
    options = SecureOptions.for_tasks(n_tasks, **given)
    assert (options.colluders, options.min_cohort) == expected


def test_impossible_options_are_refused():
    for given in ({"colluders": 1.5}, {"grid_bits": 30}, {"law": "laplace"}, {"min_cohort": 101}):
        with pytest.raises(OptionError):
            SecureOptions.for_tasks(100, **given)
    with pytest.raises(OptionError):
        SecureOptions.for_tasks(1)


def test_coarse_grids_cost_noise_and_save_bits():
    contribution = OuterSum(20, 1.0)
    fine, coarse = (plan_for(contribution, n_tasks=50, grid_bits=b).releases[0].mechanism for b in (16, 10))
    assert coarse.bits <= fine.bits - 4 and 1.0 < coarse.scale / fine.scale < 1.05


def test_skellam_pays_for_its_renyi_accounting():
    gaussian, skellam = (plan_for(OuterSum(20, 1.0), law=law).releases[0].mechanism for law in ("discrete-gaussian", "skellam"))
    assert isinstance(gaussian, SharedGaussian) and isinstance(skellam, SharedSkellam)
    assert 1.02 < skellam.scale / gaussian.scale < 1.12


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_sums_of_rows_are_bounded_by_what_one_row_moves_not_by_their_norm(neighbours):
    """A task's sum is far longer than one row; integers still move by at most the charged distance."""
    contribution = RowSum((6,), 1.0)
    options = SecureOptions.for_tasks(4)
    budget = Budget(1.0, 1e-5, unit="record", neighbours=neighbours, aggregation="secure", secure=options)
    mechanism = make_plan([Request("g", 1, contribution)], budget).releases[0].mechanism
    assert mechanism.condition == "error" and not mechanism.rotate and mechanism.bits == 64
    grid, stream, rng = mechanism.grid(contribution), KeyStream(bytes(32)), np.random.default_rng(0)
    limit = grid_sensitivity(grid, contribution, Neighbours(neighbours))
    for _ in range(200):
        rows = rng.normal(size=(50, 6)) * 3
        rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        other = rows.copy()
        other[0] = 0.0 if neighbours == "add-remove" else -rows[0]
        moved = grid.to_integers(rows.sum(axis=0), stream) - grid.to_integers(other.sum(axis=0), stream)
        assert np.linalg.norm(moved) <= limit
    with pytest.raises(OptionError, match="error"):
        grid_sensitivity(replace(grid, condition="norm"), contribution, Neighbours(neighbours))


@pytest.mark.parametrize("n_tasks, n_features", [(320, 30), (139, 28)])
def test_with_all_tasks_present_the_noise_is_within_four_percent_of_a_curators(n_tasks, n_features):
    """The sizes of synthetic:low-rank and school, default tolerances (5 % colluders): the price of no curator."""
    contribution = OuterSum(n_features, 1.0)
    shared = plan_for(contribution, n_tasks=n_tasks).releases[0].mechanism
    curator = make_plan([Request("sum", 1, contribution)], Budget(1.0, 1e-5)).releases[0].mechanism
    assert 1.0 < shared.coordinate_deviation(contribution) / curator.scale < 1.04
    assert shared.bits <= 22
