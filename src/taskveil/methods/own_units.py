"""The last step of a task whose rows were sent in declared units: nothing leaves any more, so it may use units of its own.

    w ~ N(0, t I)   or   N(k wbar, t I), k = 1/2, 1, 2;    all in units of the task's own spread of every column

Declared ranges are wide: in them a penalty of one size for all columns presses hard on those that use little of their range.
Learning alone is done in own units (methods/local.py), and a task that shares must not fall behind it. Unit record: own
deviations may not enter a message; here they enter what only its owner sees (docs/theory/model-protected.md#together-records).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taskveil.methods.base import Models, PublicInfo
from taskveil.methods.shared_prior import FEW_ROWS, weighed_models
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


def models_in_own_units(block: TaskBlock, public: PublicInfo, mean: np.ndarray, doubt: float) -> Models:
    """Every task's average over learning alone and staying near the public mean (r, d), by the evidence of its own rows."""
    spread = own_spread(block)
    own = replace(block, X=np.asarray(block.X, dtype=float) / spread[block.task_of_row])
    around = mean[None] * spread[:, None, :]
    near = [Prior(centre=k * around, log_weight=doubt + CAUTION) for k in LENGTHS] if np.any(mean) else []
    models = weighed_models(own, public, [Prior(), *near], own_scale=False)
    return replace(models, coef=models.coef / spread[:, None, :])
