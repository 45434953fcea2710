"""A mean and a second moment in one release: how far one task moves it, found by search, and what it costs."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from taskveil.audits import audit_mechanism
from taskveil.errors import OptionError
from taskveil.privacy import moments
from taskveil.privacy.accountants import ACCOUNTANTS
from taskveil.privacy.certificate import build_certificate
from taskveil.privacy.contributions import MomentSum, contribution_from_dict
from taskveil.privacy.moments import moment_weights
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount, release

weights = st.floats(0.05, 3.0)


def distance(what: MomentSum, pair: np.ndarray) -> float:
    """How far the clipped sums of two messages are apart."""
    here, there = (what.total(what.clip(raw[None])) for raw in pair.reshape(2, -1))
    return float(np.linalg.norm(here - there))


def furthest(what: MomentSum, seed: int, starts: int = 2) -> float:
    """Largest distance found by optimisation over both messages from random starts, longer than the bound allowed."""
    rng = np.random.default_rng(seed)
    size = 2 * what.message_shape[0]
    found = [minimize(lambda x: -distance(what, x), 2 * rng.standard_normal(size), method="L-BFGS-B").fun for _ in range(starts)]
    return -min(found)


def too_small(what: MomentSum) -> float:
    """The planted fault: a mean of sensitivity 2a and a second moment of sqrt(2) b, the larger of the two."""
    return max(2 * what.mean_weight, math.sqrt(2) * what.moment_weight)


@settings(max_examples=12, deadline=None)
@given(weights, weights, weights, st.integers(2, 4), st.integers(1, 3), st.integers(0, 10**6))
def test_optimisation_finds_no_replacement_that_moves_further_than_stated(a, e, b, d, outputs, seed):
    what = MomentSum(d, a, e, b, outputs)
    assert furthest(what, seed) <= what.sensitivity("replace-one").l2 * (1 + 1e-9)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("b", [0.1, 0.7, 0.75, 1.0, 3.0])
def test_the_stated_sensitivity_is_reached_and_a_smaller_one_refuted(b, outputs):
    """On both sides of b^2 = a^2 / 2, where the second moment stops being free."""
    what = MomentSum(3, 1.0, 0.01, b, outputs)
    found, stated = furthest(what, 1), what.sensitivity("replace-one").l2
    assert stated * (1 - 1e-4) <= found <= stated * (1 + 1e-9)
    assert found > too_small(what) * (1 + 1e-6)


def test_the_closed_form_at_its_landmarks():
    def square(a, b):
        return MomentSum(2, a, 1e-3, b).sensitivity("replace-one").l2 ** 2 - 4e-6

    assert square(1.0, math.sqrt(0.5)) == pytest.approx(4.0)  # free up to here
    assert square(1.0, 1.0) == pytest.approx(2 + 2 + 0.5)
    assert square(1e-3, 1.0) == pytest.approx(2.0, rel=1e-5)  # the second moment alone
    assert MomentSum(2, 0.3, 0.4, 1.2).sensitivity("add-remove").l2 == pytest.approx(1.3)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("share", [0.02, 0.25, 0.5, 0.75, 0.8, 0.99])
def test_weights_give_sensitivity_one_and_never_less_than_two_releases_would(share, neighbours):
    a, e, b = moment_weights(share, 0.3, neighbours)
    what, replaced = MomentSum(4, a, e, b), neighbours == "replace-one"
    assert what.sensitivity(neighbours).l2 == pytest.approx(1.0)
    assert a**2 + e**2 >= share / (4 if replaced else 1) * (1 - 1e-12)
    assert b**2 >= (1 - share) / (2 if replaced else 1) * (1 - 1e-12)


def test_the_direction_and_the_extra_number_are_clipped_apart_each_to_one():
    what = MomentSum(3, 1.0, 1.0, 1.0)
    raw = np.array([[30.0, 40.0, 0.0, -7.0], [0.3, 0.0, 0.0, 0.2], [np.nan, 1.0, 1.0, np.inf]])
    expected = [[0.6, 0.8, 0.0, -1.0], [0.3, 0.0, 0.0, 0.2], [0.0, 0.0, 0.0, 0.0]]
    np.testing.assert_allclose(what.clip(raw).value, expected, atol=1e-9)


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_parts_are_the_sums_and_single_messages_add_up(outputs):
    what = MomentSum(3, 0.4, 0.1, 0.7, outputs)
    raw = np.random.default_rng(0).standard_normal((5, *what.message_shape)) / 10
    bounded = what.clip(raw)
    M = raw[:, :-1].reshape(5, outputs, 3)
    mean, extra, square = what.parts(what.total(bounded))
    np.testing.assert_allclose(mean, M.sum(axis=0))
    assert extra == pytest.approx(raw[:, -1].sum())
    np.testing.assert_allclose(square, np.einsum("kri,krj->ij", M, M))
    np.testing.assert_allclose(what.each(bounded).sum(axis=0), what.total(bounded))
    assert contribution_from_dict(what.to_dict()) == what


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_weights_that_make_no_sense_are_refused(bad):
    with pytest.raises(OptionError):
        MomentSum(3, 1.0, bad, 1.0)


# ---------------------------------------------------------------- the road to a release

WHAT = MomentSum(4, *moment_weights(0.25, 0.3, "replace-one"))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("aggregation", ["curator", "local", "secure"])
def test_every_aggregation_carries_it_and_its_certificate_recomputes(aggregation, neighbours):
    from taskveil.privacy.secure_options import SecureOptions
    from taskveil.runtime.secure import install

    install()
    secure = SecureOptions(n_tasks=12, colluders=2, min_cohort=12) if aggregation == "secure" else None
    budget = Budget(1.0, 1e-5, neighbours=neighbours, aggregation=aggregation, secure=secure)
    plan = make_plan([Request("moments", 1, WHAT)], budget)
    account, source = MemoryAccount(), insecure_seeded_noise(3)
    account.reserve(plan)
    raw = np.zeros((12, 5))
    raw[:, 0] = 1.0
    seen = release(plan.releases[0], WHAT.clip(raw), account, source, aggregation).value
    deviation = plan.releases[0].mechanism.coordinate_deviation(WHAT) * (math.sqrt(12) if aggregation == "local" else 1.0)
    off = np.linalg.norm(seen - WHAT.total(WHAT.clip(raw)))
    assert seen.shape == WHAT.total_shape and off < 3 * deviation * math.sqrt(seen.size)
    certificate = build_certificate("subspace", plan, {"source": "system", "exact": True})
    assert certificate.verify().ok and certificate.statements[0].epsilon == 1.0


def test_three_accountants_agree_on_its_cost():
    """Exact Gaussian composition, privacy loss distributions, and Renyi (which is above by what it is known to lose)."""
    plan = make_plan([Request("moments", t, WHAT) for t in (1, 2, 3)], Budget(1.0, 1e-5))
    exact, pld, rdp = (ACCOUNTANTS.get(n).epsilon(plan.charges(), 1e-5) for n in ("gaussian", "pld", "rdp"))
    assert exact == pytest.approx(1.0, rel=1e-6) and pld == pytest.approx(exact, rel=2e-3) and exact < rdp < 1.15


def test_a_certificate_with_the_sensitivity_of_the_second_moment_alone_does_not_verify(monkeypatch):
    """The planted fault: the mean is thought to be free."""
    with monkeypatch.context() as patched:
        patched.setattr(moments, "_replaced", lambda a2, b2: 2 * b2)
        plan = make_plan([Request("moments", 1, WHAT)], Budget(1.0, 1e-5))
        certificate = build_certificate("subspace", plan, {"source": "system", "exact": True})
        assert certificate.verify().ok
    assert not certificate.verify().ok


@pytest.mark.statistical
def test_the_audit_accepts_the_release_and_refutes_a_sensitivity_too_small(monkeypatch):
    """Worst-case neighbours at the angle of the proof; refutation at 1e-6. The twin counts the second moment alone."""
    sound = audit_mechanism("moments", 1.0, 1e-3, trials=200_000, seed=1, neighbours="replace-one")
    assert sound.verdict == "consistent" and sound.lower_bound > 0.5
    monkeypatch.setattr(moments, "_replaced", lambda a2, b2: 2 * b2)
    assert audit_mechanism("moments", 1.0, 1e-3, trials=200_000, seed=1, neighbours="replace-one").refuted


def test_the_worst_angle_turns_from_opposite_to_orthogonal():
    angles = [MomentSum(2, 1.0, 0.1, b).worst_angle for b in (0.1, 0.7, 0.8, 1.0, 3.0)]
    assert angles[:2] == [-1.0, -1.0] and all(x < y for x, y in pairwise(angles[1:])) and angles[-1] > -0.1
