"""What a run leaves behind: models, public billboards, what was charged, and how it went."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from taskveil.methods.base import Billboard, Models, PublicInfo, State
from taskveil.privacy.plan import Plan, PlannedRelease


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


def merge_states(old: State, new: State, active: np.ndarray) -> State:
    """Tasks that were asked get their new state, the others keep the old one."""
    merged = {}
    for name, value in new.items():
        before = old[name]
        mask = active.reshape((-1,) + (1,) * (value.ndim - 1))
        merged[name] = np.where(mask, value, before)
    return merged
