"""A run that canary tasks took part in (fit --audit-canaries): afterwards they are nobody's tasks.

The canaries stood after the real tasks. The record keeps their number, because the plan, the sizes and the certificate are those
of a run with them; models, names, units and every figure are cut to the real tasks, so that nobody predicts for a canary, no page
shows one and no gain counts one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from taskveil.methods.base import Billboard, Models


def without_canaries(estimator: Any, count: int) -> None:
    """Cut a fitted estimator to its real tasks, in place."""
    real = slice(0, len(estimator.task_names_) - count)
    size, record = len(estimator.task_names_), estimator.record_
    estimator.task_names_ = tuple(estimator.task_names_[real])
    cut = {id(b): _board(b, real) for b in record.billboards}
    models = _models(record.models, real, size)
    boards = [cut[id(b)] for b in record.billboards]
    own = {name: value[real] for name, value in record.extra.items() if name == "clipped"}
    estimator.record_ = replace(record.without_states(), models=models, billboards=boards, canaries=count, extra=own)
    estimator.models_, estimator.scaling_ = models, estimator.scaling_.take(real)
    estimator.task_warnings_ = {n: w for n, w in estimator.task_warnings_.items() if n in set(estimator.task_names_)}
    estimator._training, estimator._gain = estimator._training.take(real), None
    estimator._tasks = estimator._tasks.take_tasks(range(real.stop))
    estimator._set_coefficients(estimator.method_, estimator.scaling_, models)


def _models(models: Models, real: slice, size: int) -> Models:
    extra = {name: value[real] if len(value) == size else value for name, value in models.extra.items()}
    kept = None if models.kept is None else models.kept[real]
    return Models(models.coef[real], models.intercept[real], kept, extra)


def _board(board: Billboard, real: slice) -> Billboard:
    values = {name: value[real] if name in board.per_task else value for name, value in board.values.items()}
    return replace(board, values=values, accepted=None)
