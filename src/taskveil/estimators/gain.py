"""Should I have joined? Each task's own answer, from its own rows (what tasks make of it: choice.py).

The billboards are public, so a task can replay them with some of its rows held out and compare, on those rows, what it
would have learnt with and without the others. Nothing is sent: it costs no privacy, and the answer belongs to the task
alone. The counts and means over tasks are private statistics of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from taskveil.errors import OptionError
from taskveil.estimators.metrics import concordance
from taskveil.losses import LOSSES
from taskveil.methods.base import USUAL_LOSS, Method, Models
from taskveil.methods.common_units import in_common_units
from taskveil.methods.local import alone_models
from taskveil.runtime.in_process import replay
from taskveil.runtime.run import RunRecord
from taskveil.solvers.solved_once import solved_once
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.scaling import units_of_counted
from taskveil.tasks.robust import medians
from taskveil.threads import small_matrix_threads

if TYPE_CHECKING:
    import pandas as pd

FOLDS = 5
ENOUGH = 2500  # rows over which a task's errors are measured; more of them would tell it nothing new
MEASURES = {  # what held-out losses are called, and what they are multiplied by: some losses carry a factor one half
    "squared": ("mean squared error (scaled target)", 2.0), "logistic": ("log loss", 1.0), "cox": ("1 - concordance", 1.0),
    "poisson": ("Poisson deviance (scaled rate)", 2.0), "huber": ("median squared error (scaled target)", 1.0),
}  # fmt: skip
Losses = tuple[np.ndarray, np.ndarray, TaskBlock]  # of rows: alone, shared; and the rows they are of

chosen_by: WeakKeyDictionary[TaskBlock, tuple[RunRecord, np.ndarray, np.ndarray]] = WeakKeyDictionary()
"""Mean losses alone and shared by which tasks have just chosen their models: the figures of that run are the same ones."""


@dataclass(frozen=True, repr=False)
class Gain:
    """Held-out error of every task, alone and shared, and which model it kept.

    Each entry is private to its task, because it was computed from that task's rows without noise. Counts and means over tasks
    are statistics of everybody's rows, and private as well.

    Attributes
    ----------
    task_names : tuple of str, length n_tasks
    error_alone : ndarray of shape (n_tasks,)
        Error of the model learned from the task's own rows only.
    error_shared : ndarray of shape (n_tasks,)
        Error of the model that also uses what the run published.
    kept_shared : ndarray of bool, shape (n_tasks,)
        Whether the task kept the shared model.
    metric : str
        What the errors measure.

    Examples
    --------
    >>> import taskveil as tv
    >>> est = tv.TaskRegressor(epsilon=1.0).fit(tv.get_synthetic("hospitals", n_tasks=10, seed=0).train)
    >>> gain = est.gain_
    >>> len(gain), gain.error_alone.shape
    (10, (10,))
    >>> sorted(gain.to_dict()["hospital-003"])
    ['clipped', 'error_alone', 'error_shared', 'kept', 'rows', 'typical_error_alone', 'typical_error_shared']
    """

    task_names: tuple[str, ...]
    error_alone: np.ndarray
    error_shared: np.ndarray
    kept_shared: np.ndarray
    metric: str
    target_scale: np.ndarray | None = None  # (m,) of regression: one unit of the scaled target, in the target's own units
    rows: np.ndarray | None = None  # (m,)
    clipped: np.ndarray | None = None  # (m,) mean share of a message's length that clipping took: how much less a task counts

    def to_dict(self) -> dict[str, dict[str, float | str]]:
        """Errors and choice of every task.

        `rows` is the task's number of rows. `clipped` is the share of its messages' length that clipping cut off. For
        regression there are also `typical_error_alone` and `typical_error_shared`, in the target's own units: the RMSE, or with
        loss "huber" the median absolute error.

        Returns
        -------
        dict of dict
        """
        entries: dict[str, dict[str, float | str]] = {
            name: {"error_alone": float(a), "error_shared": float(s), "kept": "shared" if k else "alone"}
            for name, a, s, k in zip(self.task_names, self.error_alone, self.error_shared, self.kept_shared)
        }
        for task, unit in zip(entries.values(), self.target_scale if self.target_scale is not None else ()):
            for which in ("alone", "shared"):
                task[f"typical_error_{which}"] = float(unit * np.sqrt(np.maximum(float(task[f"error_{which}"]), 0.0)))
        for name, values in (("rows", self.rows), ("clipped", self.clipped)):
            for task, value in zip(entries.values(), () if values is None else values.tolist()):
                task[name] = value
        return entries

    def _repr_html_(self) -> str:
        """In a notebook: one line for every task."""
        return self.to_frame()._repr_html_()

    def to_frame(self) -> pd.DataFrame:
        """One row per task: its error alone and shared, the change in percent, and which model it kept."""
        import pandas as pd

        frame = pd.DataFrame.from_dict(self.to_dict(), orient="index")
        alone = frame["error_alone"].where(frame["error_alone"] > 0)
        frame.insert(2, "change_percent", 100.0 * (frame["error_shared"] / alone - 1.0))
        return frame.rename_axis("task")

    def __repr__(self) -> str:
        kept = int(self.kept_shared.sum())
        return f"Gain({len(self)} tasks, {kept} keep the shared model; {self.metric}; to_frame() lists them)"

    def __len__(self) -> int:
        return len(self.task_names)


def measure_gain(method: Method, block: TaskBlock, record: RunRecord, models: Models, names: tuple[str, ...]) -> Gain:
    """k-fold errors alone and shared; at most five replays of the public billboards."""
    if not method.linear:
        return _recorded_gain(method, block, models, names)
    kept = models.kept if models.kept is not None else np.full(block.n_tasks, not method.shares_nothing)
    metric, factor = MEASURES[record.public.loss]
    errors = _errors(method, block, record)
    return Gain(names, factor * errors[0], factor * errors[1], np.asarray(kept, dtype=bool), metric)


def _errors(method: Method, block: TaskBlock, record: RunRecord) -> tuple[np.ndarray, np.ndarray]:
    """Of every task (m,), alone and shared: what is said of its held-out rows."""
    of, over = ROWS_AND_TASKS.get(record.public.loss, (row_losses, _mean))
    run, *known = chosen_by.pop(block, (None,))
    if run is record and over is _mean:
        return known[0], known[1]
    alone, shared, held = held_out(method, block, record, of)
    return over(alone, held), over(shared, held)


def in_target_units(gain: Gain, scaling: Any, loss: str) -> Gain:
    """The same with one unit of the scaled target in the target's own units, where errors have units."""
    return replace(gain, target_scale=scaling.y_scale) if loss in ("squared", "huber") else gain


def _mean(losses: np.ndarray, held: TaskBlock) -> np.ndarray:
    return held.means_by_task(losses)


def _median(squares: np.ndarray, held: TaskBlock) -> np.ndarray:
    """Of held-out rows (m,): a wild target has an error as wild under every model, and would drown all others in a mean."""
    return medians(squares, held.offsets, None if held.weights is None else held.weights > 0.0)


def _discordance(risk: np.ndarray, held: TaskBlock) -> np.ndarray:
    """One less the concordance of held-out risks (m,); one half where no two rows can be compared."""
    counted = np.ones(held.n_rows, dtype=bool) if held.weights is None else held.weights > 0.0
    shares = []
    for i in range(held.n_tasks):
        rows = np.arange(held.offsets[i], held.offsets[i + 1])[counted[held.rows(i)]]
        shares.append(1.0 - concordance(risk[rows], held.y[rows, 0]))
    return np.nan_to_num(np.asarray(shares), nan=0.5)


def _recorded_gain(method: Method, block: TaskBlock, models: Models, names: tuple[str, ...]) -> Gain:
    """Held-out errors that the tasks measured themselves when they chose their models."""
    if "error_alone" not in models.extra:
        raise OptionError(f"method {method.name!r} measured no gain: use personalise='choose' with 'alone' among the options")
    metric = "mean squared error (scaled target)" if block.kind == "regression" else "error rate"
    kept = np.asarray(models.kept, dtype=bool)
    return Gain(names, models.extra["error_alone"], models.extra["error_shared"], kept, metric)


def held_out(method: Method, block: TaskBlock, record: RunRecord, of: Callable[[TaskBlock, Models, str], np.ndarray]) -> Losses:
    """What `of` says of rows (N, ...) under models that did not see them, learnt alone and with the billboards; and the rows.

    Every row is held out once, but in tasks of thousands of rows the first folds are enough. How many a task uses depends on
    its own size alone: the figures and the choice of a task must not tell how many rows another one has.
    """
    folds, said = block.folds(FOLDS), np.zeros(0)
    used = np.clip(-(-ENOUGH // np.maximum(block.sizes, 1)), 1, FOLDS)
    counted = folds < used[block.task_of_row]
    for k in range(int(used.max(initial=1))):
        held = folds == k
        training, back = _without(block, held, record.public.loss)
        with solved_once(), small_matrix_threads(block.n_features):
            alone = alone_models(training, record.public)
            shared = replay(method, training, record.public, record.plan, record.billboards)
        for which, models in enumerate((alone, shared)):
            values = of(block, back(models), record.public.loss)
            said = np.zeros((2, *values.shape)) if not said.size else said
            said[which, held & counted] = values[held & counted]
    return said[0], said[1], block if counted.all() else block.with_mask(counted)


def _without(block: TaskBlock, held: np.ndarray, loss: str) -> tuple[TaskBlock, Callable[[Models], Models]]:
    """The block as tasks without the rows held out would have brought it, and the way back of models to its units."""
    training = block.with_mask(~held)
    if not block.own_units:
        return training, lambda models: models
    units = units_of_counted(training, loss)
    inside = in_common_units(training, units)

    def back(models: Models) -> Models:
        coef, intercept = units.coef_back(models.coef, models.intercept)
        return replace(models, coef=coef, intercept=intercept)

    return inside.with_rows(inside.X), back


def row_scores(block: TaskBlock, models: Models, loss: str) -> np.ndarray:
    """Score of every row under its task's model, without the intercept, which differs from fold to fold."""
    return block.scores(models.coef)[:, 0]


def row_squares(block: TaskBlock, models: Models, loss: str) -> np.ndarray:
    """Squared error of every row under its task's model."""
    with np.errstate(over="ignore"):
        return np.square(block.scores(models.coef, models.intercept) - block.y).sum(axis=1)


def row_outputs(block: TaskBlock, models: Models, loss: str) -> np.ndarray:
    """All scores (N, r) of every row under its task's model."""
    with np.errstate(over="ignore", invalid="ignore"):
        return block.scores(models.coef, models.intercept)


def row_losses(block: TaskBlock, models: Models, loss: str | None = None) -> np.ndarray:
    """Loss of every row under its task's model, summed over outputs; None: the usual one of the kind."""
    return LOSSES.get(loss or USUAL_LOSS[block.kind]).value(block.scores(models.coef, models.intercept), block.y).sum(axis=1)


ROWS_AND_TASKS = {"cox": (row_scores, _discordance), "huber": (row_squares, _median)}  # what is measured, but for losses of rows
