"""From noisy sums of directions to a public prior over models: a centre and a few common directions.

Everything here is post-processing of releases: it sees noisy sums, public sizes and the known law of the
noise.

What is summed are unit vectors, so that without anything in common among m tasks (uniform directions) the
sums have a known law too: the mean direction has variance 1/(mD) per coordinate (D = outputs x features),
the second moment is m/d times the identity with entries of variance about m/(r d(d+2)). That null law is
added to the noise, and a signal is used only where it stands out at 1 in 100: otherwise the billboard stays
empty and every task learns alone.
"""

from __future__ import annotations

import math

import numpy as np

from taskveil.methods.noise_level import noise_level
from taskveil.privacy.plan import PlannedRelease
from taskveil.solvers.posterior import Prior

CHI_SQUARED = 2.33  # normal quantile at 1 in 100, for the norm of a vector of noise
TRACY_WIDOM = 2.02  # quantile at 1 in 100 of the largest eigenvalue of a symmetric Gaussian matrix (beta = 1)
MOST = 0.98  # of the energy that common directions may explain: the rest keeps every direction possible
MOST_DIRECTIONS = 30  # a public number: more are hardly common, and each costs every task time
RESIDUAL_SHARES = (1.0, 0.1, 0.01)  # how much of the unexplained energy is real rather than estimation error


def noise_deviation(planned: PlannedRelease, n_tasks: float, aggregation: str) -> float:
    """Standard deviation of one coordinate of the noise in a sum (of a diagonal entry, for symmetric
    matrices).
    """
    mechanism, size = planned.mechanism, math.prod(planned.contribution.total_shape)
    if planned.contribution.symmetric:
        deviation = noise_level(planned) / math.sqrt(2 * planned.contribution.total_shape[0])
    else:
        others = {"none": 0.0, "laplace": math.sqrt(2), "l2-laplace": math.sqrt(size + 1.0)}
        factor = others.get(mechanism.name, 1.0)
        deviation = factor * mechanism.typical_scale if factor else 0.0
    return deviation * (math.sqrt(n_tasks) if aggregation == "local" else 1.0)


def denoised_mean(total: np.ndarray, deviation: float, n_tasks: float) -> np.ndarray:
    """The mean of n_tasks unit vectors from their noisy sum: zero, or shrunk by the noise's share of its
    length (James & Stein 1961)."""
    mean = total / n_tasks
    size = mean.size
    variance = (deviation / n_tasks) ** 2 + 1.0 / (n_tasks * size)
    length = float(np.square(mean).sum())
    if length <= variance * (size + CHI_SQUARED * math.sqrt(2 * size)):
        return np.zeros_like(mean)
    return mean * max(0.0, 1.0 - size * variance / length)


def common_directions(total: np.ndarray, deviation: float, n_tasks: int, n_outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(share (d,), basis (d, d)): how much of the tasks' energy lies along each direction, noise removed.

    Eigenvalues are taken one by one, largest first. What is left of the energy is spread evenly over what
    is left of the space; above it, symmetric Gaussian noise of spectral radius R lifts a true eigenvalue l
    > R/2 to l + R^2/(4l), and the eigenvector keeps 1 - R^2/(4 l^2) of its square (Benaych-Georges &
    Nadakuditi 2011). Eigenvalues within R are noise; the first must pass the Tracy-Widom quantile.
    """
    d = total.shape[0]
    values, vectors = np.linalg.eigh((total + total.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    share, rest = np.zeros(d), float(n_tasks)
    for j in range(min(max(d - 1, 1), MOST_DIRECTIONS)):
        size = d - j
        spread = math.sqrt(deviation**2 + 2 * rest / (n_outputs * size * (size + 2)))
        radius = spread * math.sqrt(2 * size)
        excess = float(values[j]) - rest / size
        edge = radius * (1 + TRACY_WIDOM / (2 * size ** (2 / 3))) if j == 0 else radius
        if excess <= edge:
            break
        true = (excess + math.sqrt(excess**2 - radius**2)) / 2
        share[j] = true * (1 - (radius / 2) ** 2 / true**2) / n_tasks
        rest -= true
        if rest <= (1 - MOST) * n_tasks:
            break
    return share * min(1.0, MOST / max(float(share.sum()), MOST)), vectors


def priors(centre: np.ndarray, share: np.ndarray, basis: np.ndarray) -> list[Prior]:
    """What a task averages over, learning alone first. `centre` (r, d), `share` (d,) and `basis` (d, d) are
    public.

    alone; around the centre; along the centre's direction with a free length; around the centre within the
    common directions, the unexplained energy counted as 100, 10 or 1 % real; the common directions and the
    centre's, around zero.
    """
    d = share.size
    found = [Prior()]
    length = float(np.sqrt(np.square(centre).sum()))
    has_centre, common = length > 0.0, basis[:, share > 0.0] * np.sqrt(share[share > 0.0])
    toward = (centre / length).T if has_centre else np.zeros((d, 0))
    if has_centre:
        found += [Prior(centre=centre), Prior(0.01, toward)]
    if common.shape[1]:
        left, middle = (1.0 - float(share.sum())) / d, centre if has_centre else None
        found += [Prior(k * left, common, middle) for k in RESIDUAL_SHARES]
        if has_centre:
            found.append(Prior(0.1 * left, np.hstack([common, np.sqrt(share.max()) * toward])))
    return found


def unit_messages(W: np.ndarray) -> np.ndarray:
    """Models (m, ...) scaled to length one; a model that is zero or not finite becomes the zero message."""
    flat = W.reshape(W.shape[0], -1)
    usable = np.isfinite(flat).all(axis=1)
    flat = np.where(usable[:, None], flat, 0.0)
    largest = np.abs(flat).max(axis=1, initial=0.0)
    flat = flat / np.where(largest > 0.0, largest, 1.0)[:, None]  # squares neither overflow nor vanish
    lengths = np.sqrt(np.square(flat).sum(axis=1))
    return (flat / np.where(lengths > 0.0, lengths, 1.0)[:, None]).reshape(W.shape)
