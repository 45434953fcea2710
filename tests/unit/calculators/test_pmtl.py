"""PMTL's theorems by hand, and its privacy constant against zCDP."""

import math

import pytest

from taskveil.calculators import pmtl
from taskveil.errors import OptionError

FULL = {"n_tasks": 200, "n_rounds": 50, "epsilon": 1.0, "delta": 1e-5}


def test_theorem_1_with_all_tasks_by_hand():
    v = pmtl.privacy(**FULL, clip_norm=0.5).values
    sigma = 4 * 0.5 * math.sqrt(50 * math.log(1e5)) / 200
    assert v["noise_on_mean"] == pytest.approx(sigma)
    assert v["noise_on_sum"] == pytest.approx(200 * sigma)
    assert v["noise_multiplier"] == pytest.approx(400 * sigma)
    assert v["condition_holds"]


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 5.0, 2 * math.log(1e5)])
def test_the_explicit_constant_is_enough_where_the_proof_holds(epsilon):
    """zCDP of T Gaussian rounds with sensitivity 2 gamma/m, an independent account of the same releases."""
    v = pmtl.privacy(**{**FULL, "epsilon": epsilon}).values
    assert v["condition_holds"]
    rho = 50 * (2 / 200) ** 2 / (2 * v["noise_on_mean"] ** 2)
    assert v["epsilon_by_zcdp"] == pytest.approx(rho + 2 * math.sqrt(rho * math.log(1e5)))
    assert v["epsilon_by_zcdp"] <= epsilon


def test_half_the_noise_would_not_be_enough():
    """Twin: the same account refuses half of Theorem 1's noise."""
    sigma = pmtl.noise_for_all(200, 50, 1.0, 1e-5) / 2
    rho = 50 * (2 / 200) ** 2 / (2 * sigma**2)
    assert rho + 2 * math.sqrt(rho * math.log(1e5)) > 1.0


def test_theorem_1_says_when_its_condition_fails():
    assert not pmtl.privacy(**{**FULL, "epsilon": 30.0}).values["condition_holds"]


def test_theorem_1_with_cohorts_is_an_order_with_its_condition():
    c = pmtl.privacy(**FULL, cohort=20, c2=1.5)
    assert c.values["noise_on_mean"] == pytest.approx(1.5 * math.sqrt(50 * math.log(1e5)) / 200)
    assert c.values["epsilon_at_most"] == pytest.approx(0.01 * 50)
    assert not c.values["condition_holds"]
    assert "not a guarantee" in c.caveat


def test_theorem_3_by_hand():
    v = pmtl.nonconvex(
        n_tasks=100, n_parameters=10, n_rounds=20, noise=0.1, smoothness=2.0, regularisation=0.5, cohort=50, local_steps=4
    ).values
    curved = 2 + 0.5 + 0.5 / 0.25
    assert v["step"] == pytest.approx(1 / (0.5 * 2 + (0.5 + 4) * 0.5))
    assert v["descent_term"] == pytest.approx(curved / 20)
    assert v["drift_term"] == pytest.approx(curved / 4)
    assert v["noise_term"] == pytest.approx(10 * 0.5 * curved * 0.01 / 4)
    assert v["gradient_order"] == pytest.approx(sum(v[k] for k in ("descent_term", "drift_term", "noise_term")))


def test_theorem_5_is_the_recursion_it_is_proved_by():
    """Delta_{t+1} = Delta_t/2, plus F in every E-th step.

    Unrolled, it stays below the printed closed form.
    """
    lam, d, sigma, B, E, T = 0.3, 7, 0.2, 1.5, 3, 30
    F = lam * (d * sigma**2 + 2 * math.sqrt(d) * sigma * math.sqrt(2 * B / lam)) + B
    gap = 9.0
    for t in range(T):
        gap = gap / 2 + (F if (t + 1) % E == 0 else 0)
    v = pmtl.strongly_convex(
        n_parameters=d, n_rounds=T, noise=sigma, regularisation=lam, local_steps=E, start_gap=9.0, loss_bound=B
    ).values
    assert gap <= v["gap_order"] * (1 + 1e-9)
    assert v["neighbourhood_term"] == pytest.approx(F / (1 - 0.125))


def test_without_noise_the_noise_share_is_zero():
    assert pmtl.strongly_convex(n_parameters=5, n_rounds=3, noise=0.0).values["noise_share"] == 0


@pytest.mark.parametrize(
    ("sizes", "message"), [({**FULL, "cohort": 300}, "between 1 and 200"), ({**FULL, "delta": 1.0}, "delta must lie")]
)
def test_wrong_use_is_refused(sizes, message):
    with pytest.raises(OptionError, match=message):
        pmtl.privacy(**sizes)
