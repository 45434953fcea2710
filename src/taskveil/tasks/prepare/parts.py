"""The three kinds of values there are, as types. Whoever needs a fourth has found a leak.

They are defined in docs/theory/preparation.md#three-values.

    PublicPart     declared before any row was read, or listed in the certificate as taken for granted
    OwnPart        computed by each task from its own rows; leaves it only inside a clipped message
    ReleasedPart   bounded, charged and noised; everybody has it
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.facts import Fact
from taskveil.tasks.prepare.scaling import Scaling

CLUSTER = (
    "the cluster's scheduler and workers are part of the curator: workers hold rows and models, the scheduler carries clipped "
    "sums and billboards; what travels between them is as private as the cluster's own connections"
)
__all__ = ["OwnPart", "Prepared", "PublicPart", "ReleasedPart"]


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

    def known(self) -> list[str]:
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
class ReleasedPart:
    """A common centre and scale, (d,) each, that a release paid for; and the target's."""

    centre: np.ndarray
    scale: np.ndarray
    y_centre: float = 0.0
    y_scale: float = 1.0


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that preparation yields. `released` is None until a release puts something there."""

    public: PublicPart
    own: OwnPart
    released: ReleasedPart | None = None
