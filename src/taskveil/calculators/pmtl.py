"""Theorems 1, 3 and 5 of PMTL (Hu, Wu & Smith 2023): noise for a guarantee, and its price in convergence.

Theorem 1 is a privacy statement. With all m tasks in every round its constant is explicit and its proof is
right for eps <= 2 log(1/delta) (the step 1/(alpha - 1) <= 2/alpha needs alpha >= 2), against replacing one
task. With q < m tasks a round it rests on amplification by subsampling with unspecified constants;
fixed-size cohorts give none against m - 1 colluding tasks (they know who was not asked). We account with PLD
or RDP instead.

Theorems 3 and 5 (formal: 6 and 7 of the appendix) are rates; O(.) is evaluated with constant 1. Our copy of
eq. 29 is partly illegible; its orders are taken from the last line of its proof.
"""

from __future__ import annotations

import math

from taskveil.calculators.base import Calculation, positive, probability
from taskveil.errors import OptionError

TITLES = {
    "1": "Client-level privacy of the noisy mean",
    "3": "Convergence under nonconvex loss",
    "5": "Convergence under strongly convex loss",
}
PRIVACY_CAVEAT = (
    "loose: accountants (PLD, RDP) give less noise; the constant 4 is proved for epsilon <= 2 log(1/delta), replace-one"
)
COHORT_CAVEAT = (
    "constants c1, c2 unspecified (taken as 1), so this is an order and not a guarantee; "
    "amplification needs cohorts "
    "that other tasks cannot infer (Poisson), fixed-size cohorts give none against colluding tasks"
)
RATE_CAVEAT = "an order with constant 1, for a clip so large that nothing is clipped; privacy is not in question here"


def names() -> dict[str, str]:
    """Theorem numbers and titles."""
    return dict(TITLES)


def noise_for_all(n_tasks: int, n_rounds: int, epsilon: float, delta: float, clip_norm: float = 1.0) -> float:
    """sigma = 4 gamma sqrt(T log(1/delta))/(eps m).

    Noise on the mean when every task answers in every round.
    """
    positive(n_tasks=n_tasks, n_rounds=n_rounds, epsilon=epsilon, clip_norm=clip_norm)
    probability(delta=delta)
    return 4 * clip_norm * math.sqrt(n_rounds * math.log(1 / delta)) / (epsilon * n_tasks)


def privacy(
    *,
    n_tasks: int,
    n_rounds: int,
    epsilon: float,
    delta: float,
    clip_norm: float = 1.0,
    cohort: int | None = None,
    c1: float = 1.0,
    c2: float = 1.0,
) -> Calculation:
    """Theorem 1: standard deviation of the noise on the mean of clipped updates, per coordinate."""
    q = n_tasks if cohort is None else cohort
    if not 1 <= q <= n_tasks:
        raise OptionError(f"the cohort must have between 1 and {n_tasks} tasks, got {q}.")
    whole = q == n_tasks
    if whole:
        sigma = noise_for_all(n_tasks, n_rounds, epsilon, delta, clip_norm)
        limit = 2 * math.log(1 / delta)
        formula = "sigma = 4 gamma sqrt(T log(1/delta))/(epsilon m)"
    else:
        sigma = c2 * noise_for_all(n_tasks, n_rounds, epsilon, delta, clip_norm) / 4  # the cohort enters the condition only
        limit = c1 * (q / n_tasks) ** 2 * n_rounds
        formula = "sigma >= c2 gamma sqrt(T log(1/delta))/(epsilon m), epsilon < c1 (q/m)^2 T"
    values = {
        "noise_on_mean": sigma,
        "noise_on_sum": sigma * q,
        "noise_multiplier": sigma * q / clip_norm,
        "epsilon_at_most": limit,
        "condition_holds": epsilon <= limit if whole else epsilon < limit,
    }
    if whole:  # the same release accounted as zCDP: 2 gamma / m between neighbours, T rounds
        rho = 2 * n_rounds * (clip_norm / (n_tasks * sigma)) ** 2
        values["epsilon_by_zcdp"] = rho + 2 * math.sqrt(rho * math.log(1 / delta))
    return Calculation("PMTL Theorem 1", TITLES["1"], values, formula, PRIVACY_CAVEAT if whole else COHORT_CAVEAT)


def nonconvex(
    *,
    n_tasks: int,
    n_parameters: int,
    n_rounds: int,
    noise: float,
    smoothness: float = 1.0,
    regularisation: float = 1.0,
    cohort: int | None = None,
    local_steps: int = 1,
    start_gap: float = 1.0,
    loss_bound: float = 1.0,
) -> Calculation:
    """Theorem 3 (eq. 9, 29): mean squared gradient after T rounds.

    `noise` is sigma on the mean of updates.
    """
    positive(n_tasks=n_tasks, n_parameters=n_parameters, n_rounds=n_rounds, smoothness=smoothness, local_steps=local_steps)
    p = (n_tasks if cohort is None else cohort) / n_tasks
    L, lam, E = smoothness, regularisation, local_steps
    curved = L + lam + lam / p**2
    values = {
        "step": 1 / (p * L + (p + 2 / p) * lam),
        "descent_term": curved * start_gap / n_rounds,
        "drift_term": curved * loss_bound / E,
        "noise_term": n_parameters * lam * (L + lam + lam / p**2) * noise**2 / E,
    }
    values["gradient_order"] = values["descent_term"] + values["drift_term"] + values["noise_term"]
    formula = "O((L + lambda + lambda/p^2)(gap/T + B/E)) + O(d lambda (L + lambda + lambda/p^2) sigma^2/E)"
    return Calculation("PMTL Theorem 3", TITLES["3"], values, formula, RATE_CAVEAT)


def strongly_convex(
    *,
    n_parameters: int,
    n_rounds: int,
    noise: float,
    regularisation: float = 1.0,
    local_steps: int = 1,
    start_gap: float = 1.0,
    loss_bound: float = 1.0,
) -> Calculation:
    """Theorem 5 (eq. 12, 78): mean gap to the optimum after T steps: decay 2^-T towards a neighbourhood."""
    positive(n_parameters=n_parameters, n_rounds=n_rounds, regularisation=regularisation, local_steps=local_steps)
    lam, d = regularisation, n_parameters
    floor = lam * (d * noise**2 + 2 * math.sqrt(d) * noise * math.sqrt(2 * loss_bound / lam)) + loss_bound
    shrink = 1 - 0.5**local_steps
    values = {
        "decay_term": 0.5**n_rounds * (start_gap - floor),
        "neighbourhood_term": floor / shrink,
        "noise_share": (floor - loss_bound) / shrink,
        "gap_order": 0.5**n_rounds * (start_gap - floor) + floor / shrink,
    }
    formula = "2^-T (gap_0 - F) + F/(1 - 2^-E),  F = lambda(d sigma^2 + 2 sqrt(d) sigma sqrt(2B/lambda) + B/lambda)"
    return Calculation("PMTL Theorem 5", TITLES["5"], values, formula, RATE_CAVEAT)
