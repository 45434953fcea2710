"""What a run leaves behind: models, public billboards, what was charged, and how it went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from taskveil.methods.base import Billboard, Models, PublicInfo, State, merge_states
from taskveil.privacy.plan import Plan, PlannedRelease

__all__ = ["RunRecord", "merge_states"]


@dataclass
class RunRecord:
    models: Models
    billboards: list[Billboard]  # public; replayed for new tasks and held-out rows
    plan: Plan
    public: PublicInfo
    executed: list[PlannedRelease]  # what was charged, in order
    randomness: dict[str, Any]
    schedule: list[Any] = field(default_factory=list)  # who was asked in each round
    seconds: float = 0.0
    state: State = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    charged: dict[str, str] | None = None  # account and run in the ledger, where there is one
    canaries: int = 0  # of the tasks of `public`, those of a one-run audit: no models are kept of them
    search: tuple[Plan, dict[str, Any]] | None = None  # plan and randomness of the private search this run won

    @property
    def rounds(self) -> int:
        return self.billboards[-1].round

    def without_states(self) -> RunRecord:
        """What may be kept: models and what is public. States, cohorts and arrivals were private and are used up."""
        return replace(self, state={}, schedule=[], extra={})

    def for_newcomer(self, models: Models) -> RunRecord:
        """What a task that was not there may have: its own models, the plan, and billboards without parts for single tasks."""
        cut = {id(b): replace(b, values=b.common(), per_task=frozenset(), accepted=None) for b in self.billboards}
        boards = [cut[id(b)] for b in self.billboards]
        return replace(self.without_states(), models=models, billboards=boards, seconds=0.0, warnings=[])


def executed_releases(ids: Iterable[str], planned: Mapping[str, PlannedRelease]) -> list[PlannedRelease]:
    """What was charged, from the ids in order: a release that was made again costs what it costs to make it again."""
    seen: set[str] = set()
    made = []
    for one in ids:
        made.append(replace(planned[one], event=planned[one].event.made_again()) if one in seen else planned[one])
        seen.add(one)
    return made
