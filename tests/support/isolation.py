"""Run an estimator from the raw table, write down what every task computes, and hold the billboards fixed in a second run.

docs/theory/preparation.md#isolation states the law: replace what one unit holds, and nothing but clipped messages may change. To
test it the server is replaced by a recording of the first run, so that the second run sees the same billboards whatever it sends.
`Trace` keeps, task by task, everything that task computed: encoded rows, messages, states, models, figures, pages.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from taskveil.errors import TaskveilError
from taskveil.estimators import common_units, search
from taskveil.methods.base import Method, TaskSide
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.bounds import Bounded
from taskveil.tasks.block import TaskBlock

Parts = dict[str, list[Any]]  # what was computed, in order -> one value per task


@dataclass
class Trace:
    """One run: what each task computed, what everybody saw, or the refusal."""

    parts: Parts = field(default_factory=dict)
    public: dict[str, Any] = field(default_factory=dict)
    tape: list[tuple[str, Any]] = field(default_factory=list)
    refusal: str | None = None
    crash: str | None = None  # anything but a refusal on purpose: some task's rows were too much for everybody's run
    estimator: Any = None

    def note(self, what: str, by_task: list[Any]) -> None:
        self.parts[f"{len(self.parts)}: {what}"] = by_task


class Recorder:
    """Wraps a method's two sides: tasks write into the trace, the server is recorded or played back."""

    def __init__(self, trace: Trace, played: list[tuple[str, Any]] | None):
        self.trace, self.played = trace, played

    def watch(self, method: Method) -> Method:
        method = copy.copy(method)  # the caller's own stays as it is
        task_side, server_side = method.task_side, method.server_side
        seen: list[int] = []  # tasks of the run; whoever comes later replays billboards for a figure that is compared itself

        def tasks(block: TaskBlock, public: Any, plan: Any) -> TaskSide:
            side = task_side(block, public, plan)
            if len(seen) == public.n_tasks:
                return side
            places = range(len(seen), len(seen) + block.n_tasks)  # all tasks at once, or (asynchronous) one after the other
            seen.extend(places)
            return self._tasks(side, block, places, public.n_tasks)

        method.task_side = tasks  # type: ignore[method-assign]
        method.server_side = lambda *public: Server(server_side(*public), self.trace.tape, self.played)  # type: ignore[method-assign,return-value]
        return method

    def _tasks(self, side: TaskSide, block: TaskBlock, places: range, n_tasks: int) -> TaskSide:

        def note(what: str, values: list[Any]) -> None:
            self.trace.note(what, [values[places.index(i)] if i in places else None for i in range(n_tasks)])

        note("rows", [(block.X[block.rows(i)], block.y[block.rows(i)]) for i in range(block.n_tasks)])
        step, finish = side.step, side.finish

        def stepped(state: Any, view: Any) -> Any:
            state, message = step(state, view)
            for name, raw in message.items():
                note(f"message {name}", _by_task(raw, block.n_tasks))
            for name, value in state.items():
                note(f"state {name}", _by_task(value, block.n_tasks))
            return state, message

        def finished(state: Any, view: Any) -> Any:
            models = finish(state, view)
            own = {"coef": models.coef, "intercept": models.intercept, "kept": models.kept, **models.extra}
            for name, value in own.items():
                note(f"model {name}", _by_task(value, block.n_tasks))
            return models

        side.step, side.finish = stepped, finished  # type: ignore[method-assign]
        return side


class Server:
    """A server side whose answers are written to a tape, or come from one."""

    def __init__(self, real: Any, tape: list[tuple[str, Any]], played: list[tuple[str, Any]] | None):
        self._real, self._tape, self._played = real, tape, played

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        return taped(name, real, self._tape, self._played) if callable(real) else real


def taped(
    name: str, real: Callable[..., Any], tape: list[tuple[str, Any]], played: list[tuple[str, Any]] | None
) -> Callable[..., Any]:
    """`real`, with its answers written to a tape; or, where there is one to play, with the answers that stand there."""

    def call(*given: Any) -> Any:
        if played is None:
            result = real(*given)
        else:
            assert len(tape) < len(played), "more is asked than before"
            expected, result = played[len(tape)]
            assert expected == name, f"the run asks for {name}, before it asked for {expected}"
        tape.append((name, copy.deepcopy(result)))  # servers may go on writing into their arrays
        return copy.deepcopy(result)

    return call


def _by_task(value: Any, n_tasks: int) -> list[Any]:
    """One entry per task. A sum sealed inside a jitted round shows nothing task by task."""
    if value is None or isinstance(value, Bounded):
        return [None] * n_tasks
    if isinstance(value, RowGradients):
        rows = [slice(int(a), int(b)) for a, b in zip(value.offsets[:-1], value.offsets[1:])]
        return [(value.X[r], value.slopes[r]) for r in rows]
    return [_trimmed(np.asarray(value)[i]) for i in range(n_tasks)]


def _trimmed(value: np.ndarray) -> np.ndarray:
    """Without trailing zeros of the last axis: states of one site are padded to its longest task, and stay there."""
    if value.ndim == 0 or value.dtype.kind not in "fi":
        return value
    used = np.flatnonzero(value.reshape(-1, value.shape[-1]).any(axis=0)) if value.size else np.arange(0)
    return value[..., : used[-1] + 1 if used.size else 0]


@contextmanager
def watched(trace: Trace, played: list[tuple[str, Any]] | None) -> Iterator[None]:
    """Every estimator fitted inside writes into the trace; the score of a search is a release like those of a server."""
    recorder, chosen, score = Recorder(trace, played), common_units.chosen_units, search._noisy_score

    def units(*given: Any) -> Any:  # the method as it runs: with units bought first, or in its tasks' own
        method, *rest = chosen(*given)
        return recorder.watch(method), *rest

    def scored(run: Any, held: Any, *rest: Any) -> float:
        block = run.scaling_.apply(held)
        losses = search.row_losses(block, run.models_)
        trace.note("held-out losses", [losses[block.rows(i)] for i in range(block.n_tasks)])
        return float(taped("score", score, trace.tape, played)(run, held, *rest))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(common_units, "chosen_units", units)
        patch.setattr(search, "_noisy_score", scored)
        yield


def traced(fit: Callable[[], Any], figures: Callable[[Trace, Any], None], billboards: Trace | None = None) -> Trace:
    """The trace of one fit; `figures` adds what is asked of the fitted estimator; `billboards` fixes the server."""
    trace = Trace()
    with watched(trace, None if billboards is None else billboards.tape), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            trace.estimator = fit()
            figures(trace, trace.estimator)
        except TaskveilError as error:
            trace.refusal = f"{type(error).__name__}: {error}"
        except Exception as error:
            if billboards is None:
                raise
            trace.crash = f"{type(error).__name__}: {error}"
    return trace


def differences(one: Trace, two: Trace, replaced: int | None) -> list[str]:
    """What differs, bitwise, between two runs with the same billboards: for every task but the replaced one, and in public."""
    if two.crash:
        return [two.crash]
    if one.refusal or two.refusal:
        return [] if one.refusal == two.refusal else [f"refusal: {one.refusal} / {two.refusal}"]
    found = [f"public {name}" for name in one.public if one.public[name] != two.public.get(name)]
    if list(one.parts) != list(two.parts):
        return [*found, f"what is computed: {len(one.parts)} things / {len(two.parts)} things"]
    for name, values in one.parts.items():
        if len(values) != len(two.parts[name]):
            found.append(f"{name}: of {len(values)} tasks / of {len(two.parts[name])} tasks")
            continue
        for task, (a, b) in enumerate(zip(values, two.parts[name], strict=True)):
            if task != replaced and not same(a, b):
                found.append(f"{name} of task {task}")
    return found


def same(a: Any, b: Any) -> bool:
    """Bitwise equality of arrays and of whatever holds them."""
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.shape == b.shape and a.dtype == b.dtype and _bytes(a) == _bytes(b)
    return bool(a == b)


def _bytes(a: np.ndarray) -> Any:
    return a.tolist() if a.dtype == object else np.ascontiguousarray(a).tobytes()
