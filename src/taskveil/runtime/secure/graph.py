"""Who masks with whom: the complete graph, or the sparse random graph of Bell et al. 2020 when there are many
tasks.

Bell, Bonawitz, Gascon, Lepoint, Raykova 2020 (Secure single-server aggregation with (poly)logarithmic
overhead) replace the complete graph by a k-regular one of logarithmic degree: a circulant (Harary) graph on a
random permutation of the tasks. With t colluding tasks and d dropouts, fixed before the permutation is drawn,
two things must hold except with probability 2^-security_bits, and a third so that rounds finish:

  connected   the honest tasks that stay are connected, so the server learns nothing but their total. A
              circulant with offsets 1..k/2 can only fall apart where k/2 consecutive tasks are all gone:
              n * prod_{i < k/2} (t + d - i)/(n - i).
  secret      no honest task has `threshold` or more colluding neighbours: n * P(Hypergeometric(c-1, t, k) >=
              threshold), c = n - d the smallest accepted cohort (the worst case: everybody else left before
              the graph was drawn).
  alive       every task keeps `threshold` living share holders (itself included, neighbours), except with
              probability 2^-correctness_bits; otherwise the round is refused, never wrong.

We compute the hypergeometric tails exactly instead of the paper's closed-form bounds, which gives smaller
degrees.
"""

from __future__ import annotations

import math
import secrets

import numpy as np
from scipy.stats import hypergeom

from taskveil.errors import OptionError


def choose_degree(
    n_tasks: int, colluders: int, dropouts: int, security_bits: float = 40.0, correctness_bits: float = 20.0
) -> tuple[int, int]:
    """Smallest even degree with a threshold that meets all three; (n - 1, n - dropouts) means complete."""
    if colluders + dropouts >= n_tasks:
        raise OptionError(
            f"colluders ({colluders}) and dropouts ({dropouts}) must leave at least one of {n_tasks} tasks; "
            f"lower the shares or enrol more tasks"
        )
    complete = (n_tasks - 1, n_tasks - dropouts)
    for degree in range(2, n_tasks // 2, 2):  # a denser one is not worth a chance of refusal
        if disconnection_probability(n_tasks, colluders + dropouts, degree) > 2.0 ** (-security_bits - 1):
            continue
        threshold = choose_threshold(n_tasks, colluders, dropouts, degree, security_bits + 1, correctness_bits)
        if threshold is not None:
            return degree, threshold
    return complete


def disconnection_probability(n_tasks: int, gone: int, degree: int) -> float:
    """Union bound over the n places where degree/2 consecutive tasks may all be gone."""
    half = degree // 2
    if gone < half:
        return 0.0
    log_run = sum(math.log((gone - i) / (n_tasks - i)) for i in range(half))
    return min(1.0, n_tasks * math.exp(log_run))


def choose_threshold(
    n_tasks: int, colluders: int, dropouts: int, degree: int, security_bits: float, correctness_bits: float
) -> int | None:
    """The largest threshold above what colluders can collect and below what survives, or None."""
    counts = np.arange(1, degree + 2)
    collected = opening_probability(n_tasks, colluders, dropouts, degree, counts)
    alive = hypergeom(n_tasks - 1, n_tasks - 1 - dropouts, degree)  # neighbours that stay
    missing = n_tasks * alive.cdf(counts - 1)  # fewer than threshold holders even without the owner's own share
    good = (collected <= 2.0**-security_bits) & (missing <= 2.0**-correctness_bits)
    return int(counts[good].max()) if good.any() else None


def opening_probability(n_tasks: int, colluders: int, dropouts: int, degree: int, threshold: int | np.ndarray) -> np.ndarray:
    """Union bound: some honest task has at least `threshold` colluding neighbours."""
    others = n_tasks - dropouts - 1
    tail = hypergeom.sf(np.asarray(threshold) - 1, others, min(colluders, others), min(degree, others))
    return np.asarray(np.minimum(1.0, n_tasks * tail))


def failure_probability(n_tasks: int, colluders: int, dropouts: int, degree: int, threshold: int) -> float:
    """Bound on the chance that a sparse graph reveals more than the total; zero for the complete graph."""
    if degree >= n_tasks - 1:
        return 0.0
    secret = float(opening_probability(n_tasks, colluders, dropouts, degree, threshold))
    return min(1.0, secret + disconnection_probability(n_tasks, colluders + dropouts, degree))


def draw_graph(members: list[int], degree: int) -> dict[int, tuple[int, ...]]:
    """Neighbours of every member: all others, or a circulant on a randomly permuted circle."""
    n = len(members)
    if degree >= n - 1:
        return {task: tuple(other for other in members if other != task) for task in members}
    order = list(members)
    secrets.SystemRandom().shuffle(order)
    half = degree // 2
    steps = [*range(-half, 0), *range(1, half + 1)]
    return {task: tuple(sorted(order[(i + step) % n] for step in steps)) for i, task in enumerate(order)}
