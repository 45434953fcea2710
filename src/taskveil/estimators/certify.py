"""From the record of a run to its certificate: what was executed, what it rests on, what it does not cover.

`certificate` reads the record alone, as `storage.save` writes it and `storage.load` reads it back. So `fit` and `certify` make
the certificate with one function, and a saved one that differs from what its record gives has been changed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from taskveil.errors import DataError, OptionError
from taskveil.methods.base import Method
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.certificate import Certificate, build_certificate
from taskveil.privacy.plan import Budget
from taskveil.privacy.units import Observer, Unit
from taskveil.runtime.run import Run, RunRecord
from taskveil.tasks.prepare.step import PublicPart

LARGE_DELTA = 1e-3
SIMULATED = {"source": "simulation", "seeded": False}
SEARCHED = (
    "the number of runs was drawn in secret and is not published, and nobody learns it from the time the search took",
    "only the best configuration, its billboards and its noisy score leave the search",
)
CANARIES_SHOW = (
    "what canary tasks showed: their scores are the noise of the releases, found with everybody's rows; it is told in counts and "
    "round figures, and no epsilon covers it"
)
OWN_MODEL = "a task's own model, which its owner keeps: publishing it shows its rows beyond this certificate"


def observers(method: Method, run: Run | RunRecord, own_units: bool = False) -> list[Observer]:
    """Against whom a run is protected: those of its aggregation, and those this method covers besides.

    The public sees finished models in the user's units. Where a task scaled by its own statistics those units are its own rows'
    (a shift of all its values shows), so no method can claim the public then.
    """
    besides = method.disclosure(run.public, run.plan).observers
    more = [Observer(o) for o in besides if not (own_units and o == Observer.PUBLIC.value)]
    return list(dict.fromkeys([*AGGREGATIONS.get(run.plan.budget.aggregation).observers, *more]))


def check_observer(run: Run, observer: str, own_units: bool = False) -> None:
    """Refuse an observer the run cannot protect against, before anything is released."""
    budget, method = run.budget, run.method
    if budget.epsilon is None or (method.shares_nothing and observer != Observer.PUBLIC.value):
        return
    covered = {o.value for o in observers(method, run, own_units)}
    if observer not in covered:
        if own_units and observer in method.disclosure(run.public, run.plan).observers:
            raise OptionError(
                f"method {method.name!r} protects against {observer!r} only where no task scales by its own statistics: a "
                "published model would show them. Declare the ranges of all features and of the target (bounds=, --bounds), or "
                "use scaling='none'."
            )
        remedy = {
            "server": "use aggregation='local' or 'secure'",
            "public": "a personal model shows its own task's rows; use unit='record' with method='async' and publish the "
            "un-refined models",
        }.get(observer, "")
        raise OptionError(
            f"aggregation {budget.aggregation!r} of method {method.name!r} protects against {', '.join(sorted(covered))}, "
            f"not against {observer!r}; {remedy}"
        )


def certificate(method: Method, record: RunRecord, prepared: PublicPart) -> Certificate:
    """The certificate of what was really executed, on a table prepared like this."""
    if record.search is not None:
        return search_certificate(method, record, prepared)
    return _build(method, record, prepared, record.randomness)


def simulated_statements(method: Method, record: RunRecord, prepared: PublicPart) -> list[dict[str, Any]]:
    """The statements the same run would make with noise from the operating system."""
    return [s.to_dict() for s in _build(method, record, prepared, SIMULATED).statements]


def search_certificate(method: Method, record: RunRecord, prepared: PublicPart) -> Certificate:
    """The certificate of a private search that kept this run: its one charged event, and what a plain run states beside it."""
    assert record.search is not None
    plan, randomness = record.search
    disclosure = method.disclosure(record.public, record.plan)
    return build_certificate(
        f"search over {method.name}",
        plan,
        randomness,
        public=prepared.public_facts(),
        assumptions=[*SEARCHED, *assumptions(plan.budget, prepared), *disclosure.assumptions],
        not_protected=[OWN_MODEL, *large_delta(plan.budget, prepared), *disclosure.not_protected],
    )


def _build(method: Method, record: RunRecord, prepared: PublicPart, randomness: dict[str, Any]) -> Certificate:
    if method.policy(record.public, record.plan.budget) != record.plan.policy:
        raise DataError("the plan is not this method's: one of them lets releases follow earlier ones, within a total")
    plan, disclosure = record.plan, method.disclosure(record.public, record.plan)
    executed = replace(plan, releases=tuple(record.executed)) if plan.budget.epsilon is not None else plan
    made = build_certificate(
        method.name,
        executed,
        randomness,
        public=prepared.public_facts(),
        assumptions=[*assumptions(plan.budget, prepared), *disclosure.assumptions, *prior_words(record)],
        not_protected=[
            *([CANARIES_SHOW] if record.canaries else []),
            *not_protected(method, record, prepared),
            *disclosure.not_protected,
        ],
        observers=observers(method, record, prepared.own_units),
        task_names=prepared.task_names,
    )
    if not disclosure.refutations:
        return made
    false = tuple(replace(s, holds=False, reason=s.reason or "; ".join(disclosure.refutations)) for s in made.statements)
    return replace(made, statements=false)


def prior_words(record: RunRecord) -> list[str]:
    """What the guarantee owes to a public prior."""
    private = record.plan.budget.epsilon is not None
    return [record.public.prior.words()] if private and record.public.prior is not None else []


def assumptions(budget: Budget, prepared: PublicPart) -> list[str]:
    """What every private run rests on, beyond what the private core states."""
    if budget.epsilon is None:
        return []
    sentences = prepared.assumptions()
    if budget.unit is Unit.TASK and prepared.person:
        sentences.append(
            "a person's rows inside one task are covered by unit 'task'; rows of one person in several tasks are not "
            "bounded together: epsilon grows with the number of tasks a person is in"
        )
    return sentences


def not_protected(method: Method, record: RunRecord, prepared: PublicPart) -> list[str]:
    """What no statement covers."""
    budget = record.plan.budget
    if budget.epsilon is None:
        return []
    sentences = [] if method.shares_nothing else large_delta(budget, prepared)
    if method.shares_nothing or Observer.PUBLIC in observers(method, record, prepared.own_units):
        return sentences
    return [OWN_MODEL, *sentences]


def large_delta(budget: Budget, prepared: PublicPart) -> list[str]:
    """A plain word where delta is so large that the guarantee allows publishing somebody's rows outright.

    Publishing all rows of one unit chosen at random satisfies (0, 1/units): a delta of that size forbids nothing of the kind.
    """
    units = len(prepared.task_names) if budget.unit is Unit.TASK else sum(prepared.rows or ())
    if budget.delta <= min(1 / max(units, 1), LARGE_DELTA):
        return []
    one = "one task's rows" if budget.unit is Unit.TASK else "one row"
    return [
        f"what delta = {budget.delta:g} allows: with that probability nothing is promised, and a run that publishes {one} "
        "outright with that probability would satisfy it. Use a delta far below 1 divided by the number of units"
    ]
