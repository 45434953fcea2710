"""Sides of a method that pass everything on: subclasses look at what goes by, or change it. For audits only."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from taskveil.methods.base import Billboard, Message, Method, Models, ServerSide, State, TaskSide, View
from taskveil.privacy.plan import PlannedRelease


class TaskSpy(TaskSide):
    """A task side around another one."""

    def __init__(self, inner: TaskSide):
        self.inner, self.merges_inactive = inner, inner.merges_inactive

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def start(self) -> State:
        return self.inner.start()

    def step(self, state: State, view: View) -> tuple[State, Message]:
        return self.inner.step(state, view)

    def finish(self, state: State, view: View) -> Models:
        return self.inner.finish(state, view)


class ServerSpy(ServerSide):
    """A server side around another one."""

    def __init__(self, inner: ServerSide):
        self.inner, self.settled = inner, inner.settled

    def __getattr__(self, name: str) -> Any:
        """What only some servers have, such as the last billboard of an asynchronous one, passes through."""
        return getattr(self.inner, name)

    def start(self) -> tuple[State, Billboard]:
        return self.inner.start()

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        return self.inner.step(state, releases, accepted)

    def chosen(self, state: State, possible: list[PlannedRelease]) -> list[PlannedRelease]:
        return self.inner.chosen(state, possible)


def spied_on(method: Method, task_side: Callable[..., TaskSide], server_side: Callable[..., ServerSide] | None = None) -> Method:
    """A copy of the method with these makers of its sides."""
    spy: Any = copy.copy(method)
    spy.task_side = task_side
    if server_side is not None:
        spy.server_side = server_side
    return spy
