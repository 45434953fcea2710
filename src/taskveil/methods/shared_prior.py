"""From noisy sums of directions to a public prior over models: a centre and a few common directions.

Everything here is post-processing of releases: it sees noisy sums, public sizes and the known law of the
noise.

What is summed are unit vectors, so that without anything in common among m tasks (uniform directions) the
sums have a known law too: the mean direction has variance 1/(mD) per coordinate (D = outputs x features),
entries of the second moment about m/(r d(d+2)). That null law is added to the noise. Directions are found in
spikes.py; a mean alone, and features, are used only where they stand out at 1 in 100. What is not certain goes
up with a doubt: a prior weight below one that every task gives it against learning alone. Tasks of six rows
cannot tell a wrong prior from a right one; the server can.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaincc

from taskveil.losses import LOSSES
from taskveil.methods.base import Models, PublicInfo, State, TaskSide, View
from taskveil.methods.common_units import CommonUnits
from taskveil.methods.local import best_intercepts, tells_little
from taskveil.privacy.mechanisms.base import gaussian_tail
from taskveil.privacy.plan import PlannedRelease
from taskveil.solvers.evidence import averaged_models
from taskveil.solvers.posterior import Prior
from taskveil.tasks.block import TaskBlock

FEW_ROWS = 5  # own units of fewer rows are none
CHANCE = 1e-2  # signals likelier than this to be chance are not used
CERTAIN = 1e-3  # signals less likely than this to be chance are not doubted
MOST = 0.98  # of the energy that common directions may explain: the rest keeps every direction possible
MOST_DIRECTIONS = 30  # a public number: more are hardly common, and each costs every task time
STATED = math.log(0.03)  # log weight of knowledge nobody here has tested: with six rows a task cannot tell a wrong one
RANGES = {  # of what is published
    "share": (0.0, 1.0), "basis": (-1.0, 1.0), "features": (0.0, 1.0),
    "mean_doubt": (-10.0, 0.0), "share_doubt": (-10.0, 0.0), "features_doubt": (-10.0, 0.0),
}  # fmt: skip
LENGTHS = (1.0, 0.5)  # of a centre: in units of its own target, a task with a wild value has shorter models than others
RESIDUAL_SHARES = (1.0, 0.1, 0.01)  # how much of the unexplained energy is real rather than estimation error


def noise_deviation(planned: PlannedRelease, n_tasks: float, aggregation: str) -> float:
    """Standard deviation of one coordinate of the noise in a sum, to which every task may have added its own."""
    deviation = planned.mechanism.coordinate_deviation(planned.contribution)
    return deviation * (math.sqrt(n_tasks) if aggregation in ("local", "local-model") else 1.0)


def log_doubt(log_chance: float) -> float:
    """Log prior weight of a signal that noise alone would show with this probability: 0 where it is
    certain.
    """
    return min(0.0, math.log(CERTAIN) - log_chance)


def denoised_mean(total: np.ndarray, deviation: float, n_tasks: float) -> tuple[np.ndarray, float]:
    """The mean of n_tasks unit vectors from their noisy sum, and its log doubt.

    Zero where its length may be chance (chi-squared), else shrunk by the noise's share of its length (James &
    Stein 1961).
    """
    mean = total / n_tasks
    size = mean.size
    variance = (deviation / n_tasks) ** 2 + 1.0 / (n_tasks * size)
    length = float(np.square(mean).sum())
    chance = float(gammaincc(size / 2, length / variance / 2))
    if chance > CHANCE:
        return np.zeros_like(mean), 0.0
    return mean * max(0.0, 1.0 - size * variance / length), log_doubt(math.log(max(chance, 1e-300)))


def common_features(
    diagonal: np.ndarray, deviation: float, n_tasks: float, n_outputs: int = 1, log_tail: Callable[[float], float] = gaussian_tail
) -> tuple[np.ndarray, float]:
    """(share (d,), log doubt): the part of the tasks' energy in each feature, noise removed.

    As above, but only the diagonal of the second moment was released: features are taken one by one, largest
    first, while their excess over an even spread of what is left has a chance below CHANCE among all that are
    left. `log_tail`: that of the noise (Mechanism.log_tail).
    """
    d = diagonal.size
    share, rest, doubt = np.zeros(d), float(n_tasks), 0.0
    for k, j in enumerate(np.argsort(-diagonal, kind="stable")[: min(max(d - 1, 1), MOST_DIRECTIONS)]):
        size = d - k
        spread = math.sqrt(deviation**2 + 2 * rest / (n_outputs * size * (size + 2)))
        excess = float(diagonal[j]) - rest / size
        chance = math.log(size) + log_tail(excess / spread)
        if excess <= 0.0 or chance > math.log(CHANCE):
            break
        if k == 0:
            doubt = log_doubt(chance)
        share[j] = excess * (1 - (spread / excess) ** 2) / n_tasks
        rest -= excess
        if rest <= (1 - MOST) * n_tasks:
            break
    return share * min(1.0, MOST / max(float(share.sum()), MOST)), doubt


def priors(
    centre: np.ndarray,
    share: np.ndarray,
    basis: np.ndarray,
    doubts: tuple[float, float] = (0.0, 0.0),
    features: tuple[np.ndarray, float] = (np.zeros(0), 0.0),
) -> list[Prior]:
    """What a task averages over, learning alone first. `centre` (r, d), `share` (d,), `basis` (d, d), public.

    alone; around the centre or half of it; along the centre's direction with a free length; around the centre or
    half of it within the common directions, the unexplained energy counted as 100, 10 or 1 % real; the common
    directions and the centre's, around zero; the same within common features. `doubts` are the log doubts of centre and
    directions, `features` the shares (d,) of features and their log doubt; a doubtful centre is kept out of
    the priors with directions.
    """
    d = share.size
    options = [Prior()]
    length = float(np.sqrt(np.square(centre).sum()))
    centres = [k * centre for k in LENGTHS] if length > 0.0 else []
    if centres:
        toward = (centre / length).T
        options += [Prior(centre=c, log_weight=doubts[0] - math.log(len(centres))) for c in centres]
        options.append(Prior(0.01, toward, log_weight=doubts[0]))
    certain = centres if doubts[0] >= 0.0 else []
    options += _along(share, basis, doubts[1], certain)
    return options + _along(features[0], np.eye(d), features[1], certain)


def outstanding(share: np.ndarray, basis: np.ndarray, floor: float) -> np.ndarray:
    """(d, q) directions as long as the root of their energy, of those with more than the floor they would stand on.

    Others say next to nothing, and each costs every task as much as any.
    """
    return basis[:, share > floor] * np.sqrt(share[share > floor])


def _along(share: np.ndarray, basis: np.ndarray, doubt: float, centres: list[np.ndarray]) -> list[Prior]:
    """Priors with these shares of their energy along a basis; with the centre's direction where there is one."""
    if not share.any():
        return []
    left = max(1.0 - float(share.sum()), 1.0 - MOST) / share.size  # a server may publish shares that add up to more
    common = outstanding(share, basis, min(RESIDUAL_SHARES) * left)
    around: list[np.ndarray | None] = [*centres] or [None]
    options = [Prior(k * left, common, c, doubt - math.log(len(around))) for k in RESIDUAL_SHARES for c in around]
    if centres:
        toward = (centres[0] / np.sqrt(np.square(centres[0]).sum())).T
        options.append(Prior(0.1 * left, np.hstack([common, np.sqrt(share.max()) * toward]), log_weight=doubt))
    return options


def published_priors(view: View, public: PublicInfo) -> list[Prior]:
    """The priors from what a billboard holds: a mean, shares along a basis, features, each with its doubt, or some of them."""
    d, r = public.n_features, public.n_outputs
    arrays = {"mean": np.zeros((r, d)), "share": np.zeros(d), "features": np.zeros(d), "basis": np.eye(d)}
    arrays |= {name: view[name] for name in arrays if name in view}
    doubts = {name: float(view[f"{name}_doubt"]) for name in arrays if f"{name}_doubt" in view}
    return priors(
        arrays["mean"], arrays["share"], arrays["basis"], (doubts.get("mean", 0.0), doubts.get("share", 0.0)),
        (arrays["features"], doubts.get("features", 0.0)),
    )  # fmt: skip


def stated_priors(public: PublicInfo) -> list[Prior]:
    """The priors from public knowledge that was there before the run."""
    if public.prior is None:
        return []
    arrays = public.prior.arrays
    return priors(arrays["mean"], arrays["share"], arrays["basis"], (STATED, STATED), (arrays["features"], STATED))[1:]


def weighed_models(block: TaskBlock, public: PublicInfo, options: list[Prior], *, own_scale: bool = True) -> Models:
    """Every task's average over the priors, learning alone first, by the evidence of its own rows.

    Tasks of very few rows whose units are their own learn alone: a deviation of two rows is no unit, and what others found in
    theirs says nothing here.
    """
    options = options + stated_priors(public)
    little = tells_little(block, public.loss) & public.fit_intercept
    W, weights = averaged_models(block, options, public.loss, public.fit_intercept, own_scale=own_scale, constant=little)
    few = block.counts < FEW_ROWS
    if few.any() and not (isinstance(block, CommonUnits) or public.declared_bounds or public.unit_rows):
        alone, _ = averaged_models(block, options[:1], public.loss, public.fit_intercept, constant=little)
        W, weights = np.where(few[:, None, None], alone, W), np.where(few[:, None], np.eye(len(options))[0], weights)
    b = best_intercepts(block, W, LOSSES.get(public.loss), public.fit_intercept)
    return Models(W, b, weights[:, 0] < 0.5, {"weight_alone": weights[:, 0]})


class WeighingTasks(TaskSide):
    """Keeps no state: messages and models follow from the rows and the last billboard."""

    def finish(self, state: State, view: View) -> Models:
        return weighed_models(self.block, self.public, published_priors(view, self.public))


def unit_messages(W: np.ndarray) -> np.ndarray:
    """Models (m, ...) scaled to length one; a model that is zero or not finite becomes the zero message."""
    flat = W.reshape(W.shape[0], -1)
    usable = np.isfinite(flat).all(axis=1)
    flat = np.where(usable[:, None], flat, 0.0)
    largest = np.abs(flat).max(axis=1, initial=0.0)
    flat = flat / np.where(largest > 0.0, largest, 1.0)[:, None]  # squares neither overflow nor vanish
    lengths = np.sqrt(np.square(flat).sum(axis=1))
    return (flat / np.where(lengths > 0.0, lengths, 1.0)[:, None]).reshape(W.shape)
