"""From what `fit` was given to tasks: arrays and tables in memory, or lazy tasks whose rows are on a cluster.

Weights of rows come along. A weight of 2 is a row that stands there twice, a weight of 0 one that does not. With unit = task
weights are the task's own business: whatever they do to its message, the message is clipped afterwards. With unit = record they
would let one row count for many, which no bound covers, so private runs refuse them there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.estimators import inputs
from taskveil.methods.base import Method, PublicInfo
from taskveil.privacy.per_task import REMEDY
from taskveil.privacy.plan import Budget, Plan
from taskveil.runtime.run import Run
from taskveil.tasks.arguments import some
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.grouping import task_chunks
from taskveil.tasks.prepare.facts import hashed_in
from taskveil.tasks.prepare.step import PrepareRules
from taskveil.tasks.prepare.unusable import SET_ASIDE, usable_counts
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import EXPOSURE, TaskSet, exposed_bounds
from taskveil.threads import each


def read_tasks(
    est: Any, X: Any, y: Any, task: Any, sample_weight: Any, rules: PrepareRules
) -> tuple[TaskSet, np.ndarray | None, Any]:
    """The tasks and the weights of their rows; where the rows are elsewhere, what is known of them and the lazy tasks."""
    lazy = _lazy_tasks(est, X, (y, task, sample_weight))
    if lazy is not None:
        return lazy.shell, None, lazy
    X, exposure = _with_exposure(est, X)
    X, person = inputs.split_carried(X, est.person, "person")
    bounds = exposed_bounds(PublicBounds.coerce(est.bounds), est.exposure)
    bad_rows = "error" if rules.by_record else "skip"
    how = inputs.Reading(est._kind, bounds, person, rules.unusable, est.missing, exposure, bad_rows)
    tasks = inputs.tasks_of(X, y, task, est.task_column, how)
    tasks = usable_counts(tasks, rules.unusable) if est._loss == "poisson" else tasks
    n_rows = None if isinstance(X, TaskSet) or y is None else len(np.asarray(y))
    return tasks, row_weights(est, tasks, sample_weight, n_rows), None


def _with_exposure(est: Any, X: Any) -> tuple[Any, Any]:
    """X without its column of exposures, and the exposures; None where there are none."""
    if est.exposure is not None and est._loss != "poisson":
        raise OptionError(f"exposure is what counts are per: it goes with loss='poisson', not with {est._loss!r}")
    return inputs.split_carried(X, est.exposure, "exposure")


def _lazy_tasks(est: Any, X: Any, given: tuple[Any, ...]) -> Any:
    """Tasks whose rows are elsewhere; None where they are in memory."""
    if not inputs.is_lazy(X) and est.runtime != "dask":
        return None
    from taskveil.estimators.partitioned import fit as partitioned

    partitioned.check_engine(est, est._method())
    return partitioned.lazy_tasks(est, X, given)


def fit_partitions(est: Any, lazy: Any, tasks: TaskSet, run: Run) -> None:
    """The run over partitions on a cluster; tasks in memory are cut into some."""
    from taskveil.estimators.partitioned import fit as partitioned
    from taskveil.tasks.lazy.tasks import lazy_from_tasks

    partitioned.fit(est, lazy_from_tasks(tasks) if lazy is None else lazy, run)


def checkpoint_of(est: Any, plan: Plan, public: PublicInfo, block: TaskBlock | str) -> Any:
    """Where the run is kept while it goes on; None where nobody asked. `block`: the rows, or their fingerprint."""
    if est.run_dir is None:
        return None
    from taskveil.runtime.checkpoint import Checkpoint

    return Checkpoint(est.run_dir, plan, public, block)


def check_each_budget(est: Any, method: Method, budget: Budget) -> None:
    """Budgets per task need messages that this process scales one by one."""
    if budget.task_epsilons is None or method.shares_nothing:
        return
    if method.schedule != "synchronous" or not (method.linear and method.weighs_tasks) or est.runtime != "in_process":
        where = f"runtime {est.runtime!r}" if est.runtime != "in_process" else f"method {method.name!r}"
        raise OptionError(f"a budget per task is refused for {where}; {REMEDY}")


def row_weights(estimator: Any, tasks: TaskSet, sample_weight: Any, n_given: int | None) -> np.ndarray | None:
    """The weight of every row of `tasks` (N,), or None where all count alike.

    `n_given`: rows of the table the caller passed, in whose order the weights come; None: in the order of `tasks`.
    """
    classes = estimator.class_weight
    if sample_weight is None and classes is None:
        return _exposure(tasks, str(estimator.unit))
    private = estimator.epsilon is not None
    if private and str(estimator.unit) == "record":
        raise OptionError(
            "sample_weight and class_weight are refused with unit='record': a row that counts for several would break the bound "
            "on what one row changes. Leave them out, or use unit='task'."
        )
    if not estimator._method(tasks).linear:
        raise OptionError(f"method {estimator._method(tasks).name!r} takes no weights of rows; leave sample_weight out")
    weights = np.ones(tasks.n_rows)
    if sample_weight is not None:
        weights = inputs.given_weights(sample_weight, tasks.n_rows if n_given is None else n_given, private)
        weights = weights if n_given is None else weights[np.asarray(tasks.row_index)]
    if classes is not None:
        weights = weights * inputs.class_weights(tasks, classes)
    if not private and not (weights > 0).any():
        raise DataError("every row has sample_weight zero; at least one weight must be above zero")
    exposure = _exposure(tasks, str(estimator.unit))
    return weights if exposure is None else weights * exposure


def _exposure(tasks: TaskSet, unit: str) -> np.ndarray | None:
    """What rates count by (N,): exposures in units of a task's own mean, or of the declared largest where rows are protected."""
    if tasks.exposure is None:
        return None
    if unit == "record":
        declared = None if tasks.bounds is None else tasks.bounds.features.get(EXPOSURE)
        if declared is None:
            raise OptionError(
                "unit='record' needs the range of the exposure to be declared, because through a task's own mean one row "
                "would change every message: name its column (exposure=COLUMN) and declare it under 'features' in the bounds"
            )
        return np.minimum(tasks.exposure, declared[1]) / declared[1]
    mean = np.array([tasks.exposure[tasks.rows(i)].mean() if n else 1.0 for i, n in enumerate(tasks.sizes)])
    return tasks.exposure / mean[tasks.task_of_row()]


def unusual_tasks(tasks: TaskSet, block: TaskBlock) -> list[str]:
    """Constant columns, one-row and one-class tasks: normal, but worth a word to the owner of all rows."""
    notes = [*tasks.notes, *(f.note() for f in tasks.facts)]
    names = np.asarray(tasks.task_names, dtype=object)
    aside = np.asarray(tasks.set_aside, dtype=object)
    if aside.size:
        notes.append(f"{aside.size} task(s): {some(aside, 3)}: {SET_ASIDE}")
    if tasks.n_tasks == 1:
        notes.append("there is only one task, so it learns alone; say which row belongs to which task (task=, task_column=)")
    single = names[tasks.sizes == 1]
    if single.size:
        notes.append(f"{single.size} task(s) with a single row use the shared or a constant model: {some(single, 3)}")
    if tasks.kind == "classification":
        top = np.abs(block.sums_by_task(block.y)).max(axis=1) if block.n_outputs == 1 else None
        one_class = names[(top == tasks.sizes) & (tasks.sizes > 0)] if top is not None else names[:0]
        if one_class.size:
            notes.append(f"{one_class.size} task(s) with a single class use the shared or a constant model: {some(one_class, 3)}")
    buckets = hashed_in(tasks.feature_names)  # most of a column's buckets are empty: that is no news
    constant = _constant_columns(
        block, [j for j, name in enumerate(tasks.feature_names) if name.rpartition("#")[0] not in buckets]
    )
    if constant:
        notes.append(f"{constant} (task, column) pair(s) are constant; a task has no slope of its own there")
    return notes


def _constant_columns(block: TaskBlock, columns: list[int]) -> int:
    """How many pairs of a task and one of the `columns` have no spread; no copy of X.

    Few tasks have the same number in their first row and their last: only where some do are all rows read.
    """
    sizes, offsets = block.sizes, block.offsets
    perhaps = np.zeros(block.n_tasks, dtype=bool)
    several = np.flatnonzero(sizes > 1)
    perhaps[several] = (block.X[offsets[several]] == block.X[offsets[several + 1] - 1])[:, columns].any(axis=1)

    def found(tasks: tuple[int, int]) -> int:
        own, rows = slice(*tasks), slice(offsets[tasks[0]], offsets[tasks[1]])
        if not perhaps[own].any():
            return 0
        X, filled = block.X[rows], np.flatnonzero(sizes[own])
        starts = offsets[own][filled] - rows.start
        same = np.maximum.reduceat(X, starts, axis=0) == np.minimum.reduceat(X, starts, axis=0)
        return int(same[perhaps[own][filled]][:, columns].sum())

    return sum(each(found, task_chunks(offsets)))
