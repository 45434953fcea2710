"""Options that every task may choose for itself, on its own rows, after the last release: free, and nobody sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from taskveil.errors import OptionError
from taskveil.estimators.gain import FOLDS, row_losses
from taskveil.methods.base import Models
from taskveil.runtime.in_process import replay


def pick_locally(estimator: Any, grid: list[dict[str, Any]]) -> Any:
    """Replay the public billboards under every configuration; each task keeps the one with least held-out loss."""
    block, record = estimator._training, estimator.record_
    if any(board.per_task for board in record.billboards):
        raise OptionError("local tuning needs billboards that are the same for all tasks; this method addresses single tasks")
    methods = [_configured(estimator, options, record) for options in grid]
    folds = block.folds(FOLDS)
    losses = np.zeros((len(methods), block.n_tasks))
    for k in range(FOLDS):
        training = block.with_mask(folds != k)
        for g, method in enumerate(methods):
            models = replay(method, training, record.public, record.plan, record.billboards)
            losses[g] += block.means_by_task(row_losses(block, models, record.public.loss) * (folds == k))
    best = losses.argmin(axis=0)
    candidates = [replay(m, block, record.public, record.plan, record.billboards) for m in methods]
    task = np.arange(block.n_tasks)
    kept = None if candidates[0].kept is None else np.stack([np.asarray(c.kept) for c in candidates])[best, task]
    models = Models(
        np.stack([c.coef for c in candidates])[best, task], np.stack([c.intercept for c in candidates])[best, task],
        kept, {"configuration": best},
    )  # fmt: skip
    estimator.models_ = record.models = models
    estimator._set_coefficients(estimator.method_, estimator.scaling_, models)
    estimator._keep_own(estimator._tasks, block)
    estimator._gain = None
    return estimator


def _configured(estimator: Any, options: dict[str, Any], record: Any) -> Any:
    """The method under one configuration, which must ask for exactly the releases that were made."""
    wrong = [name for name in options if not name.startswith("method__")]
    if wrong:
        raise OptionError(f"only options of the method can be tuned locally (method__...), got {wrong[0]!r}")
    method = clone(estimator.method_).set_params(**{k.removeprefix("method__"): v for k, v in options.items()})
    requests = [(r.name, r.round, r.contribution) for r in method.requests(record.public, record.plan.budget)]
    releases = [(r.name, r.round, r.contribution) for r in record.plan.releases]
    if requests != releases:
        raise OptionError(
            f"configuration {options} changes what is released, so it is not a task's own choice: search it with "
            "TaskSearch(locally_tuned=False), which charges for it"
        )
    return method
