"""Shared or alone? Each task weighs the two by rows it held out: nothing is sent, and a bad shared model has no say.

A row's evidence is the difference of its held-out losses (gain.py). One more row is as the task's own model foretells it, where
a shared score s costs l(s) - l(a) - l'(a)(s - a) more than the task's own score a: beforehand a task believes its own model as
much as one row. Few rows may agree with wild scores by chance; that row does not.

    with noise      weight = P(t > ahead - CAUTION), Student's t of the task's own rows: nobody knows what others found
    without noise   weight = P(true difference < 0), the differences of all tasks being N(mean, variance): what looks good in
                    few rows is drawn to what all tasks say, both ways. Tasks differ at least as much as their mean says,
                    which is taken CAUTION_OF_ALL standard errors to the worse side

A mixture costs less than a wrong choice. Who gave a method options without noise asked for the optimum they state, and has it
(docs/theory/index.md#shared-or-alone).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, stdtr

from taskveil.estimators.gain import chosen_by, held_out, row_outputs
from taskveil.losses import LOSSES
from taskveil.methods.base import Method, Models
from taskveil.methods.local import alone_models
from taskveil.runtime.run import RunRecord
from taskveil.tasks.block import TaskBlock

CAUTION = 1.0  # standard errors by which sharing must win where noise hides what others found
CAUTION_OF_ALL = 2.0  # standard errors of the mean of all tasks: with few of them little is known, and they are in what is shared
OWN_ROWS = 1.0  # what a task's belief in its own model is worth
LARGEST_LOSS = 1e12  # differences of losses beyond this are as good as this


@dataclass(frozen=True)
class Evidence:
    """What held-out rows say of every task (m,): by how much the shared model is worse."""

    worse: np.ndarray  # mean difference of losses, the task's own belief among them
    spread: np.ndarray  # sum of squares about that mean
    among_rows: np.ndarray  # the same of the rows alone, about theirs
    rows: np.ndarray
    usable: np.ndarray  # whether all losses are numbers, and differ at all

    def sums(self) -> np.ndarray:
        """What all tasks together have to say, as sums over those that say anything."""
        x, n = self.worse[self.usable], self.rows[self.usable]
        return np.array([len(x), x.sum(), np.square(x).sum(), self.among_rows[self.usable].sum(), (n - 1.0).sum(),
                         (1.0 / (n + OWN_ROWS)).sum()])  # fmt: skip


def evidence(method: Method, block: TaskBlock, record: RunRecord) -> Evidence:
    """Held-out rows of every task, heard."""
    alone, shared, held = held_out(method, block, record, row_outputs)
    loss, n = LOSSES.get(record.public.loss), held.counts
    with np.errstate(over="ignore", invalid="ignore"):
        losses = [loss.value(scores, block.y).sum(axis=1) for scores in (alone, shared)]
        own = losses[1] - losses[0] - (loss.derivative(alone, block.y) * (shared - alone)).sum(axis=1)
    chosen_by[block] = record, held.means_by_task(losses[0]), held.means_by_task(losses[1])
    finite = held.means_by_task((np.isfinite(losses[0]) & np.isfinite(losses[1])).astype(float)) >= 1.0 - 1e-9
    difference, doubt = (_bounded(values, held, finite) for values in (losses[1] - losses[0], own))
    mean, belief = held.means_by_task(difference), held.means_by_task(doubt)
    among = n * np.maximum(held.means_by_task(np.square(difference)) - np.square(mean), 0.0)
    worse = (n * mean + OWN_ROWS * belief) / (n + OWN_ROWS)
    spread = among + n * np.square(mean - worse) + OWN_ROWS * np.square(belief - worse)
    return Evidence(worse, spread, among, n, finite & (n > 1.0) & ((mean != 0.0) | (among > 0.0)))


def _bounded(values: np.ndarray, held: TaskBlock, finite: np.ndarray) -> np.ndarray:
    """(N,) with nothing that would overflow; zero in tasks that are not heard."""
    return np.where(finite[held.task_of_row], np.clip(np.nan_to_num(values), -LARGEST_LOSS, LARGEST_LOSS), 0.0)


def keep_the_better(
    method: Method, block: TaskBlock, record: RunRecord, told: Evidence | None = None, of_all: np.ndarray | None = None
) -> Models:
    """Each task's own model and the shared one, weighed as above; a shared model that is not finite has no weight.

    `told` is what its rows said, where that is known, and `of_all` the sums of all tasks where this block has only some.
    """
    told = evidence(method, block, record) if told is None else told
    noisy = record.plan.budget.epsilon is not None
    weight = own_weights(told) if noisy else weights_among_all(told, told.sums() if of_all is None else of_all)
    models, local = record.models, alone_models(block, record.public)
    usable = told.usable & np.isfinite(models.coef).all(axis=(1, 2)) & np.isfinite(models.intercept).all(axis=1)
    weight = np.where(usable, weight, 0.0)
    return Models(
        _mixed(weight[:, None, None], models.coef, local.coef),
        _mixed(weight[:, None], models.intercept, local.intercept),
        weight > 0.5,
        models.extra,
    )


def own_weights(told: Evidence) -> np.ndarray:
    """(m,) by each task's own rows."""
    free = np.maximum(told.rows - 1.0 + OWN_ROWS, 1.0)
    ahead = -told.worse * np.sqrt(free * (told.rows + OWN_ROWS)) / np.maximum(np.sqrt(told.spread), 1e-12)
    return np.where(told.worse < 0.0, stdtr(free, ahead - CAUTION), 0.0)


def weights_among_all(told: Evidence, of_all: np.ndarray) -> np.ndarray:
    """(m,) by each task's rows, among what all tasks say; `of_all` is Evidence.sums."""
    tasks, total, squares, among, free, shares = of_all
    if not tasks:
        return np.zeros(len(told.worse))
    of_row, middle = among / max(free, 1.0), total / tasks
    noise, usual = of_row / (told.rows + OWN_ROWS), of_row * shares / tasks
    differ = max((squares - tasks * middle**2) / max(tasks - 1.0, 1.0) - usual, middle**2) + 1e-300
    middle += CAUTION_OF_ALL * np.sqrt((differ + usual) / tasks)
    drawn = noise / (differ + noise + 1e-300)
    true = (1.0 - drawn) * told.worse + drawn * middle
    doubt = drawn * differ + np.square(drawn) * (differ + usual) / tasks
    return np.asarray(ndtr(-true / np.sqrt(doubt + 1e-300)))


def _mixed(weight: np.ndarray, shared: np.ndarray, alone: np.ndarray) -> np.ndarray:
    """The weighted mean; exactly shared where that is certain, exactly alone where the weight is zero, whatever shared is."""
    return np.where(weight > 0.0, weight * shared + (1.0 - weight) * alone, alone)
