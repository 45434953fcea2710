"""FedAvg, local training and MR-MTL with record-level DP-SGD in every silo, after Liu et al. 2022 (private-cross-silo-fl).

Their own code needs JAX of 2022, haiku and tensorflow_privacy, which no environment of today holds together; this is its
arithmetic in NumPy, all silos in one step, from trainers/{local,fedavg,mrmtl}.py at f16ff76:

    every round   each silo passes once over its rows in shuffled batches, the last incomplete one dropped
    a step        gradients of single rows, the pull towards the mean included, clipped to `clip`, summed, noise N(0, (z clip)^2),
                  divided by the batch
    the server    moves the common model by the mean of the silos' moves, weighted by their numbers of rows
    z             per silo, for rounds + 1 passes, as if batches were Poisson samples
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.field.noise_multiplier import noise_multiplier

Slope = Callable[[np.ndarray, np.ndarray], np.ndarray]  # scores, targets -> derivative of the loss in the score


def squared(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    return scores - y


def hinge(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(y * scores < 1.0, -y, 0.0)


@dataclass(frozen=True)
class Silos:
    """Training rows of all silos, with a column of ones, one after the other."""

    X: np.ndarray
    y: np.ndarray
    offsets: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        return np.diff(self.offsets)


@dataclass(frozen=True)
class Recipe:
    """What their scripts fix for a data set. `pull` is lambda of MR-MTL; None trains alone; `one_model` is FedAvg."""

    slope: Slope
    rounds: int
    batch: int
    step: float
    clip: float
    pull: float | None = None
    one_model: bool = False


def train(silos: Silos, recipe: Recipe, epsilon: float, delta: float, seed: int) -> np.ndarray:
    """(silos, d + 1) the model every silo uses in the end."""
    rng, counts = np.random.default_rng(seed), silos.counts
    batch = np.minimum(counts, recipe.batch)
    passes = recipe.rounds + 1
    noise = np.array([
        noise_multiplier(epsilon, delta, b / n, int(n // b) * passes) for b, n in zip(batch.tolist(), counts.tolist(), strict=True)
    ])  # fmt: skip
    models, common = np.zeros((len(counts), silos.X.shape[1])), np.zeros(silos.X.shape[1])
    for _ in range(passes):
        start = np.repeat(common[None], len(counts), axis=0) if recipe.one_model else models
        moved = _pass(silos, recipe, start, common, batch, noise, rng)
        common = common + np.average(moved - start, axis=0, weights=counts)
        models = moved
    return np.repeat(common[None], len(counts), axis=0) if recipe.one_model else models


def _pass(
    silos: Silos,
    recipe: Recipe,
    models: np.ndarray,
    common: np.ndarray,
    batch: np.ndarray,
    noise: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """One pass of every silo over its rows, silos that still have a batch in one step."""
    order = [rng.permutation(n) + first for n, first in zip(silos.counts, silos.offsets[:-1], strict=True)]
    models, widest = models.copy(), int(batch.max())
    for k in range(int((silos.counts // batch).max())):
        active = np.flatnonzero(silos.counts // batch > k)
        rows = np.zeros((len(active), widest), dtype=int)
        real = np.arange(widest) < batch[active, None]
        for place, silo in enumerate(active):
            rows[place, : batch[silo]] = order[silo][k * batch[silo] : (k + 1) * batch[silo]]
        X, w = silos.X[rows], models[active]
        slopes = recipe.slope(np.einsum("kbd,kd->kb", X, w), silos.y[rows])
        gradients = slopes[:, :, None] * X
        if recipe.pull is not None:
            gradients += recipe.pull * (w - common)[:, None]
        lengths = np.sqrt(np.square(gradients).sum(axis=2))
        total = (gradients * (np.minimum(1.0, recipe.clip / np.maximum(lengths, 1e-15)) * real)[:, :, None]).sum(axis=1)
        total += (recipe.clip * noise[active])[:, None] * rng.standard_normal(total.shape)
        models[active] = w - recipe.step * total / batch[active, None]
    return models
