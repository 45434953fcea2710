"""The step from a raw table to (public, own, released). The estimators, a federation's sites and audits all take it.

A sound private run uses nothing that is neither declared, nor local to the protected unit, nor paid for. What cannot be prepared
that way is refused here, before anything is released, with what to do instead. So there are three kinds of values
(docs/theory/preparation.md#three-values), as types; whoever needs a fourth has found a leak:

    PublicPart     declared before any row was read, or listed in the certificate as taken for granted
    OwnPart        computed by each task from its own rows; leaves it only inside a clipped message
    Release        bounded, charged and noised; everybody has it (privacy/release.py)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.facts import Fact, check_facts
from taskveil.tasks.prepare.scaling import Scaling, check_declared, fit_scaling, link_of, undeclared_target
from taskveil.tasks.prepare.unusable import NO_TARGET, SET_ASIDE
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import TaskSet

CLUSTER = (
    "the cluster's scheduler and workers are part of the curator: workers hold rows and models, the scheduler carries clipped "
    "sums and billboards; what travels between them is as private as the cluster's own connections"
)


@dataclass(frozen=True, eq=False)
class PublicPart:
    """What everybody may know before the run. Rows of a task only where single rows are the unit."""

    task_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    kind: str
    target_name: str
    scaling: str
    own_target: bool = False  # the target's range was not declared: every task uses statistics of its own
    declared_labels: bool = False
    person: bool = False
    rows: tuple[int, ...] | None = None
    facts: tuple[Fact, ...] = ()
    cluster: bool = False  # rows are held by the workers of a cluster

    @property
    def own_units(self) -> bool:
        """Whether a task's own statistics enter its model in the user's units."""
        return self.own_target or self.scaling in ("own", "pooled-standard")

    def public_facts(self) -> list[str]:
        """What the certificate calls public and fixed before the run."""
        labels = ["the declared set of labels"] if self.kind == "classification" and self.declared_labels else []
        return ["the names of the tasks", "the feature columns", "the types of all columns", *labels, "all options of the run"]

    def assumptions(self) -> list[str]:
        """What the certificate rests on because of how the table was prepared."""
        sentences = {
            "declared": "features and target are scaled by declared public ranges, not by statistics of the data",
            "own": "no ranges were declared: every task scales by its own statistics, which are never sent",
        }
        if self.own_target:
            sentences["declared"] = (
                "features are scaled by declared public ranges; the target's range was not declared: every task scales it by "
                "its own statistics, which are never sent"
            )
            sentences["none"] = sentences["private"] = "rates and times are in units of a task's own rate, which is never sent"
        elif self.kind == "classification":
            sentences["declared"] = "features are scaled by declared public ranges, not by statistics of the data"
        trusted = [CLUSTER] if self.cluster else []
        return [*trusted, *([sentences[self.scaling]] if self.scaling in sentences else []), *(f.sentence() for f in self.facts)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values beside those a saved model holds anyway; `from_dict` reads them back."""
        return {
            "kind": self.kind, "target": self.target_name, "scaling": self.scaling, "own_target": self.own_target,
            "declared_labels": self.declared_labels, "person": self.person,
            "rows": None if self.rows is None else list(self.rows), "facts": [[f.what, f.column] for f in self.facts],
            **({"cluster": True} if self.cluster else {}),
        }  # fmt: skip

    @staticmethod
    def from_dict(data: Mapping[str, Any], task_names: tuple[str, ...], feature_names: tuple[str, ...]) -> PublicPart:
        """What `to_dict` wrote."""
        rows = data["rows"]
        return PublicPart(
            task_names, feature_names, data["kind"], data["target"], data["scaling"], data["own_target"], data["declared_labels"],
            data["person"], None if rows is None else tuple(rows), tuple(Fact(*f) for f in data["facts"]),
            bool(data.get("cluster")),
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class OwnPart:
    """Each task's own: its encoded rows, the units it works in, and what only its owner is told."""

    block: TaskBlock
    scaling: Scaling
    warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that preparation yields; it releases nothing."""

    public: PublicPart
    own: OwnPart


@dataclass(frozen=True)
class PrepareRules:
    """The options preparation depends on; all of them public."""

    unit: str = "task"
    private: bool = True  # epsilon is a number
    sound: bool = True  # variant="sound": its certificate claims a guarantee
    scaling: str = "auto"
    normalise: str | None = None
    raw_rows: bool = False  # the method takes rows without declared ranges as they come (images)
    loss: str | None = None  # what the target is, where its kind leaves a choice

    @property
    def by_record(self) -> bool:
        """Whether every row must be prepared by itself."""
        return self.unit == "record" and self.private and self.sound

    @property
    def unusable(self) -> str:
        """What happens to a task with values that cannot be used: in a private run nobody else may notice."""
        return "set-aside" if self.unit == "task" and self.private and self.sound else "error"


def prepare_tasks(tasks: TaskSet, rules: PrepareRules, *, scaling: Scaling | None = None, reuse: bool = False) -> Prepared:
    """Prepare tasks that are loaded. `scaling` where somebody else chose it by the rules; `reuse` as in `Scaling.apply`."""
    facts = _facts(tasks)
    if rules.private and rules.sound:
        check_facts(facts, rules.unit)
    scaling = scaling or choose_scaling(tasks, rules)
    if rules.by_record:
        _check_record_scaling(scaling.mode, link_of(tasks.kind, rules.loss), tasks.bounds)
    public = PublicPart(
        task_names=tasks.task_names,
        feature_names=tasks.feature_names,
        kind=tasks.kind,
        target_name=tasks.target_name,
        scaling=scaling.mode,
        own_target=scaling.own_target,
        declared_labels=Fact("labels", tasks.target_name) not in facts,
        person=tasks.person is not None,
        rows=tuple(int(n) for n in tasks.sizes) if rules.unit == "record" else None,
        facts=facts,
    )
    warnings: dict[str, tuple[str, ...]] = {name: (NO_TARGET.format(rows=n),) for name, n in tasks.unlabelled.items()}
    warnings |= {name: (*warnings.get(name, ()), SET_ASIDE) for name in tasks.set_aside}
    return Prepared(public, OwnPart(scaling.apply(tasks, reuse=reuse), scaling, warnings))


def choose_scaling(tasks: TaskSet, rules: PrepareRules, weights: np.ndarray | None = None) -> Scaling:
    """Units for every task, by the rules; a task's own statistics count rows by `weights` (N,)."""
    mode = scaling_mode(rules, tasks.kind, tasks.bounds, tasks.feature_names)
    return fit_scaling(tasks, mode, normalise=rules.normalise, private=rules.private, mask=weights, loss=rules.loss)


def scaling_mode(rules: PrepareRules, kind: str, bounds: PublicBounds | None, names: Sequence[str]) -> str:
    """How columns are scaled, from declarations alone; what the unit does not allow is refused.

    "auto": declared ranges where there are some; else each task's own, or none where that is not allowed.
    """
    mode = rules.scaling
    if mode == "auto":
        mode = "none" if rules.normalise == "row" or rules.by_record or rules.raw_rows else "own"
        if bounds is not None and (bounds.features or bounds.covers(names)):
            mode = "declared"
    if rules.by_record:
        _check_record_scaling(mode, link_of(kind, rules.loss), bounds)
    return mode


def own_units(rules: PrepareRules, kind: str, bounds: PublicBounds | None, names: Sequence[str]) -> bool:
    """Whether tasks scale by statistics of their own, which a finished model in the user's units then shows."""
    mode = scaling_mode(rules, kind, bounds, names)
    return mode == "own" or (mode == "declared" and link_of(kind, rules.loss) != "label" and undeclared_target(bounds))


def _check_record_scaling(mode: str, link: str, bounds: PublicBounds | None) -> None:
    """One row must not move the units of another."""
    check_declared(link, bounds)
    if mode in ("own", "pooled-standard"):
        raise OptionError(
            "unit='record' cannot scale by a task's own statistics: through them one row would change every message. "
            "Declare public bounds (see `taskveil declare`), or use scaling='none' or normalise='row'."
        )
    if mode == "declared" and link == "number" and undeclared_target(bounds):
        raise OptionError(
            "unit='record' with declared ranges of the features, but not of the target: every task would scale its target by its "
            "own statistics, and one row would change every message. Declare the target's range ('target' in the bounds, see "
            "`taskveil declare`), or use scaling='private' (a common scale, paid for) or scaling='none'."
        )


def _facts(tasks: TaskSet) -> tuple[Fact, ...]:
    looked = tasks.bounds.looked_at if tasks.bounds is not None else ()
    return (*tasks.facts, *(Fact("looked-at", entry) for entry in looked))
