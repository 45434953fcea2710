"""Without noise: how far tasks go from the model of all rows, and from learning alone, by what rows say that were held out. Ours.

    "held-out"  loss of a task's rows under every blend of three models, the task's own ones fitted to the other folds

The three are the average around the public model (around_model.py), the public model itself and learning alone, in a task's own
units. Evidence believes in normal errors of one size within a task: of twenty rows with a few wild ones it is too sure, and
tables whose errors differ lost up to a tenth against one plain model of all rows. What is held out needs no such belief. The
public model has seen the rows; scores are set back by the leverage of a usual row. Sums of losses are exact, so this is asked
only where there is no noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import log_softmax, softmax

from taskveil.losses import LOSSES
from taskveil.losses.base import Loss
from taskveil.losses.logistic import shortened_for
from taskveil.methods.base import Models, PublicInfo, View
from taskveil.methods.own_units import alone_in_own_units
from taskveil.tasks.block import TaskBlock

HELD_OUT = "held-out"
FOLDS, STEPS = 4, 4
BLENDS = (
    np.array([(STEPS - i - j, i, j) for i in range(STEPS + 1) for j in range(STEPS + 1 - i)]) / STEPS
)  # around, public, alone
LEAST_BEND = 0.02


def held_out_losses(block: TaskBlock, public: PublicInfo, view: View, around: Callable[[TaskBlock], Models]) -> np.ndarray:
    """(m, blends) summed losses of rows that were not fitted."""
    loss, folds = LOSSES.get(public.loss), block.folds(FOLDS)
    scores = np.zeros((3, *block.y.shape))
    for k in range(FOLDS):
        held, rest = folds == k, block.with_mask(folds != k)
        for models, of in zip((around(rest), alone_in_own_units(rest, public)), (0, 2), strict=True):
            scores[of, held] = block.scores(models.coef, models.intercept)[held]
    slopes, level = public_model(public, view)
    scores[1] = _set_back(block.scores(slopes) + level, block.y, float(view["leverage"]), loss)
    losses = [_row_losses(np.tensordot(blend, scores, 1), block, loss) for blend in BLENDS]
    return block.sums_by_task(np.column_stack(losses) * (1.0 if block.weights is None else block.weights[:, None]))


def public_model(public: PublicInfo, view: View) -> tuple[np.ndarray, np.ndarray]:
    """(1, r, d) slopes and (1, r) intercepts of the public model."""
    model, d = view["model"], public.n_features
    return model[None, :, :d], model[None, :, d] if public.fit_intercept else np.zeros((1, len(model)))


def blended(around: Models, alone: Models, public: PublicInfo, view: View) -> Models:
    """The models that the published blend makes of the three."""
    blend, (coef, intercept) = view["blend"], public_model(public, view)
    if blend[0] == 1.0:
        return around
    return Models(
        blend[0] * around.coef + blend[1] * coef + blend[2] * alone.coef,
        blend[0] * around.intercept + blend[1] * intercept + blend[2] * alone.intercept,
        around.kept if blend[2] < 0.5 else np.zeros(len(around.coef), dtype=bool),
    )


def best_blend(total: np.ndarray) -> np.ndarray:
    """(3,) the one with the smallest loss."""
    return np.asarray(BLENDS[int(np.argmin(total))])


def _set_back(scores: np.ndarray, y: np.ndarray, leverage: float, loss: Loss) -> np.ndarray:
    """Scores as they would be without the row itself, to first order."""
    slope, bend = loss.derivative(scores, y), loss.second_derivative(scores, y)
    if (r := y.shape[1]) > 1:
        chances = softmax(shortened_for(r) * scores, axis=1)
        slope, bend = chances - (y > 0.0), chances * (1.0 - chances) * shortened_for(r)
    return np.asarray(scores + slope / np.maximum(bend, LEAST_BEND) * leverage / (1.0 - min(leverage, 0.5)))


def _row_losses(scores: np.ndarray, block: TaskBlock, loss: Loss) -> np.ndarray:
    """(N,): of numbers and two labels as it is, of more classes that of all scores together, as they are predicted with."""
    r = block.n_outputs
    if r == 1:
        return np.asarray(loss.value(scores, block.y)[:, 0])
    return np.asarray(-np.where(block.y > 0.0, log_softmax(shortened_for(r) * scores, axis=1), 0.0).sum(axis=1))
