"""The two laws of docs/theory/preparation.md#isolation as checks over a configured estimator, from raw table to last page.

`check_task_law` and `check_record_law` fit twice, the second time with the first run's billboards (support/isolation.py), and say
what differs that must not. A configuration (`Setup`) is a method, a unit, a kind and preparation options; the suites in
tests/metamorphic run over all of them.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, Phase, settings

import taskveil as tv
from taskveil import methods
from taskveil.estimators import estimator_for
from taskveil.report.audience import Audience, cut
from taskveil.report.records import from_estimator, measured_gain
from tests.support.isolation import Trace, differences, same, traced
from tests.support.raw_tables import NUMBERS, SEEN, TASKS

# What a method needs beside its defaults; a new method is covered without a line here unless it needs one.
LOSS = {"counts": "poisson", "robust": "huber"}  # kinds of targets that are a regression with another loss
KINDS = dict.fromkeys(LOSS, "regression")
NEEDED: dict[str, dict[str, Any]] = {"clustered-mean": {"clusters": ["x", "x", "y", "y"]}}
QUICK = {"rounds": 2, "tune_steps": 4}  # of methods on the neural engine

EXAMPLES = int(os.environ.get("TASKVEIL_EXAMPLES", "2"))
calm = {"deadline": None, "database": None, "phases": [Phase.generate], "suppress_health_check": list(HealthCheck)}
few = settings(max_examples=EXAMPLES, derandomize=True, **calm)  # the same in every run
long = settings(max_examples=25 * EXAMPLES, **calm)


@dataclass(frozen=True)
class Setup:
    """One configuration, as a user would write it."""

    method: str = "subspace"
    kind: str = "regression"
    unit: str = "task"
    loading: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    search: dict[str, Any] | None = None
    arrays: bool = False  # fit(X, y, task=ids) instead of a table

    def load(self, table: pd.DataFrame) -> Any:
        kind, event = KINDS.get(self.kind, self.kind), {"event": SEEN} if self.kind == "survival" else {}
        return tv.load_tasks(table, task="site", target="target", kind=kind, **event, **self.loading)

    def fit(self, table: pd.DataFrame) -> Any:
        if self.arrays:
            X, y, ids = table[NUMBERS].to_numpy(), table["target"].to_numpy(), table["site"].to_numpy()
            y = table[[SEEN, "target"]].to_numpy(dtype=float) if self.kind == "survival" else y
            return self.estimator().fit(X, y, task=ids)
        return self.estimator().fit(self.load(table))

    def estimator(self) -> Any:
        made = methods.get(self.method, **NEEDED.get(self.method, {}))
        if not made.under(self.unit).linear:
            made.set_params(**QUICK)
        fixed = {"epsilon": 2.0, "delta": 1e-3, "unit": self.unit, "seed": 0, "insecure_noise_seed": 11}
        kind = estimator_for(KINDS.get(self.kind, self.kind))
        est = kind(made, **{**fixed, **({"loss": LOSS[self.kind]} if self.kind in LOSS else {}), **self.options})
        return est if self.search is None else tv.TaskSearch(est, self.search, mean_runs=2)

    def trace(self, table: pd.DataFrame, billboards: Trace | None = None) -> Trace:
        return traced(lambda: self.fit(table), figures, billboards)


def kinds_of(name: str) -> list[str]:
    method = methods.get(name)
    return [*method.kinds, *(kind for kind, loss in LOSS.items() if loss in method.losses)]


def figures(trace: Trace, fitted: Any) -> None:
    """What is asked of a fitted estimator: every task's model, gain and records for its page; and what everybody gets."""
    est = getattr(fitted, "best_estimator_", fitted)
    models = est.models_
    trace.note("final coef", list(models.coef))
    trace.note("final intercept", list(models.intercept))
    for name, value in models.extra.items():
        trace.note(f"final {name}", list(np.asarray(value)))
    for name in ("shift", "scale", "y_shift", "y_scale"):
        trace.note(f"units {name}", list(np.asarray(getattr(est.scaling_, name))))
    gain = measured_gain(est)
    run = from_estimator(est, gain)
    owners = [cut(run, Audience("owner", name)) for name in est.task_names_]
    trace.note("owner's page", [(str(o.gain), [np.asarray(v) for v in o.coefficients.values()]) for o in owners])
    public = cut(run, Audience("public"))
    trace.public |= {
        "tasks": est.task_names_, "features": est.feature_names_, "plan": json.dumps(est.record_.plan.to_dict()),
        "certificate": fitted.certificate_.to_json(), "sizes": repr(est.record_.public), "settings": repr(public.options),
        "page": repr((public.gain, public.coefficients, public.warnings, public.seconds, public.task_names)),
        "search": repr(getattr(fitted, "best_params_", None)),
    }  # fmt: skip


def task_law(setup: Setup, table: pd.DataFrame, changed: pd.DataFrame, replaced: str) -> list[str]:
    """Unit = task: what of others or of the public differs although only `replaced` was replaced. Empty: the law holds."""
    one = setup.trace(table)
    two = setup.trace(changed, one)
    return differences(one, two, TASKS.index(replaced))


def record_law(setup: Setup, table: pd.DataFrame, changed: pd.DataFrame, position: int) -> list[str]:
    """Unit = record: as above, and of the row's own task at most one encoded row and one summand of each message differ."""
    one = setup.trace(table)
    two = setup.trace(changed, one)
    task = TASKS.index(table["site"].iloc[position])
    found = differences(one, two, task)
    if one.refusal or two.refusal or two.crash:
        return found
    for name, values in one.parts.items():
        a, b = values[task], two.parts[name][task]
        if a is not None and ("rows" in name or "message" in name) and changed_rows(a, b) > 1:
            found.append(f"{name}: {changed_rows(a, b)} rows of the row's own task")
        elif ("state" in name or "units" in name) and not same(a, b):
            found.append(f"{name} of the row's own task")
    return found


def changed_rows(a: Any, b: Any) -> float:
    """How many rows of (X, y) or (X, slopes) differ; infinitely many where the shapes do."""
    if not isinstance(a, tuple):
        return float(not same(a, b))
    if any(x.shape != y.shape for x, y in zip(a, b, strict=True)):
        return float("inf")
    differ = [(x.reshape(len(x), -1) != y.reshape(len(y), -1)).any(axis=1) for x, y in zip(a, b, strict=True)]
    return float(np.logical_or.reduce(differ).sum())
