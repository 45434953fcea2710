"""MP-MTL's utility theorems against hand evaluation and against a numerical re-derivation of their exponents.

P-MTL's utility theorems against hand evaluation and against a numerical re-derivation of their exponents.
"""

import json
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from taskveil.calculators import mp_mtl, names
from taskveil.errors import OptionError, UnknownName

SIZES = {"n_tasks": 10_000, "n_features": 10, "epsilon": 1.0}
MU = {"strong_convexity": 0.1, "smoothness": 1.0}


def test_every_theorem_from_2_to_16_is_there():
    assert list(mp_mtl.names()) == [str(n) for n in range(2, 17)]
    assert "mp-mtl-2" in names() and "pmtl-5" in names()


@pytest.mark.parametrize("number", range(2, 17))
@pytest.mark.parametrize("fast", [False, True])
def test_every_theorem_carries_its_number_and_caveat(number, fast):
    c = mp_mtl.theorem(number, **SIZES, delta=1e-3, acceleration=fast, **MU)
    assert c.number == f"MP-MTL Theorem {number}"
    assert "unsound" in c.caveat and "constants unspecified" in c.caveat
    assert c.number in str(c) and "Note:" in str(c)
    assert json.loads(json.dumps(c.to_dict()))["theorem"] == c.number


def test_theorem_2_by_hand():
    """m = 10^4, d = 10, k = K = L = 1, eps = 1, delta = 1e-3, no acceleration, alpha = 0."""
    l = math.log(math.e + 1 / (math.sqrt(2) * 1e-3))
    M0 = math.sqrt(l + 2)  # |2 alpha + 1| = 1
    M = M0 * 10 * math.log(10) / 100
    v = mp_mtl.theorem(2, **SIZES, delta=1e-3, acceleration=False).values
    assert v["alpha"] == 0 and v["phi"] == pytest.approx(2 / 5)
    assert v["M0"] == pytest.approx(M0)
    assert v["M"] == pytest.approx(M) == pytest.approx(0.6739, abs=1e-4)
    assert v["rounds_order"] == pytest.approx((1 / M) ** 0.4)
    assert v["error_order"] == pytest.approx(M**0.4)


def test_theorem_3_accelerated_by_hand():
    """alpha = 2/5: (alpha/2 - 2)^2 = 3.24, |2 alpha + 1| = 1.8, phi = 4/9."""
    l = math.log(math.e + 1 / (math.sqrt(2) * 1e-3))
    M = math.sqrt(l + 2) / math.sqrt(1.8) * math.log(10) / 10_000
    v = mp_mtl.theorem(3, **SIZES, delta=1e-3).values
    assert v["error_order"] == pytest.approx((M / 3.24) ** (4 / 9))
    assert v["rounds_order"] == pytest.approx((3.24 / M) ** (2 / 9))
    assert v["largest_round_epsilon"] == pytest.approx(math.log(10) / (4 * 10 * 81 * 10_000))
    assert v["penalty_order"] == pytest.approx(10 * 100)


def test_theorem_4_by_hand():
    """mu/L = 0.1: Q0 = 0.9, Q = 0.9^(2/5), psi = 0.81, exponent 1/2."""
    Q = 0.9**0.4
    l = math.log(math.e + 1 / (math.sqrt(2) * 1e-3))
    M = math.sqrt(l + 2) / math.sqrt(1 - Q**2) * 10 * math.log(10) / 100
    b = (0.9 / math.sqrt(Q) - 1) ** 2
    v = mp_mtl.theorem(4, **SIZES, delta=1e-3, acceleration=False, **MU).values
    assert v["Q"] == pytest.approx(Q) and v["psi"] == pytest.approx(0.81)
    assert v["exponent"] == pytest.approx(0.5)
    assert v["error_order"] == pytest.approx(math.sqrt(M / b))
    assert v["rounds_order"] == pytest.approx(math.log(b / M) / math.log(1 / 0.81))
    assert v["rounds"] == 1  # M is larger than the bracket here: the bound is empty, one round is all


def test_theorem_7_has_no_log_term():
    v = mp_mtl.theorem(7, **SIZES, acceleration=False).values
    assert v["M0"] == 1.0 and v["phi"] == pytest.approx(1 / 3)
    assert v["error_order"] == pytest.approx((10 * math.log(10) / 100) ** (1 / 3))


def test_theorems_12_to_15_use_log_one_over_delta():
    v = mp_mtl.theorem(12, **SIZES, delta=1e-3, acceleration=False).values
    assert v["M0"] == pytest.approx(math.sqrt(math.log(1000) + 2))


@pytest.mark.parametrize("setting", [1, 2, 3])
@pytest.mark.parametrize("fast", [False, True])
def test_phi_is_continuous_across_its_borders_but_refuses_the_borders(setting, fast):
    low, high = (-1.0 if setting == 1 else -0.5), (4.0 if fast else 2.0)
    for border in (low, high):
        below = mp_mtl.phi(border - 1e-9, acceleration=fast, setting=setting)
        above = mp_mtl.phi(border + 1e-9, acceleration=fast, setting=setting)
        assert below == pytest.approx(above, abs=1e-8)
        with pytest.raises(OptionError, match="border"):
            mp_mtl.phi(border, acceleration=fast, setting=setting)


def test_psi_has_the_three_cases_of_equation_18():
    assert mp_mtl.psi(0.3, 0.81) == 0.3
    assert mp_mtl.psi(0.9, 0.81) == 0.81
    assert mp_mtl.psi(2.0, 0.81) == 0.405
    for border in (0.81, 1.0):
        with pytest.raises(OptionError, match="border"):
            mp_mtl.psi(border, 0.81)


@pytest.mark.parametrize("setting", [1, 2, 3])
@pytest.mark.parametrize("fast", [False, True])
def test_the_printed_alpha_minimises_the_bound_inside_the_middle_case(setting, fast):
    """Proof of Theorem 6.

    At fixed phi the bound falls with (alpha/2 - a)^2 times the slack of the composition.
    """
    a, low = (2 if fast else 1), (-1.0 if setting == 1 else -0.5)
    power = 1.0 if setting == 1 else 0.5
    found = minimize_scalar(lambda x: -((x / 2 - a) ** 2) * (x - low) ** power, bounds=(low, 2.0 * a), method="bounded")
    assert mp_mtl.best_alpha(acceleration=fast, setting=setting) == pytest.approx(found.x, abs=1e-4)


@pytest.mark.parametrize("setting", [1, 2, 3])
@pytest.mark.parametrize("fast", [False, True])
def test_the_printed_ratio_minimises_the_bound_inside_the_middle_case(setting, fast):
    base = 0.83
    root, low = (math.sqrt(base), base) if fast else (base, base**2)

    def gain(Q):
        slack = (1 - Q) if setting == 1 else math.sqrt(1 - Q**2)
        return (root / math.sqrt(Q) - 1) ** 2 * slack

    found = minimize_scalar(lambda Q: -gain(Q), bounds=(low, 1.0), method="bounded", options={"xatol": 1e-10})
    assert mp_mtl.best_ratio(base, acceleration=fast, setting=setting) == pytest.approx(found.x, abs=1e-6)


def _smallest_convex_error(M, alpha, fast, setting):
    """Schmidt et al.'s bound with prox errors M/eps_t, budgets eps_0 t^alpha of total 1, minimised over T.

    Not the paper's chain of lemmas: the sums are computed, not bounded.
    """
    t = np.arange(1, 200_001, dtype=float)
    total = np.cumsum(t**alpha) if setting == 1 else np.sqrt(np.cumsum(t ** (2 * alpha)))
    steps = np.cumsum((t if fast else 1) * np.sqrt(t**-alpha)) * np.sqrt(M * total)
    return ((1 + steps) ** 2 / (t**2 if fast else t)).min()


@pytest.mark.parametrize(("setting", "alpha"), [(1, 0.0), (1, 1.0), (1, -1.5), (3, 0.0), (3, -0.8), (3, 3.0)])
def test_the_exponent_of_the_convex_bound_is_what_the_sums_give(setting, alpha):
    M = np.array([1e-8, 1e-9])
    E = [_smallest_convex_error(x, alpha, False, setting) for x in M]
    slope = np.diff(np.log(E))[0] / np.diff(np.log(M))[0]
    assert slope == pytest.approx(mp_mtl.phi(alpha, acceleration=False, setting=setting), rel=0.03)


@pytest.mark.parametrize(("setting", "alpha"), [(1, 2 / 3), (1, 5.0), (3, 2 / 5), (3, -0.8)])
def test_the_exponent_of_the_accelerated_bound_is_what_the_sums_give(setting, alpha):
    M = np.array([1e-9, 1e-10])
    E = [_smallest_convex_error(x, alpha, True, setting) for x in M]
    slope = np.diff(np.log(E))[0] / np.diff(np.log(M))[0]
    assert slope == pytest.approx(mp_mtl.phi(alpha, acceleration=True, setting=setting), rel=0.03)


@pytest.mark.parametrize(("setting", "Q"), [(1, 0.9 ** (2 / 3)), (3, 0.9**0.4), (3, 0.5), (3, 1.3)])
def test_the_exponent_of_the_strongly_convex_bound_is_what_the_sums_give(setting, Q):
    """Prop. 3 of Schmidt et al.: Q0^T (1 + sum Q0^-t sqrt(M/eps_t)), minimised over T."""
    Q0, t = 0.9, np.arange(1, 500, dtype=float)

    def smallest(M):
        total = np.cumsum(Q**-t) if setting == 1 else np.sqrt(np.cumsum(Q ** (-2 * t)))
        return (Q0**t * (1 + np.cumsum(Q0**-t * np.sqrt(Q**t)) * np.sqrt(M * total))).min()

    M = np.array([1e-10, 1e-14])
    slope = np.diff(np.log([smallest(x) for x in M]))[0] / np.diff(np.log(M))[0]
    exponent = math.log(Q0) / math.log(mp_mtl.psi(Q, Q0**2))
    assert slope == pytest.approx(exponent, rel=0.05)


@pytest.mark.parametrize("number", [*range(2, 6), *range(7, 11), *range(12, 16)])
def test_more_tasks_and_more_budget_never_raise_the_bound(number):
    def error(**changed):
        return mp_mtl.theorem(number, **{**SIZES, "delta": 1e-3, **MU, **changed}).values["error_order"]

    assert error(n_tasks=40_000) < error()
    assert error(epsilon=2.0) < error()
    assert error(n_features=20) > error()


def test_optimal_allocations_beat_others():
    def error(**o):
        return mp_mtl.theorem(2, **SIZES, delta=1e-3, **o).values["error_order"]

    for alpha in (-0.3, 0.0, 1.0, 3.0):
        assert error() <= error(alpha=alpha)


def test_lemma_9_holds_for_the_budgets_it_is_about():
    """sqrt(sum eps_t^2) >= sqrt(2) eps/(2 sqrt(l + 2 eps)) when eps is the composition bound of eq.

    6's last term.
    """
    rng = np.random.default_rng(0)
    for _ in range(200):
        e = rng.uniform(0.001, 0.5) * rng.random(rng.integers(1, 60))
        delta = 10 ** rng.uniform(-8, -1)
        s = math.sqrt((e**2).sum())
        total = (np.tanh(e / 2) * e).sum() + math.sqrt(2 * s**2 * math.log(math.e + s / delta))
        l = math.log(math.e + total / (math.sqrt(2) * delta))
        assert s >= math.sqrt(2) * total / (2 * math.sqrt(l + 2 * total)) * (1 - 1e-12)


def test_assumption_1_by_hand():
    l = math.log(math.e + 1 / (math.sqrt(2) * 1e-3))
    low = mp_mtl.assumption_1("low-rank", n_features=30, epsilon=1.0, delta=1e-3)
    group = mp_mtl.assumption_1("group-sparse", n_features=30, epsilon=1.0, delta=1e-3)
    assert low == pytest.approx(900 * math.log(30) ** 2 * (l + 2))
    assert group == pytest.approx(math.log(30) * math.sqrt(l + 2))
    v = mp_mtl.theorem(2, n_tasks=320, n_features=30, epsilon=1.0, delta=1e-3).values
    assert v["assumption_1_at_constant_1"] is False, "the paper's own simulation has too few tasks for it"


def test_table_2_has_the_printed_exponents():
    rows = {(r["setting"], r["acceleration"], r["strongly_convex"]): r for r in mp_mtl.table_2(10_000, 10, 1.0)}
    printed = {
        ("delta = 0", False, False): 1 / 3,
        ("delta = 0", False, True): 1 / 2,
        ("delta = 0", True, False): 2 / 5,
        ("delta = 0", True, True): 1,
        ("delta > 0", False, False): 2 / 5,
        ("delta > 0", False, True): 1 / 2,
        ("delta > 0", True, False): 4 / 9,
        ("delta > 0", True, True): 1,
    }
    assert {k: r["exponent"] for k, r in rows.items()} == pytest.approx(printed)
    best = rows["delta > 0", True, True]
    assert best["low-rank"] == pytest.approx(10 * math.log(10) / 100)
    assert best["group-sparse"] == pytest.approx(math.log(10) / 10_000)


def test_theorems_6_11_16_list_the_printed_optima():
    six = mp_mtl.theorem(6, **SIZES, **MU).values
    assert (six["alpha, plain"], six["alpha, accelerated"]) == (0, 2 / 5)
    assert six["Q, plain"] == pytest.approx(0.9**0.4)
    assert six["Q, accelerated"] == pytest.approx((1 - math.sqrt(0.1)) ** 0.2)
    eleven = mp_mtl.theorem(11, **SIZES, **MU).values
    assert eleven["alpha, accelerated"] == pytest.approx(2 / 3)
    assert eleven["phi, accelerated"] == pytest.approx(2 / 5)
    assert mp_mtl.theorem(16, **SIZES).values["alpha, accelerated"] == 2 / 5


def test_claim_2_changes_its_mind_at_0_3819():
    assert mp_mtl.acceleration_helps(0.3819, 1.0)
    assert not mp_mtl.acceleration_helps(0.3820, 1.0)


@pytest.mark.parametrize(("epsilon", "delta", "n"), [(1.0, 1e-3, 30), (0.1, 1e-5, 251)])
def test_prop_3_inverts_group_privacy(epsilon, delta, n):
    e, d = mp_mtl.per_task(epsilon, delta, n)
    assert n * e == pytest.approx(epsilon)
    assert n * math.exp(n * e) * d == pytest.approx(delta)


@pytest.mark.parametrize(
    ("number", "options", "message"),
    [
        (1, {}, "no theorem 1"),
        (17, {}, "no theorem 17"),
        (2, {"delta": 0.0}, "delta must lie strictly between 0 and 1"),
        (2, {"epsilon": 0.0}, "epsilon must be a finite number above 0"),
        (2, {"epsilon": math.nan}, "epsilon must be a finite number above 0"),
        (4, {}, "needs strong_convexity"),
        (4, {"strong_convexity": 2.0}, "strictly between 0 and the smoothness"),
        (2, {"index": 0}, "k must lie between 1 and"),
        (2, {"alpha": -0.5}, "border"),
        (4, {"strong_convexity": 0.1, "ratio": 1.0}, "border"),
    ],
)
def test_theorems_refuse_what_they_do_not_cover(number, options, message):
    with pytest.raises((OptionError, UnknownName), match=message):
        mp_mtl.theorem(number, **{**SIZES, "delta": 1e-3, **options})
