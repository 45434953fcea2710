"""Every task alone: the baseline, and the perfect privacy of sharing nothing (MP-MTL Claim 1: (0, 0) against others)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.checks import Choice, Rule
from taskveil.methods.alone import alone_models
from taskveil.methods.base import (
    ANY_KIND,
    ANY_LOSS,
    Billboard,
    Message,
    Method,
    Models,
    PublicInfo,
    ServerSide,
    State,
    TaskSide,
    View,
)
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.tasks.block import TaskBlock


@dataclass(eq=False, repr=False)
class Local(Method):
    """Each task alone. `penalty` is "l2" or "l1"; `strength` fixes it, None lets each task choose on its own rows."""

    name = "local"
    kinds, losses = ANY_KIND, ANY_LOSS
    rules: ClassVar[dict[str, Rule]] = {"penalty": Choice("l1", "l2")}
    units = ("task", "record")
    shares_nothing = True

    penalty: str = "l2"
    strength: float | None = None

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        return []

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return LocalTasks(self, block, public)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return SilentServer()


class LocalTasks(TaskSide):
    """Learn alone and send nothing."""

    def __init__(self, method: Local, block: TaskBlock, public: PublicInfo):
        self.method, self.block, self.public = method, block, public

    def start(self) -> State:
        return {}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        return state, {}

    def finish(self, state: State, view: View) -> Models:
        return alone_models(self.block, self.public, self.method.penalty, self.method.strength)


class SilentServer(ServerSide):
    """Publishes an empty billboard and is never called again."""

    def start(self) -> tuple[State, Billboard]:
        return {}, Billboard(0, {})

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        raise AssertionError("a plan without releases has no rounds")
