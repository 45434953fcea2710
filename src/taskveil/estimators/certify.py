"""From a finished run to its certificate: what was executed, what it rests on, what it does not cover."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from taskveil.errors import OptionError
from taskveil.methods.base import Method
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.certificate import Certificate, build_certificate
from taskveil.privacy.plan import Budget, Plan
from taskveil.privacy.units import Observer, Unit
from taskveil.runtime.record import RunRecord
from taskveil.tasks.scaling import Scaling
from taskveil.tasks.table import SHARED_ROWS
from taskveil.tasks.task import TaskSet

SIMULATED = {"source": "simulation", "seeded": False}
OWN_MODEL = "a task's own model, which its owner keeps: publishing it shows its rows beyond this certificate"


def check_observer(budget: Budget, observer: str, method: Method) -> None:
    """Refuse an observer the run cannot protect against, before anything is released."""
    if budget.epsilon is None or method.shares_nothing:
        return
    covered = {o.value for o in AGGREGATIONS.get(budget.aggregation).observers} | set(method.also_protects(budget))
    if observer not in covered:
        remedy = {
            "server": "use aggregation='local' or 'secure'",
            "public": "a personal model shows its own task's rows; use unit='record' with method='async' and publish the "
            "un-refined models",
        }.get(observer, "")
        raise OptionError(
            f"aggregation {budget.aggregation!r} of method {method.name!r} protects against {', '.join(sorted(covered))}, "
            f"not against {observer!r}; {remedy}"
        )


def certificate(method: Method, record: RunRecord, scaling: Scaling, tasks: TaskSet) -> Certificate:
    """The certificate of what was really executed."""
    return _build(method, record, scaling, tasks, record.randomness)


def simulated_statements(method: Method, record: RunRecord, scaling: Scaling, tasks: TaskSet) -> list[dict[str, Any]]:
    """The statements the same run would make with noise from the operating system."""
    return [s.to_dict() for s in _build(method, record, scaling, tasks, SIMULATED).statements]


def search_certificate(
    method: Method, record: RunRecord, scaling: Scaling, tasks: TaskSet, plan: Plan, randomness: dict[str, Any],
    rests_on: list[str],
) -> Certificate:  # fmt: skip
    """The certificate of a search that kept this run: its one charged event, and all that a plain run states beside it."""
    return build_certificate(
        f"search over {method.name}",
        plan,
        randomness,
        public=public_facts(tasks),
        assumptions=[*rests_on, *assumptions(plan.budget, scaling, tasks), *method.assumptions(record.public, record.plan)],
        not_protected=[OWN_MODEL, *method.not_protected(record.public, record.plan)],
    )


def _build(
    method: Method, record: RunRecord, scaling: Scaling, tasks: TaskSet, randomness: dict[str, Any]
) -> Certificate:
    plan = record.plan
    executed = replace(plan, releases=tuple(record.executed)) if plan.budget.epsilon is not None else plan
    observers = [*AGGREGATIONS.get(plan.budget.aggregation).observers]
    observers += [Observer(o) for o in method.also_protects(plan.budget)]
    made = build_certificate(
        method.name,
        executed,
        randomness,
        public=public_facts(tasks),
        assumptions=[*assumptions(plan.budget, scaling, tasks), *method.assumptions(record.public, plan)],
        not_protected=[*not_protected(plan.budget, method), *method.not_protected(record.public, plan)],
        observers=list(dict.fromkeys(observers)),
    )
    reasons = method.refutations(record.public, plan)
    if not reasons:
        return made
    false = tuple(replace(s, holds=False, reason=s.reason or "; ".join(reasons)) for s in made.statements)
    return replace(made, statements=false)


def assumptions(budget: Budget, scaling: Scaling, tasks: TaskSet) -> list[str]:
    """What every private run rests on, beyond what the private core states."""
    if budget.epsilon is None:
        return []
    said = []
    if scaling.mode == "declared":
        said.append("features and target are scaled by declared public ranges, not by statistics of the data")
    elif scaling.mode == "own":
        said.append("no ranges were declared: every task scales by its own statistics, which are never sent")
    if budget.unit is Unit.TASK and tasks.person is not None:
        said.append(
            "a person's rows inside one task are covered by unit 'task'; rows of one person in several tasks are not "
            "bounded together: epsilon grows with the number of tasks a person is in"
        )
    if SHARED_ROWS in tasks.notes:
        said.append(SHARED_ROWS)
    return said


def public_facts(tasks: TaskSet) -> list[str]:
    """What a run over a table takes as known, besides the sizes and bounds of the private core."""
    labels = ["the set of labels"] if tasks.kind == "classification" else []
    return ["the names of the tasks", "the feature columns", *labels, "all options of the run"]


def not_protected(budget: Budget, method: Method) -> list[str]:
    """What no statement covers."""
    if budget.epsilon is None or method.shares_nothing or "public" in method.also_protects(budget):
        return []
    return [OWN_MODEL]
