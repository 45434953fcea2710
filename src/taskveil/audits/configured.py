"""Audit what the user runs: the configured estimator, from the raw table, with and without a canary unit.

1. Isolation. Every canary (raw_canaries) is written into the raw table, the table is opened and trained on as the user does it,
   with the same noise and the billboards of the unchanged table. Whatever others then get that differs is a leak.
2. Statistics. The two neighbours whose releases lie furthest apart are run many times with fresh noise; scores, thresholds and
   directions are learned on one part of the runs and counted on the other (result.search).

Because of 1, what other tasks hold is a function of their own rows and the billboards; so 2 looks at the billboards (observer
other-tasks), at the noisy releases (server), or at both with everybody's part (public). Who sees all releases gets the bound from
single ones too (both_worlds.py).
"""

from __future__ import annotations

import secrets
import time
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from taskveil.audits.canaries import CANARY
from taskveil.audits.configuration import configuration, differences
from taskveil.audits.isolation import leaks
from taskveil.audits.methods import SELECTION, TRIALS, Looks, claim_of, told_apart
from taskveil.audits.neighbours import RawCanary, Runs, furthest, opener, raw_canaries, repeated
from taskveil.audits.raw_table import Load, RawTable, made_up_table, raw_table
from taskveil.audits.rehearsal import Trained, train
from taskveil.audits.result import CONSISTENT, NOTHING, REFUTED, AuditResult, Finding, Progress, power
from taskveil.checks import shown
from taskveil.errors import OptionError
from taskveil.tasks.load import load_tasks

SECONDS = 40.0  # of computing that the default number of runs should cost, per process
FEWEST = 100
ON_TABLE = (
    "a rehearsal on the given table: noise was drawn for the audit alone, nothing was charged to a ledger, and no canary is in a "
    "released model"
)
MADE_UP = (
    "a simulation on a made-up table of fitting shape; give data= to audit from your own raw table, as it is prepared. Nothing "
    "was charged to a ledger, and no canary is in a released model"
)


@dataclass
class Evidence:
    """What both parts found."""

    leaks: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)  # canaries turned back to the operator before any release
    compared: int = 0
    finding: Finding | None = None
    steps: dict[str, Any] | None = None  # what single releases show, to those who see them all
    neighbours: str = "none"


def audit_configured(
    estimator: Any,
    data: Any = None,
    *,
    trials: int | None = None,
    seed: int | None = None,
    jobs: int = 1,
    view: str | None = None,
    progress: Progress | None = None,
    load: Load = load_tasks,
    **reading: Any,
) -> AuditResult:
    """Attack the estimator as configured. `data` and `reading`: what `fit` or `load` takes; None makes a table up."""
    est = rehearsal_of(estimator)
    base = getattr(est, "estimator", est)
    if base.epsilon is None:
        raise OptionError("epsilon=None makes no claim, so there is nothing to refute; give an epsilon")
    if data is None:
        table = made_up_table(getattr(estimator, "estimator", estimator))
    else:
        table = raw_table(data, {k: v for k, v in reading.items() if v is not None}, base.task_column, load)
    key = secrets.randbits(40) if seed is None else int(seed)
    first = train(est, lambda: table.open(table.frame))
    if first.error is not None:
        raise first.error
    about = {**configuration(first.estimator), "table": "made up" if table.made_up else "given"}
    _check_fitted_likewise(estimator, about)
    claim = claim_of(first.estimator)
    evidence = Evidence()
    if claim is not None:
        observer = "server" if view == "releases" else str(base.observer)
        with warnings.catch_warnings():  # canaries hold what numbers stumble over; a warning of theirs is not the user's
            warnings.simplefilter("ignore")
            _attack(est, table, first, claim, evidence, Looks(observer, trials, key, jobs, progress))
    return _result(first, claim, evidence, about, key)


def _attack(est: Any, table: RawTable, first: Trained, claim: dict[str, Any], evidence: Evidence, looks: Looks) -> None:
    """Both parts, into `evidence`."""
    base = getattr(est, "estimator", est)
    canaries = raw_canaries(table, _names(first)[CANARY], str(base.unit), base._loss)
    trained = _isolation(est, table, canaries, first, evidence, looks.progress)
    pair = furthest(est, table, canaries, trained)
    if pair is not None:
        evidence.neighbours = pair.name
        runs = repeated(est, table, pair, looks.observer, looks.key)
        looks = replace(looks, trials=looks.trials or affordable(runs, looks.key, looks.jobs))
        seen = (runs.vector, runs.worlds, runs.layout)
        evidence.finding, evidence.steps = told_apart(*seen, first.logs[0].plan, claim, first.estimator.certificate_, looks)


def rehearsal_of(estimator: Any) -> Any:
    """The same configuration, unfitted, with nothing durable behind it: no ledger, no folder, no network, seeded noise."""
    if hasattr(estimator, "estimator"):
        return clone(estimator).set_params(estimator=rehearsal_of(estimator.estimator))
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        raise OptionError(f"audit takes a TaskRegressor, TaskClassifier or TaskSurvival; got {shown(estimator)}")
    params = estimator.get_params(deep=False)
    params |= {"ledger": None, "account": None, "run_dir": None, "progress": None, "runtime": "in_process"}
    params |= {"insecure_noise_seed": 0, "seed": params["seed"] or 0}
    return clone(type(estimator)(**params))


def _check_fitted_likewise(estimator: Any, about: dict[str, Any]) -> None:
    """What is found must be about the run whose certificate will show it."""
    differ = []
    if hasattr(estimator, "certificate_"):
        differ = differences({"configuration": about}, configuration(estimator))
    if differ:
        raise OptionError(
            f"this estimator was fitted on other data or with other options than the audit would use ({', '.join(differ)}); "
            "give data= the table it was fitted on, or audit an unfitted copy: tv.audit(sklearn.base.clone(est), ...)"
        )


def _names(trained: Trained) -> tuple[str, ...]:
    return getattr(trained.estimator, "best_estimator_", trained.estimator).task_names_


def _isolation(
    est: Any, table: RawTable, canaries: list[RawCanary], first: Trained, evidence: Evidence, progress: Progress | None
) -> list[Trained]:
    """Train on every canary's table at the billboards of the unchanged one; note what others would see."""
    trained, seen = [first], {}  # type: list[Trained], dict[str, list[str]]
    for canary in canaries[1:]:
        other = train(est, opener(table, canary), first.logs)
        trained.append(other)
        for leak in leaks(first, other):
            seen.setdefault(leak, []).append(canary.name)
        if other.refused:
            evidence.refused.append(canary.name)
        if progress is not None:
            progress(len(trained), len(canaries))
    evidence.compared = len(trained) - 1
    evidence.leaks = [f"{leak} (canary: {_some(names)})" for leak, names in seen.items()]
    return trained


def _some(names: list[str], shown: int = 2) -> str:
    return "; ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def affordable(runs: Runs, key: int, jobs: int) -> int:
    """As many runs of each neighbour as fit into the default time, between the fewest and the most."""
    started = time.perf_counter()
    for world in (0, 1):
        runs.vector(world, key)
    each = time.perf_counter() - started
    return int(np.clip(SECONDS * jobs / max(each, 1e-6), FEWEST, TRIALS))


def _result(first: Trained, claim: dict[str, Any] | None, evidence: Evidence, about: dict[str, Any], key: int) -> AuditResult:
    base = getattr(first.estimator, "estimator", first.estimator)
    stated = claim or {"epsilon": 0.0, "delta": 0.0}
    best, refused = evidence.finding or NOTHING, evidence.refused
    found = best.fields(stated["epsilon"], evidence.steps)
    if claim is None or evidence.leaks:
        found["verdict"] = CONSISTENT if claim is None else REFUTED
    return AuditResult(
        target=first.estimator.certificate_.method, delta=stated["delta"], **found, neighbours=str(base.neighbours),
        unit=str(base.unit), observer=str(base.observer), variant=base.variant, seed=key,
        details={"neighbours": evidence.neighbours, "canaries": evidence.compared, "refused before any release": refused},
        note=ON_TABLE if about["table"] == "given" else MADE_UP, leaks=evidence.leaks,
        power=power(best.trials, SELECTION, stated["delta"]) if best.trials else None, configuration=about,
    )  # fmt: skip
