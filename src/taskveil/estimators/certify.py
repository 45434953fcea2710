"""From the record of a run to its certificate: what was executed, what it rests on, what it does not cover.

`certificate` reads the record alone, as `storage.save` writes it and `storage.load` reads it back. So `fit` and `certify` make
the certificate with one function, and a saved one that differs from what its record gives has been changed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
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


@dataclass(frozen=True)
class Preparation:
    """What happened between the raw table and the scaled block, as far as a certificate rests on it."""

    scaling: str
    kind: str
    person: bool = False  # rows of one person are named
    shared_rows: bool = False  # several tasks hold the same rows, with other targets

    @staticmethod
    def of(scaling: Scaling, tasks: TaskSet) -> Preparation:
        return Preparation(scaling.mode, tasks.kind, tasks.person is not None, SHARED_ROWS in tasks.notes)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def check_observer(budget: Budget, observer: str, method: Method) -> None:
    """Refuse an observer the run cannot protect against, before anything is released."""
    if budget.epsilon is None or method.shares_nothing:
        return
    covered = {o.value for o in observers(budget, method)}
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


def certificate(method: Method, record: RunRecord, preparation: Preparation) -> Certificate:
    """The certificate of what was really executed."""
    if record.search is not None:
        return search_certificate(method.name, *record.search)
    return _build(method, record, preparation, record.randomness)


def simulated_statements(method: Method, record: RunRecord, scaling: Scaling, tasks: TaskSet) -> list[dict[str, Any]]:
    """The statements the same run would make with noise from the operating system."""
    made = _build(method, record, Preparation.of(scaling, tasks), SIMULATED)
    return [s.to_dict() for s in made.statements]


def search_certificate(method: str, plan: Plan, randomness: dict[str, Any]) -> Certificate:
    """The certificate of a private search (estimators/search.py), whose one release is the best of its runs."""
    said = [
        "the number of runs was drawn in secret and is not published, and nobody learns it from the time the search took",
        "only the best configuration, its billboards and its noisy score leave the search",
    ]
    return build_certificate(f"search over {method}", plan, randomness, assumptions=said)


def _build(method: Method, record: RunRecord, preparation: Preparation, randomness: dict[str, Any]) -> Certificate:
    plan = record.plan
    executed = replace(plan, releases=tuple(record.executed)) if plan.budget.epsilon is not None else plan
    made = build_certificate(
        method.name,
        executed,
        randomness,
        public=public_facts(preparation),
        assumptions=[*assumptions(plan.budget, preparation), *method.assumptions(record.public, plan)],
        not_protected=[*not_protected(plan.budget, method), *method.not_protected(record.public, plan)],
        observers=observers(plan.budget, method),
    )
    reasons = method.refutations(record.public, plan)
    if not reasons:
        return made
    false = tuple(replace(s, holds=False, reason=s.reason or "; ".join(reasons)) for s in made.statements)
    return replace(made, statements=false)


def observers(budget: Budget, method: Method) -> list[Observer]:
    """Against whom a run is protected: those of its aggregation, and those this method covers besides."""
    covered = [*AGGREGATIONS.get(budget.aggregation).observers, *map(Observer, method.also_protects(budget))]
    return list(dict.fromkeys(covered))


def assumptions(budget: Budget, preparation: Preparation) -> list[str]:
    """What every private run rests on, beyond what the private core states."""
    if budget.epsilon is None:
        return []
    said = []
    if preparation.scaling == "declared":
        said.append("features and target are scaled by declared public ranges, not by statistics of the data")
    elif preparation.scaling == "own":
        said.append("no ranges were declared: every task scales by its own statistics, which are never sent")
    if budget.unit is Unit.TASK and preparation.person:
        said.append(
            "a person's rows inside one task are covered by unit 'task'; rows of one person in several tasks are not "
            "bounded together: epsilon grows with the number of tasks a person is in"
        )
    if preparation.shared_rows:
        said.append(SHARED_ROWS)
    return said


def public_facts(preparation: Preparation) -> list[str]:
    """What a run over a table takes as known, besides the sizes and bounds of the private core."""
    labels = ["the set of labels"] if preparation.kind == "classification" else []
    return ["the names of the tasks", "the feature columns", *labels, "all options of the run"]


def not_protected(budget: Budget, method: Method) -> list[str]:
    """What no statement covers."""
    if budget.epsilon is None or method.shares_nothing or "public" in method.also_protects(budget):
        return []
    return ["a task's own model, which its owner keeps: publishing it shows its rows beyond this certificate"]
