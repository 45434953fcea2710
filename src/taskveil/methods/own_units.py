"""The last step of a task whose rows were sent in declared units: nothing leaves any more, so it may use units of its own.

    w ~ N(0, t I)   or   N(k wbar, t I), k = 1/2, 1, 2,   in units of its own spread of every column, or in declared ones

Declared ranges may be wide: in them a penalty of one size for all columns presses hard on those that use little of their range.
A rare category, in units of its own spread in a dozen rows, is hardly pressed on at all. So a task's own rows weigh both. All
have an intercept of the task's own, so that sharing cannot lose by anything but the slopes (models_in_either_units). Tasks
whose rows tell little have no such intercept: they stay near the public level (models_near). Unit record: own deviations may
not enter a message; here they enter what only its owner sees (docs/theory/model-protected.md#together-records).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import softmax

from taskveil.losses import LOSSES
from taskveil.methods.around_model import mixed_models
from taskveil.methods.base import Models, PublicInfo, View
from taskveil.methods.local import alone_models, best_intercepts, tells_little
from taskveil.methods.shared_prior import FEW_ROWS
from taskveil.solvers.evidence import LOG_PRIOR, averaged_models
from taskveil.solvers.posterior import Prior
from taskveil.tasks.block import TaskBlock

LENGTHS = (1.0, 0.5, 2.0)  # of a mean whose direction may be better than its length
CONSTANT_MODEL = 1e-6  # slopes of a model that keeps the level, over its intercept, in variance
CONSTANT = 1e-9  # a column that spreads less than this part of its size is constant


def own_spread(block: TaskBlock) -> np.ndarray:
    """(m, d) deviation of every column in every task; one where it is constant or rows are too few to say."""
    X = np.asarray(block.X, dtype=float)
    middle = block.means_by_task(X)
    spread = np.sqrt(block.means_by_task(np.square(X - middle[block.task_of_row])))
    usable = (spread > CONSTANT * (1.0 + np.abs(middle))) & (block.counts >= FEW_ROWS)[:, None]
    return np.where(usable, spread, 1.0)


def over(block: TaskBlock, spread: np.ndarray) -> TaskBlock:
    """The block with every task's columns divided by its own spread (tasks, features)."""
    return replace(block, X=np.asarray(block.X, dtype=float) / spread[block.task_of_row])


def alone_in_own_units(block: TaskBlock, public: PublicInfo) -> Models:
    """What `local` does: every task alone, its columns in units of their own spread, whatever units the block came in."""
    spread = own_spread(block)
    models = alone_models(over(block, spread), public)
    return replace(models, coef=models.coef / spread[:, None, :])


def models_in_either_units(block: TaskBlock, public: PublicInfo, slopes: np.ndarray, doubt: float = 0.0) -> Models:
    """Every task's average over learning alone and staying near the public slopes (r, d), by its own rows.

    Either is tried in the task's own units and in declared ones, which count as much: ranges may be far wider than a task's rows,
    and where columns are rare categories a task's own spread is mostly chance.
    """
    own, totals = own_spread(block), np.zeros((2, block.n_tasks))
    both = [_weighed(block, public, slopes, doubt, *of) for of in zip((own, np.ones_like(own)), totals, strict=True)]
    parts = softmax(totals, axis=0)
    coef = np.einsum("um,umrd->mrd", parts, [m.coef for m in both])
    intercept = np.einsum("um,umr->mr", parts, [m.intercept for m in both])
    weight = np.einsum("um,um->m", parts, [m.extra["weight_alone"] for m in both])
    return Models(coef, intercept, np.any(slopes) & (weight < 0.5), {"weight_alone": weight})


def _weighed(
    block: TaskBlock, public: PublicInfo, slopes: np.ndarray, doubt: float, spread: np.ndarray, total: np.ndarray
) -> Models:
    """The average in these units, for rows as they come; what they say of the units goes to `total` (m,)."""
    # without a doubt, sharing and learning alone count the same beforehand
    even = doubt - np.log(len(LENGTHS)) - flattery(block, public, slopes)
    around = slopes[None] * spread[:, None, :]
    near = [Prior(centre=k * around, log_weight=even) for k in LENGTHS] if np.any(slopes) else []
    rows, little = over(block, spread), tells_little(block, public.loss) & public.fit_intercept
    options = [Prior(), *near]
    W, weights = averaged_models(rows, options, public.loss, public.fit_intercept, own_scale=False, constant=little, total=total)
    b = best_intercepts(rows, W, LOSSES.get(public.loss), public.fit_intercept)
    return Models(W / spread[:, None, :], b, extra={"weight_alone": weights[:, 0]})


def flattery(block: TaskBlock, public: PublicInfo, slopes: np.ndarray) -> np.ndarray:
    """(m,) nats by which public slopes (r, d) fit a task's rows too well, because these rows are among those that made them.

    A nat for every slope that is not zero (Akaike 1974; Zou, Hastie & Tibshirani 2007), times the task's part of all rows.
    """
    return block.counts / max(1, sum(public.task_rows or ())) * (np.count_nonzero(slopes) / len(slopes))


def models_near(block: TaskBlock, public: PublicInfo, view: View, alone: Models) -> Models:
    """Every task's average over learning alone and staying near the public model (r, d or d + 1), level included."""
    spread, d, width = own_spread(block), public.n_features, view["model"].shape[1]
    intercept = np.eye(width)[:, d:]
    free, doubt = np.sqrt(d) * intercept, float(view["model_doubt"]) - flattery(block, public, view["model"][:, :d])
    level, near = (_near(view, k, spread) for k in (0.0, 1.0))
    options = [Prior(1.0, free, level), Prior(CONSTANT_MODEL, intercept, level)]
    if np.any(view["model"][:, :d]):
        options += [Prior(1e-3, intercept, near, doubt), Prior(1.0, intercept, near, doubt)]
        options += [Prior(1.0, free, _near(view, k, spread), doubt) for k in LENGTHS]
    belief = np.tile(LOG_PRIOR[public.loss], (len(options), 1))
    there = replace(alone, coef=alone.coef * spread[:, None, :])
    models = mixed_models(over(block, spread), public, options, belief, there)
    return replace(models, coef=models.coef / spread[:, None, :])


def _near(view: View, length: float, spread: np.ndarray) -> np.ndarray:
    """(m, r, width) the public model with its slopes so many times as long around the rows' centre, in every task's own units."""
    model, d = view["model"], spread.shape[1]
    slopes, level = model[:, :d], model[:, d:] + (1.0 - length) * (model[:, :d] @ view["centre"])[:, None]
    wide = np.broadcast_to(level[:, : model.shape[1] - d], (len(spread), len(model), model.shape[1] - d))
    return np.concatenate([length * slopes[None] * spread[:, None, :], wide], axis=2)
