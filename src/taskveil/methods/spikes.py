"""Common directions from a noisy second moment, by Bayes' rule and the known law of the noise. Post-processing of a release.

Tasks send unit vectors, so the second moment of m tasks has trace m. One direction v with energy l above an even rest has

    S = (m - l)/d I + l vv' + E        E symmetric Gaussian of deviation s (unrelated directions scatter too: added)

    log p(S | v, l) - log p(S | nothing in common) = [l v'Tv - l^2 (1 - 1/d)/2] / s^2        T: S without its trace

With v uniform on the sphere the integral over it is Bingham's constant, in the eigenvalues of S alone; the saddlepoint form of
Kume & Wood (2005) gives it and the second moments of v in closed form. Energies are believed to be uniform between nothing and
all that is left. The posterior mean of l vv' replaces S: near the largest eigenvectors where the signal is clear, even where
nothing can be known, with no threshold in between. It is taken off, and the next direction sought in what is left.

The log odds of the first direction are its doubt: the prior weight of all this against learning alone, for every task. An
estimate that keeps only eigenvalues beyond the noise's (Benaych-Georges & Nadakuditi 2011), used before, left nothing of weak
signals: docs/theory/model-protected.md#weak-signals.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit, logsumexp

from taskveil.methods.shared_prior import MOST, MOST_DIRECTIONS

PRIOR_ODDS = -2.0  # log: unrelated tasks are believed to be likelier than related ones
LEAST_ODDS = -3.0  # log odds below which nothing is published
MEAN_ODDS, LEAST_MEAN_ODDS = -4.0, -2.0  # the same for a mean, which says more and is weighed against more
NEXT_ODDS = math.log(0.5)  # and no further direction taken
ENERGIES = (np.arange(40) + 0.5) / 40  # of one direction, as parts of what is left
NEWTON_STEPS = 40


def common_directions(
    total: np.ndarray, deviation: float, n_tasks: int, n_outputs: int = 1
) -> tuple[np.ndarray, np.ndarray, float]:
    """(share (d,), basis (d, d), log doubt): the part of the tasks' energy along each direction beyond an even spread."""
    d = total.shape[0]
    values, vectors = np.linalg.eigh((total + total.T) / 2)
    vectors = vectors[:, ::-1]
    chance = _scatter(d, n_tasks, n_outputs)
    found, doubt, left = np.zeros(d), 0.0, (values - values.mean())[::-1]
    for j in range(min(d - 1, MOST_DIRECTIONS)):
        rest = n_tasks - float(found.sum())
        variance = deviation**2 + chance * rest
        if rest <= (1 - MOST) * n_tasks or (j == 0 and hopeless(deviation, n_tasks, d)):
            break
        energy, log_odds = _one_direction(left, variance, rest)
        if log_odds < (NEXT_ODDS if j else LEAST_ODDS):
            break
        if j == 0:
            doubt = min(0.0, log_odds)
        else:
            energy = energy * expit(log_odds)
        found, left = found + energy, left - (energy - energy.mean())
    share = (found - found.min()) / n_tasks
    return share * min(1.0, MOST / max(float(share.sum()), MOST)), vectors, doubt


def mean_within(
    total: np.ndarray, deviation: float, n_tasks: int, share: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, float]:
    """The mean (r, d) of unit vectors from their noisy sum, and its log doubt, where their second moment is known.

    A mean is no longer than its second moment in any direction, so it is believed to be N(0, second moment): the posterior mean
    keeps it where tasks have energy and shortens it elsewhere. Its doubt are the log odds against having none.
    """
    r, d = total.shape
    seen, kept, log_odds = _mean(total, deviation, n_tasks, share, basis)
    hidden = not share.any() and deviation * math.sqrt(r * d) >= n_tasks  # as long as a mean of tasks that all agree
    if hidden or log_odds < LEAST_MEAN_ODDS:
        return np.zeros_like(total), 0.0
    return seen * kept @ basis.T, min(0.0, log_odds)


def a_mean(total: np.ndarray, deviation: float, n_tasks: int, share: np.ndarray, basis: np.ndarray) -> float:
    """The log odds that there is a mean, as above."""
    return _mean(total, deviation, n_tasks, share, basis)[2]


def _mean(
    total: np.ndarray, deviation: float, n_tasks: int, share: np.ndarray, basis: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    r, d = total.shape
    believed = (share + (1.0 - float(share.sum())) / d) / r
    variance = (deviation / n_tasks) ** 2 + 1.0 / (n_tasks * r * d)
    seen, kept = total @ basis / n_tasks, believed / (believed + variance)
    log_odds = float(np.sum(np.square(seen) * kept / variance - np.log1p(believed / variance))) / 2 + MEAN_ODDS
    return seen, kept, log_odds


def first_direction(total: np.ndarray, deviation: float, n_tasks: int, n_outputs: int = 1) -> float:
    """The log odds that there is a common direction at all."""
    d = total.shape[0]
    values = np.linalg.eigvalsh((total + total.T) / 2)[::-1]
    variance = deviation**2 + _scatter(d, n_tasks, n_outputs) * n_tasks
    return -np.inf if d < 2 else _one_direction(values - values.mean(), variance, float(n_tasks))[1]


def hopeless(deviation: float, n_tasks: float, d: int) -> bool:
    """Whether little could be told even of tasks that all agree: the spectral radius of the noise is their whole energy."""
    return deviation * math.sqrt(2 * d) >= n_tasks


def _scatter(d: int, n_tasks: int, n_outputs: int) -> float:
    """Variance of the second moment of one unrelated task, as large as Marchenko & Pastur's."""
    return 2 / (n_outputs * d * (d + 2)) * (1 + math.sqrt(d / (n_outputs * n_tasks)) / 2) ** 2


def _one_direction(left: np.ndarray, variance: float, rest: float) -> tuple[np.ndarray, float]:
    """Posterior mean of l v_j^2 along each eigenvector, given that there is a direction; and the log odds that there is one."""
    energies = rest * ENERGIES
    log_constant, squares = bingham(energies[:, None] * left / variance)
    logs = log_constant - np.square(energies) * (1 - 1 / left.size) / (2 * variance)
    whole = logsumexp(logs)
    return np.exp(logs - whole) * energies @ squares, float(whole - math.log(len(energies)) + PRIOR_ODDS)


def bingham(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of exp(sum_j a_j v_j^2) over the unit sphere, for every row of a (g, d): the log mean (g,) and the means of v_j^2 (g, d).

    The mean is (1 / 2 pi i) int e^z prod_j (z - a_j)^(-1/2) dz up to a constant; its saddle z solves sum_j 1 / (2 (z - a_j)) = 1,
    and the terms of that sum are the v_j^2. Newton's steps from the left of a convex function stay there.
    """
    z = a.max(axis=1) + 0.5
    for _ in range(NEWTON_STEPS):
        terms = 0.5 / (z[:, None] - a)
        z = z + np.maximum(terms.sum(axis=1) - 1.0, 0.0) / (2.0 * np.square(terms).sum(axis=1))
    squares = 0.5 / (z[:, None] - a)
    d = a.shape[1]
    log_mean = z - d / 2 + 0.5 * np.log(d * squares).sum(axis=1) - 0.5 * np.log(d * np.square(squares).sum(axis=1))
    return log_mean, squares
