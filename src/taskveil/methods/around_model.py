"""Every task around a public model: the ways it may differ from it, weighed by what all tasks and its own rows say.

    model        (r, d or d + 1), with the common intercept as its last column
    share, basis directions in which tasks differ from it, where they are known
    belief       (ways, strengths): the log posterior of one way and strength for all, where they were asked

Local work after the last release: nothing here leaves a task but inside a clipped message.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from scipy.special import gammaincc

from taskveil.losses import LOSSES
from taskveil.losses.base import Loss
from taskveil.methods.base import Models, PublicInfo, State, View
from taskveil.methods.local import alone_models, tells_little
from taskveil.methods.shared_prior import CHANCE, log_doubt, outstanding
from taskveil.solvers.evidence import LOG_PRIOR, SIGNAL_TO_NOISE, averaged_but_first
from taskveil.solvers.posterior import Prior
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.grouping import row_chunks

KNOWN = ("model", "model_doubt", "share", "basis", "share_doubt", "belief")  # what a billboard says of the tasks' models
SENT = np.arange(2, 14, 2)  # strengths whose evidence is sent: 1e-3 to 1e2, a decade apart
WAYS, WITH_DIRECTIONS = 7, 2  # the last of them know common directions
SMALLEST_RATIO = 1e-4
LEFT = 0.01  # how much of the energy outside the common directions is real rather than estimation error


def nothing_known(r: int, width: int) -> State:
    """The billboard before the first release."""
    return {
        "model": np.zeros((r, width)), "model_doubt": np.array(0.0), "share": np.zeros(width), "basis": np.eye(width),
        "share_doubt": np.array(0.0), "belief": np.zeros((WAYS, len(SENT))),
    }  # fmt: skip


def ways(view: View, public: PublicInfo) -> list[Prior]:
    """How a task may differ from the public model (r, d or d + 1): see above. Alone first.

    Levels vary as much as all slopes together, or as much as one: with levels forced to vary, rows speak against directions.
    """
    model, share, basis, d = view["model"], view["share"], view["basis"], public.n_features
    r, width = model.shape
    intercept = np.eye(width)[:, d:]
    alone = np.zeros_like(model)
    alone[:, d:] = model[:, d:]
    slopes = model[:, :d] / max(float(np.sqrt(np.square(model[:, :d]).sum())), 1e-300)
    toward = np.zeros((width, r))
    toward[:d] = slopes.T
    doubt, unsure = float(view["model_doubt"]), float(view["share_doubt"])
    nothing_else = doubt + disbelief(model[:, :d], LOSSES.get(public.loss))
    free = math.sqrt(d) * intercept
    floor = LEFT * max(1.0 - float(share.sum()), 0.02) / width
    common = outstanding(share, basis, floor)
    energy = float(share.sum()) + floor * width
    if not common.shape[1]:
        unsure = -30.0
    return [
        Prior(1.0, free, alone),
        Prior(1e-3, intercept, model, nothing_else),
        Prior(1.0, intercept, model, doubt),
        Prior(1.0, free, model, doubt),
        Prior(1e-2, np.hstack([toward, intercept]), model, nothing_else),
        Prior(floor, np.hstack([common, math.sqrt(energy) * intercept]), model, unsure),
        Prior(floor, np.hstack([common, math.sqrt(2.0 * energy / width) * intercept]), model, unsure),
    ]


def disbelief(slopes: np.ndarray, loss: Loss) -> float:
    """Log weight of these being all the slopes a task has: by what the loss believes of signal-to-noise ratios.

    A model of tasks with nothing in common is clear of the noise where that is small, and says that nobody has slopes.
    """
    centre, below, _ = loss.strengths
    ratio = float(np.square(slopes).sum()) / len(slopes) * (loss.smoothness if loss.labels else 1.0)
    return -0.5 * min(0.0, (math.log10(max(ratio, SMALLEST_RATIO)) - centre) / below) ** 2


def beliefs(view: View, loss: str) -> np.ndarray:
    """(ways, strengths): what all tasks said, between the strengths they were asked about in a straight line."""
    grid, sent = np.log(SIGNAL_TO_NOISE), np.log(SIGNAL_TO_NOISE[SENT])
    return np.stack([np.interp(grid, sent, belief) for belief in view["belief"]]) + LOG_PRIOR[loss]


def models_around(block: TaskBlock, public: PublicInfo, view: View) -> Models:
    """Averages over ways and strengths; learning alone, the first of them, is what `local` does."""
    options, belief = ways(view, public), beliefs(view, public.loss)
    return mixed_models(block, public, options, belief, alone_models(block, public))


def mixed_models(block: TaskBlock, public: PublicInfo, options: list[Prior], belief: np.ndarray, alone: Models) -> Models:
    """Averages over priors of rows with a constant column, by belief and evidence; for the first of them `alone` stands in.

    Not where it would be the mean of a few numbers: what they say of the level is in the others already.
    """
    d, wide = public.n_features, replace(block, constant=public.fit_intercept)
    W, weights = averaged_but_first(wide, options, public.loss, False, log_prior=belief)
    b = W[:, :, d] if public.fit_intercept else np.zeros(W.shape[:2])
    few = tells_little(block, public.loss) & (not LOSSES.get(public.loss).labels) & public.fit_intercept
    own = np.where(few, 0.0, weights[:, 0, None])
    coef = W[:, :, :d]
    for rows in row_chunks(len(coef)):  # in place: what is in between would be as large as all models
        part = own[rows, :, None]
        coef[rows] = part * alone.coef[rows] + (1.0 - part) * coef[rows]
    return Models(coef, own * alone.intercept + (1.0 - own) * b, weights[:, 0] < 0.5, {"weight_alone": weights[:, 0]})


def chosen_models(first: np.ndarray, a: Models, b: Models) -> Models:
    """Models of `a` for the tasks that are `first`, of `b` for the others."""
    kept = np.where(first, _kept(a), _kept(b))
    wide = first[:, None]
    return Models(np.where(wide[:, :, None], a.coef, b.coef), np.where(wide, a.intercept, b.intercept), kept)


def _kept(models: Models) -> np.ndarray:
    return np.zeros(len(models.coef), dtype=bool) if models.kept is None else models.kept


def without_noise(mean: np.ndarray, deviation: float, certain: bool) -> tuple[np.ndarray, float]:
    """A noisy mean shrunk by the noise's share of its length (James-Stein), and its log doubt.

    Zero where it may be noise, unless it is `certain` that there is something: shrinking alone then costs nothing on average, and
    the small steps near the right model count.
    """
    length, noise = float(np.square(mean).sum()), mean.size * deviation**2
    if noise == 0.0:
        return mean, 0.0
    chance = float(gammaincc(mean.size / 2, length / deviation**2 / 2))
    if chance > CHANCE and not certain:
        return np.zeros_like(mean), 0.0
    return mean * max(0.0, 1.0 - noise / length), log_doubt(math.log(max(chance, 1e-300)))
