"""Fit over partitions: the same plan, loop and certificate as in memory; rows and models stay on the workers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.estimators import certify, common_units, inputs
from taskveil.estimators.partitioned import worker
from taskveil.estimators.partitioned.models import PartFile, PartitionedModels, lazy_frame
from taskveil.methods.base import Method
from taskveil.methods.common_scale import CommonScale
from taskveil.privacy.plan import Plan
from taskveil.runtime.checkpoint import Checkpoint
from taskveil.runtime.dask import worker as rounds
from taskveil.runtime.dask.cluster import connect, gathered, submit, wait
from taskveil.runtime.dask.partitions import Partitions, read_partitions, same
from taskveil.runtime.in_process import run_rounds
from taskveil.runtime.run import Run
from taskveil.tasks.arguments import some
from taskveil.tasks.lazy.tasks import LazyTasks
from taskveil.tasks.prepare.unusable import SET_ASIDE


def check_engine(estimator: Any, method: Method) -> None:
    """Refuse what does not run on partitions, before anything is read."""
    reasons = {
        f"method {method.name!r} is asynchronous": method.schedule == "asynchronous",
        f"aggregation {estimator.aggregation!r} (a cluster is a curator's)": estimator.aggregation != "curator",
        "scaling 'pooled-standard', a statistic of all rows at once": estimator.scaling == "pooled-standard",
        f"variant {estimator.variant!r}": estimator.variant != "sound" and estimator.epsilon is not None,
        "class_weight with unit='record'": estimator.class_weight is not None and str(estimator.unit) == "record",
        f"loss {estimator._loss!r}": estimator._loss not in ("squared", "logistic"),
        "a budget for each task": isinstance(estimator.epsilon, Mapping),
        "person=, whose rows may be in several partitions": estimator.person is not None,
    }
    for reason, applies in reasons.items():
        if applies:
            raise OptionError(f"runtime 'dask' does not run {reason}; use runtime='in_process'")


def lazy_tasks(estimator: Any, X: Any, given: tuple[Any, ...]) -> LazyTasks | None:
    """The tasks of a run over partitions, or None for a run in memory. `given`: y, task and sample_weight."""
    if given[2] is not None:
        raise OptionError("runtime 'dask' takes no sample_weight; use class_weight=, or runtime='in_process'")
    if not isinstance(X, LazyTasks):
        return None
    if estimator.runtime != "dask":
        raise OptionError("tasks loaded with lazy=True are trained with runtime='dask'; or load them into memory")
    if any(value is not None for value in given):
        raise OptionError("fit(tasks) takes lazy tasks alone: they hold targets and tasks, and rows have no weights of their own")
    if estimator.strict:
        raise OptionError("strict=True looks into the rows of every task, and those of lazy tasks are elsewhere; leave it out")
    if estimator.bounds is not None:
        raise OptionError("declare bounds where lazy tasks are loaded: load_tasks(..., bounds=..., lazy=True)")
    if X.kind != estimator._kind:
        raise OptionError(f"these tasks are {X.kind}; load them with kind={estimator._kind!r}, or use another estimator")
    check_engine(estimator, estimator._method(X.shell))
    return X


def fit(estimator: Any, tasks: LazyTasks, run: Run) -> None:
    """Run the plan over the partitions and keep what came of it as fitted attributes."""
    client, journalled = connect(estimator.client), estimator.run_dir is not None
    method, public, plan = run.method, run.public, run.plan
    rules, bought = estimator._rules(), isinstance(method, CommonScale)
    common = rounds.Common(method, public, plan)
    read = read_partitions(client, tasks)
    owns = [submit(client, worker.prepare, *rows, rules, bought, estimator.class_weight) for rows in read]
    del read
    facts = [submit(client, rounds.about, own, journalled) for own in owns]
    per_part = gathered(client, facts)
    _note_aside(estimator, [name for aside, _ in per_part for name in aside])
    account, source = estimator._account(plan, method.disclosure(public, plan).observers), estimator._source()
    data = hashlib.sha256("".join(digest for _, digest in per_part).encode()).hexdigest()
    checkpoint = Checkpoint(estimator.run_dir, plan, public, data) if journalled else None
    journal = account if checkpoint is None else checkpoint.account(account)
    bar = None if estimator.progress is None else Bar(estimator.progress, plan, tasks.n_partitions)
    partitions = Partitions(client, owns, tasks.cuts, common, None if bar is None else bar.answered)
    record = run_rounds(run.paid_by(journal, source, bar), partitions, checkpoint)
    record.charged = getattr(account, "charged", None)
    boards = submit(client, same, record.billboards)
    made: Any = record.models  # a future for each partition
    firsts = partitions.first

    def asked(work: Any) -> Any:
        return lambda k, *more: submit(client, work, owns[k], made[k], partitions.common, boards, firsts[k], *more)

    said: list[tuple[Any, ...]] = [()] * len(owns)
    if plan.budget.epsilon is None and not bought and common_units.weighs(method, record, rules.scaling != "none"):
        told = partitions.sweep(asked(worker.told))
        of_all = np.sum(gathered(client, [submit(client, worker.sums, one) for one in told]), axis=0)
        said = [(one, of_all) for one in told]
    parts = partitions.sweep(lambda k: asked(worker.settle)(k, *said[k]))
    wait(client, parts)
    models = PartitionedModels(parts, tasks.cuts, (public.n_tasks, public.n_outputs, public.n_features), client)
    record.models = models  # type: ignore[assignment]
    estimator._lazy = (client, owns, partitions.common, boards, partitions.first, tasks, [])
    keep(estimator, tasks, method, record, models)


class Bar:
    """One bar over partitions and rounds."""

    def __init__(self, show: Any, plan: Plan, n_partitions: int):
        self.show, self.size, self.total, self.over = show, n_partitions, len(plan.rounds()), 0
        if plan.budget.epsilon is not None and hasattr(show, "follow"):
            show.follow(lambda done: plan.spent_after(done // n_partitions))

    def __call__(self, done: int, total: int) -> None:
        self.over = done
        self.show(done * self.size, total * self.size)

    def answered(self, partitions: int) -> None:
        """So many partitions have answered in the round that is going on."""
        self.show(self.over * self.size + min(partitions, self.size - 1), self.total * self.size)


def keep(estimator: Any, tasks: LazyTasks, method: Method, record: Any, models: PartitionedModels) -> None:
    """Fitted attributes; arrays over tasks are lazy."""
    estimator.warnings_ += [*record.warnings, *record.notes]
    estimator._training, estimator._gain_summary = None, None
    scaling = models.on_part(worker.common_scaling, 0)
    prepared = replace(estimator.preparation_, scaling=scaling.mode, own_target=scaling.own_target, cluster=True)
    estimator._become(tasks.shell, method, scaling, record, prepared)
    estimator.certificate_ = certify.certificate(method, record, estimator.preparation_)
    set_coefficients(estimator, models)


def set_coefficients(estimator: Any, models: PartitionedModels) -> None:
    """coef_ and intercept_ as dask arrays, of models that have them."""
    if not estimator.method_.linear:
        return
    _, r, d = models.shape
    single = r == 1
    estimator.coef_ = models.lazy(partial(_numbers, "coef", single), (d,) if single else (r, d))
    estimator.intercept_ = models.lazy(partial(_numbers, "intercept", single), () if single else (r,))


def predict_lazy(estimator: Any, tasks: LazyTasks) -> Any:
    """A lazy frame with the task and the score of every row of lazy tasks, made where the rows are."""
    models = estimator.models_
    if not isinstance(models, PartitionedModels):
        raise OptionError("lazy tasks are predicted by models in partitions (runtime='dask'); load the table into memory")
    client = models.client or connect(estimator.client)
    position = inputs.task_positions(np.asarray(tasks.task_names, dtype=object), estimator.task_names_)
    if (position < 0).any():
        raise OptionError("some tasks of this table were not there in fit; predict them from memory, or adapt them")
    frames, common = [], rounds.Common(estimator.method_, estimator.record_.public, estimator.record_.plan)
    for k, rows in enumerate(read_partitions(client, tasks)):
        at = position[tasks.cuts[k] : tasks.cuts[k + 1]]
        needed = np.unique(np.searchsorted(models.cuts, at, side="right") - 1)
        cuts = [(int(models.cuts[j]), int(models.cuts[j + 1])) for j in needed]
        parts = [_part(client, models.parts[j]) for j in needed]
        frames.append(submit(client, worker.predicted, *rows, at, estimator.classes_, cuts, parts, common))
    return lazy_frame(client, frames)


def _part(client: Any, part: Any) -> Any:
    return submit(client, PartFile.read, part) if isinstance(part, PartFile) else part


def _note_aside(estimator: Any, names: list[str]) -> None:
    estimator.task_warnings_ = dict.fromkeys(names, (SET_ASIDE,))
    if names:
        estimator.warnings_.append(f"{len(names)} task(s): {some(names, 3)}: {SET_ASIDE}")


def _numbers(name: str, single: bool, part: worker.Part) -> np.ndarray:
    """Coefficients or intercepts of a partition; of a single output without its axis."""
    values: np.ndarray = getattr(part, name)
    return values[:, 0] if single else values
