"""The last step of a task whose rows were sent in declared units: nothing leaves any more, so it may use units of its own.

    w ~ N(0, t I)   or   N(k wbar, t I), k = 1/2, 1, 2;    all in units of the task's own spread of every column

Many rows (models_in_own_units) have an intercept of their own; few (models_near) stay near the common level as well.

Declared ranges are wide: in them a penalty of one size for all columns presses hard on those that use little of their range.
Learning alone is done in own units (methods/local.py), and a task that shares must not fall behind it. Unit record: own
deviations may not enter a message; here they enter what only its owner sees (docs/theory/model-protected.md#together-records).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taskveil.methods.alone import alone_models
from taskveil.methods.around_model import mixed_models
from taskveil.methods.base import Models, PublicInfo, View
from taskveil.methods.shared_prior import FEW_ROWS, weighed_models
from taskveil.solvers.evidence import LOG_PRIOR
from taskveil.solvers.posterior import Prior
from taskveil.tasks.block import TaskBlock

LENGTHS = (1.0, 0.5, 2.0)  # of a mean whose direction may be better than its length
CAUTION = -4.0  # log weight of what others say beside five rows for every coefficient: the centre is noisy
CONSTANT = 1e-9  # a column that spreads less than this part of its size is constant


def own_spread(block: TaskBlock) -> np.ndarray:
    """(m, d) deviation of every column in every task; one where it is constant or rows are too few to say."""
    X = np.asarray(block.X, dtype=float)
    middle = block.means_by_task(X)
    spread = np.sqrt(block.means_by_task(np.square(X - middle[block.task_of_row])))
    usable = (spread > CONSTANT * (1.0 + np.abs(middle))) & (block.counts >= FEW_ROWS)[:, None]
    return np.where(usable, spread, 1.0)


def in_own_spread(block: TaskBlock) -> tuple[TaskBlock, np.ndarray]:
    """The rows in units of their task's own spread, and that spread (m, d)."""
    spread = own_spread(block)
    return replace(block, X=np.asarray(block.X, dtype=float) / spread[block.task_of_row]), spread


def alone_in_own_units(block: TaskBlock, public: PublicInfo) -> Models:
    """What `local` does, whatever units the rows are in."""
    own, spread = in_own_spread(block)
    return _back(alone_models(own, public), spread)


def models_near(block: TaskBlock, public: PublicInfo, view: View, alone: Models) -> Models:
    """Every task's average over learning alone and staying near the public model (r, d or d + 1), level included."""
    (own, spread), model, d = in_own_spread(block), view["model"], public.n_features
    intercept = np.eye(model.shape[1])[:, d:]
    free, doubt = np.sqrt(d) * intercept, float(view["model_doubt"])
    options = [Prior(1.0, free, _near(model, spread, 0.0))]
    if np.any(model[:, :d]):
        near = _near(model, spread, 1.0)
        options += [Prior(1e-3, intercept, near, doubt), Prior(1.0, intercept, near, doubt)]
        options += [Prior(1.0, free, _near(model, spread, k), doubt) for k in LENGTHS]
    else:
        options += [Prior(1e-3, intercept, options[0].centre), Prior(1.0, intercept, options[0].centre)]
    belief = np.tile(LOG_PRIOR[public.loss], (len(options), 1))
    there = replace(alone, coef=alone.coef * spread[:, None, :])
    return _back(mixed_models(own, public, options, belief, there), spread)


def _near(model: np.ndarray, spread: np.ndarray, length: float) -> np.ndarray:
    """(m, r, width) the public model with its slopes so many times as long, in every task's own units."""
    d = spread.shape[1]
    slopes = length * model[None, :, :d] * spread[:, None, :]
    level = np.broadcast_to(model[None, :, d:], (len(spread), len(model), model.shape[1] - d))
    return np.concatenate([slopes, level], axis=2)


def _back(models: Models, spread: np.ndarray) -> Models:
    return replace(models, coef=models.coef / spread[:, None, :])


def models_in_own_units(block: TaskBlock, public: PublicInfo, mean: np.ndarray, doubt: float) -> Models:
    """Every task's average over learning alone and staying near the public mean (r, d), by the evidence of its own rows."""
    own, spread = in_own_spread(block)
    around = mean[None] * spread[:, None, :]
    near = [Prior(centre=k * around, log_weight=doubt + CAUTION) for k in LENGTHS] if np.any(mean) else []
    return _back(weighed_models(own, public, [Prior(), *near], own_scale=False), spread)
