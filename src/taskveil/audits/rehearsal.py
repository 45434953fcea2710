"""Watch the configured estimator while it trains: what it encodes, sends, releases and publishes, as it happens.

The estimator is the user's, fitted by its own `fit` on a whole table; a copy of its method writes the log. `script` makes the
server publish the billboards of another world, whatever it was sent: what tasks then do differently, they do not do because of
releases. `absent` puts the null unit in the canary's place (add-remove neighbours).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from taskveil.audits.canaries import CANARY
from taskveil.audits.spies import ServerSpy, TaskSpy, spied_on
from taskveil.errors import InputError, OptionError
from taskveil.methods.base import Billboard, Message, Method, ServerSide, State, TaskSide, View
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.plan import Plan
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock


@dataclass
class RunLog:
    """One run as it happened: what was asked of the method, sent, released and published."""

    method: Method
    block: TaskBlock
    public: Any
    plan: Plan
    script: list[Billboard] | None = None  # published instead of what the server made
    absent: bool = False  # the canary's summand is taken out of every message
    boards: list[Billboard] = field(default_factory=list)
    made: list[Billboard] = field(default_factory=list)  # what the server would have published
    messages: list[tuple[int, Message]] = field(default_factory=list)  # task side, message
    releases: list[dict[str, np.ndarray]] = field(default_factory=list)


@dataclass
class Trained:
    """A fitted estimator with the logs of its runs, or what stopped it."""

    estimator: Any
    logs: list[RunLog]
    error: Exception | None = None

    @property
    def released(self) -> bool:
        """Whether the run released anything to attack."""
        return any(log.releases for log in self.logs)

    @property
    def refused(self) -> bool:
        """Turned back to its operator, in words of ours, before anything was released."""
        return isinstance(self.error, InputError) and not self.released


def train(
    estimator: Any, opened: Callable[[], tuple[Any, ...]], script: list[RunLog] | None = None, absent: bool = False
) -> Trained:
    """Open a table and fit a copy of the estimator under observation; `script`: the runs whose billboards are published."""
    logs: list[RunLog] = []
    fitted = _observed(estimator, logs, script, absent)
    error = None
    try:
        fitted.fit(*opened())
    except Exception as problem:  # whatever it is, one world only would show it
        error = problem
    return Trained(fitted, logs, error)


def _observed(estimator: Any, logs: list[RunLog], script: list[RunLog] | None, absent: bool) -> Any:
    """The same estimator (or search over one) whose runs write a log; clones of it do too."""
    from sklearn.base import clone

    if hasattr(estimator, "estimator"):
        search = clone(estimator)
        search.estimator = _observed(estimator.estimator, logs, script, absent)
        return search
    kind = type(estimator)

    class Observed(kind):  # type: ignore[misc, valid-type]
        def _run(self, run: Run, block: TaskBlock) -> Any:
            told = script[len(logs)].boards if script is not None and len(logs) < len(script) else None
            log = RunLog(run.method, block, run.public, run.plan, told, absent)
            logs.append(log)
            watched = logged(without_canary(run.method) if absent else run.method, log)
            return super()._run(replace(run, method=watched), block)

    Observed.__name__ = kind.__name__
    return Observed(**estimator.get_params(deep=False))


def logged(method: Method, log: RunLog) -> Method:
    """A copy of the method that writes what happens into `log`."""
    sides: list[_Side] = []

    def task_side(block: TaskBlock, public: Any, plan: Plan) -> TaskSide:
        sides.append(_Side(method.task_side(block, public, plan), log, len(sides)))
        return sides[-1]

    return spied_on(method, task_side, lambda public, plan: _Server(method.server_side(public, plan), log))


class _Side(TaskSpy):
    def __init__(self, inner: TaskSide, log: RunLog, number: int):
        super().__init__(inner)
        self.log, self.number = log, number

    def step(self, state: State, view: View) -> tuple[State, Message]:
        state, message = self.inner.step(state, view)
        self.log.messages.append((self.number, message))
        return state, message


class _Server(ServerSpy):
    def __init__(self, inner: ServerSide, log: RunLog):
        super().__init__(inner)
        self.log = log

    def start(self) -> tuple[State, Billboard]:
        state, board = self.inner.start()
        if not self.log.boards:  # an asynchronous run asks for its first billboard twice
            board = self._published(board)
        return state, board

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        self.log.releases.append({name: np.array(value, dtype=np.float64) for name, value in releases.items()})
        state, board = self.inner.step(state, releases, accepted)
        return state, self._published(board)

    def final(self, state: State) -> Billboard:
        return self._published(self.inner.final(state))  # type: ignore[attr-defined]

    def _published(self, board: Billboard) -> Billboard:
        number, script = len(self.log.boards), self.log.script
        self.log.made.append(board)
        shown = script[number] if script is not None and number < len(script) else copy.deepcopy(board)
        self.log.boards.append(shown)
        return shown


def without_canary(method: Method) -> Method:
    """The same method with the null unit in the canary's place: its summand of every message is zero."""
    made: list[TaskSide] = []

    def task_side(block: TaskBlock, public: Any, plan: Plan) -> TaskSide:
        made.append(method.task_side(block, public, plan))
        holds_canary = len(made) == 1 + CANARY
        return _Silenced(made[-1], str(plan.budget.unit)) if holds_canary else made[-1]

    return spied_on(method, task_side)


class _Silenced(TaskSpy):
    def __init__(self, inner: TaskSide, unit: str):
        super().__init__(inner)
        self.unit = unit

    def step(self, state: State, view: View) -> tuple[State, Message]:
        state, message = self.inner.step(state, view)
        return state, {name: _silenced(raw, self.unit) for name, raw in message.items()}


def _silenced(raw: Any, unit: str) -> Any:
    if isinstance(raw, RowGradients):
        begin, end = raw.offsets[CANARY], raw.offsets[CANARY + 1]
        slopes = np.array(raw.slopes)
        slopes[begin : begin + 1 if unit == "record" else end] = 0.0
        return RowGradients(raw.X, slopes, raw.offsets)
    if isinstance(raw, Bounded) or unit == "record":
        raise OptionError("this method sums before its messages can be told apart; audit it with neighbours='replace-one'")
    silent = np.array(raw)
    silent[CANARY] = 0.0
    return silent
