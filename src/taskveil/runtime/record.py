"""What a run leaves behind: models, public billboards, what was charged, and how it went."""

from __future__ import annotations

from dataclasses import dataclass, field
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

    @property
    def rounds(self) -> int:
        return self.billboards[-1].round

