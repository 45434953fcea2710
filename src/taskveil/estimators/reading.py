"""From what `fit` was given to tasks: arrays and tables in memory, or lazy tasks whose rows are on a cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.estimators import inputs
from taskveil.estimators.weights import row_weights
from taskveil.methods.base import Method, PublicInfo
from taskveil.privacy.per_task import REMEDY
from taskveil.privacy.plan import Budget, Plan
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.step import PrepareRules
from taskveil.tasks.prepare.unusable import usable_counts
from taskveil.tasks.task import TaskSet, exposed_bounds


def read_tasks(
    est: Any, X: Any, y: Any, task: Any, sample_weight: Any, rules: PrepareRules
) -> tuple[TaskSet, np.ndarray | None, Any]:
    """The tasks and the weights of their rows; where the rows are elsewhere, what is known of them and the lazy tasks."""
    lazy = _lazy_tasks(est, X, (y, task, sample_weight))
    if lazy is not None:
        return lazy.shell, None, lazy
    X, exposure = _with_exposure(est, X)
    X, person = inputs.split_carried(X, est.person, "person")
    bounds = exposed_bounds(inputs.as_bounds(est.bounds), est.exposure)
    tasks = inputs.tasks_of(
        X, y, task, est.task_column, est._kind, bounds, person, rules.unusable, est.missing, exposure,
        bad_rows="error" if rules.by_record else "skip",
    )  # fmt: skip
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
