"""Scaling of features and target, and the way back to the user's units.

    own              each task by its own mean and standard deviation; never sent (local work is free:
                     docs/theory/index.md#local-work)
    declared         public ranges -> [-1, 1], the same for all tasks (the target likewise; undeclared it is
                     scaled by own statistics, which unit = record refuses)
    none             as it comes
    pooled-standard  mean and standard deviation over all tasks: a statistic of everybody's data, so only
                     without privacy

`normalise="row"` then scales every row to unit l2 norm, as the papers do (MP-MTL section 5.4). A model of
normalised rows is not linear in the raw row: `inputs` prepares rows for prediction, and `coef_back` then
only undoes the target.

A column in which a task has seen no spread, or a task of fewer than four rows, has no unit there (NO_UNIT): what others know of
the column counts for nothing in that task, instead of a chance multiple. A constant target has scale 1. Held-out rows (mask) do
not enter a task's own statistics; a mask of weights counts rows by them.

The target has units by what it is: a number has a centre and a scale, a rate or a time has a scale only.

    number   y = shift + scale score              mean and deviation; with loss "huber" median and median absolute deviation
    rate     log rate = score + log scale         scale: events per exposure (loss "poisson")
    time     log hazard = score - log scale       scale: time per event (survival)
    label    the score itself

Own units are statistics of a task's own rows, never sent, for unit = task; declared ones are the end of the declared range. Rates
and times have no units without one of the two, whatever the features have: "as it comes" would be the unit somebody counted in.
Why: docs/theory/preparation.md#rates-and-times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.grouping import room_like, row_chunks, sums_by_group, task_chunks
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.robust import medians, robust_scales
from taskveil.tasks.task import EXPOSURE, TaskSet
from taskveil.threads import each

LINKS = {"poisson": "rate", "cox": "time"}
NO_UNIT = 1e200  # of a column without spread: whatever is in it becomes zero, and squares of its rounding vanish
ROWS_FOR_A_UNIT = 4  # of fewer, 1 / variance has no mean: whatever slope goes with such a unit, its expected error is infinite
Units = tuple[np.ndarray, np.ndarray]


def link_of(kind: str, loss: str | None) -> str:
    """How a score becomes a prediction."""
    return {"classification": "label", "survival": "time"}.get(kind) or LINKS.get(loss or "", "number")


def undeclared_target(bounds: PublicBounds | None) -> bool:
    """Whether nobody declared the range of the target."""
    return bounds is None or bounds.target is None


def check_declared(link: str, bounds: PublicBounds | None) -> None:
    """Unit = record: the unit of a rate or a time is declared, or there is none."""
    if link in ("rate", "time") and undeclared_target(bounds):
        what, example = (
            ("count", "[0, 50]: the largest count that can occur")
            if link == "rate"
            else ("time", "[0, 3650]: the horizon; who is followed longer counts as seen up to it")
        )
        raise OptionError(
            f"unit='record' needs the largest {what} to be declared: a task's own {'rate' if link == 'rate' else 'hazard'} would "
            f"let one row change every message. Declare target = {example} ('target' in the bounds, see `taskveil declare`)."
        )


def block_targets(tasks: TaskSet, shift: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The targets (N, 1) in these units (m,); counts per exposure."""
    if not len(tasks.y):  # rows that are elsewhere (tasks/lazy)
        return np.zeros((0, 1))
    of = tasks.task_of_row()
    y = tasks.y if tasks.exposure is None else tasks.y / tasks.exposure
    return ((y - shift[of]) / scale[of])[:, None]


def own_rates(tasks: TaskSet, link: str, mask: np.ndarray | None) -> Units:
    """Shift (zero) and scale (m,) of rates and times from every task's own rows, counted by `mask` (N,)."""
    weights = np.ones(tasks.n_rows) if mask is None else np.asarray(mask, dtype=float)
    if link == "rate":
        amounts, parts = tasks.y, np.ones(tasks.n_rows) if tasks.exposure is None else tasks.exposure
    else:
        amounts, parts = np.abs(tasks.y), (tasks.y > 0.0).astype(float)
    total, each = sums_by_group(weights * amounts, tasks.offsets), sums_by_group(weights * parts, tasks.offsets)
    usable = (total > 0.0) & (each > 0.0)
    if link == "time":  # no event: as if half of one
        usable, each = total > 0.0, np.where(each > 0.0, each, 0.5)
    return np.zeros(tasks.n_tasks), np.where(usable, total / np.where(each > 0.0, each, 1.0), 1.0)


def declared_units(link: str, bounds: PublicBounds, n_tasks: int) -> Units:
    """From the declared range; of a rate the largest count in the largest exposure."""
    assert bounds.target is not None
    low, high = bounds.target
    if link == "rate":
        high = high / bounds.features.get(EXPOSURE, (0.0, 1.0))[1]
    if link == "number":
        return np.full(n_tasks, (low + high) / 2), np.full(n_tasks, (high - low) / 2 or 1.0)
    return np.zeros(n_tasks), np.full(n_tasks, high if high > 0.0 else 1.0)


def own_numbers(y: np.ndarray, offsets: np.ndarray, mask: np.ndarray | None, robust: bool) -> Units:
    """Mean and deviation of each task's targets (N,), or median and median absolute deviation; rows of weight 0 do not count."""
    if not robust:
        y_shift, y_scale = _moments(y[:, None], offsets, mask)
        return y_shift[:, 0], _or_one(y_scale[:, 0])
    counted = None if mask is None else np.asarray(mask, dtype=float) > 0.0
    shift = medians(y, offsets, counted)
    return shift, _or_one(robust_scales(y, offsets, shift, counted))


MODES = ("own", "declared", "none", "pooled-standard")
NORMALISE = (None, "row")
ARRAYS = ("shift", "scale", "y_shift", "y_scale")


@dataclass(frozen=True, eq=False)
class Scaling:
    """shift, scale (m, d) and y_shift, y_scale (m,): scaled x = (x - shift) / scale, scaled y likewise."""

    mode: str
    shift: np.ndarray
    scale: np.ndarray
    y_shift: np.ndarray
    y_scale: np.ndarray
    normalise: str | None = None
    own_target: bool = False  # the target's range was not declared: every task scales it by its own statistics
    link: str = "number"  # how a score becomes a prediction (above)

    @classmethod
    def stored(cls, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Scaling:
        """What `arrays` and `about` of another one say; an entry that an older file lacks has its default."""
        names = {f.name for f in fields(cls)}
        given: dict[str, Any] = {n: arrays[n] for n in ARRAYS}
        return cls(**given, **{n: v for n, v in about.items() if n in names})

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """Numbers of every task, by name."""
        return {name: getattr(self, name) for name in ARRAYS}

    @property
    def about(self) -> dict[str, Any]:
        """Everything but the arrays: plain values that JSON can hold."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ARRAYS}

    @property
    def data_dependent(self) -> bool:
        """Whether numbers come from the rows: own statistics must stay with the task, and so must a model in the user's units."""
        return self.own_target or self.mode in ("own", "pooled-standard")

    @property
    def linear(self) -> bool:
        """Whether `coef_back` gives coefficients for raw rows."""
        return self.normalise is None

    def apply(self, tasks: TaskSet, *, reuse: bool = False) -> TaskBlock:
        """The scaled block. One new array of the size of X (none in mode 'none'), no larger temporary.

        `reuse=True`: the rows of `tasks` are nobody else's and will not be looked at again; they are scaled where they are.
        """
        block = TaskBlock.from_tasks(tasks)
        X = self._rows(block.X, block.task_of_row, _writable(tasks.X) if reuse else None)
        scaled = replace(block.with_rows(X), own_units=self.mode == "own" and self.linear)
        if self.link == "label" or (self.link == "number" and self.mode == "none"):
            return scaled
        scaled = scaled.with_targets(block_targets(tasks, self.y_shift, self.y_scale))
        return replace(scaled, kind="counts") if self.link == "rate" else scaled

    def inputs(self, X: np.ndarray, task: np.ndarray) -> np.ndarray:
        """Rows for which coefficients from `coef_back` hold: X itself, or the normalised rows."""
        return X if self.linear else self._rows(X, np.asarray(task))

    def coef_back(self, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Models of scaled data (m, r, d), (m, r) in the user's units: y, log rate or log hazard = W_back x + b_back."""
        up, shift = self._score_units()
        if not self.linear:
            return W * up[:, :, None], b * up + shift
        V = W / self.scale[:, None, :]
        b_raw = b - np.einsum("mrd,md->mr", V, self.shift)
        V *= up[:, :, None]  # in place: all tasks' models are large
        return V, b_raw * up + shift

    def coef_in(self, W: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The inverse of `coef_back`."""
        up, shift = self._score_units()
        V, c = W / up[:, :, None], (b - shift) / up
        if not self.linear:
            return V, c
        return V * self.scale[:, None, :], c + np.einsum("mrd,md->mr", V, self.shift)

    def _score_units(self) -> tuple[np.ndarray, np.ndarray]:
        """What a score is multiplied by, and what is added, on the way back (m, 1)."""
        if self.link in ("rate", "time"):
            log = np.log(self.y_scale[:, None])
            return np.ones_like(log), log if self.link == "rate" else -log
        return self.y_scale[:, None], self.y_shift[:, None]

    def take(self, tasks: Any) -> Scaling:
        """The scaling of some of the tasks."""
        return replace(self, **{name: values[tasks] for name, values in self.arrays.items()})

    def _rows(self, X: np.ndarray, task: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        if self.mode == "none" and self.normalise is None:
            return X
        if out is None:
            out = room_like(X)

        def scale(r: slice) -> None:
            i: Any = task[r]
            i = i[0] if self.mode != "own" or (i == i[0]).all() else i  # one task, or one scaling for all
            chunk = X[r] - self.shift[i]
            np.divide(chunk, self.scale[i], out=chunk if self.normalise == "row" else out[r], casting="same_kind")
            if self.normalise == "row":
                out[r] = _unit_rows(chunk)

        each(scale, row_chunks(X.shape[0]))
        return out


def _writable(frozen: np.ndarray) -> np.ndarray | None:
    """The array behind a frozen view of all of it; None where there is no such array of numbers."""
    behind = frozen.base
    if not isinstance(behind, np.ndarray) or behind.shape != frozen.shape or behind.dtype.kind != "f":
        return None
    return behind if behind.flags.writeable and behind.flags.owndata else None


def fit_scaling(
    tasks: TaskSet,
    mode: str = "own",
    *,
    normalise: str | None = None,
    private: bool = True,
    mask: np.ndarray | None = None,
    loss: str | None = None,
) -> Scaling:
    """Choose shift and scale.

    `private=False` (epsilon None) is the only way to statistics of all tasks together. `loss` says what the target is.
    """
    if mode not in MODES:
        raise OptionError(f"scaling must be one of {', '.join(MODES)}; got {mode!r}.")
    if normalise not in NORMALISE:
        raise OptionError(f"normalise must be None or 'row'; got {normalise!r}.")
    if mode == "pooled-standard" and private:
        raise OptionError(
            "scaling 'pooled-standard' uses statistics of all tasks without noise, so a private run refuses it. "
            "Use 'own' or 'declared' with public bounds, or epsilon=None."
        )
    m, d, link = tasks.n_tasks, tasks.n_features, link_of(tasks.kind, loss)
    make = {"own": _own, "declared": _declared, "pooled-standard": _pooled}.get(mode)
    shift, scale = make(tasks, mask) if make else (np.zeros(d), np.ones(d))
    own = (link in ("rate", "time") or (mode == "declared" and link == "number")) and undeclared_target(tasks.bounds)
    return Scaling(
        mode,
        np.broadcast_to(shift, (m, d)),
        np.broadcast_to(scale, (m, d)),
        *_target_units(tasks, mode, link, own, loss == "huber", mask),
        normalise=normalise,
        own_target=own,
        link=link,
    )


Parts = tuple[np.ndarray, np.ndarray]


def _target_units(tasks: TaskSet, mode: str, link: str, own: bool, robust: bool, mask: np.ndarray | None) -> Parts:
    """Shift and scale (m,) of the target."""
    m = tasks.n_tasks
    if not undeclared_target(tasks.bounds) and (link in ("rate", "time") or (link == "number" and mode == "declared")):
        assert tasks.bounds is not None
        return declared_units(link, tasks.bounds, m)
    if link == "label" or (mode == "none" and not own):
        return np.zeros(m), np.ones(m)
    if mode == "pooled-standard" and not own:
        y_shift, y_scale = _moments(tasks.y[:, None], np.asarray([0, tasks.n_rows]), mask)
        return np.repeat(y_shift[:, 0], m), np.repeat(_or_one(y_scale[:, 0]), m)
    if link != "number":
        return own_rates(tasks, link, mask)
    return own_numbers(tasks.y, tasks.offsets, mask, robust)


def units_of_counted(block: TaskBlock, loss: str) -> Scaling:
    """The units a block of own units would have, had its tasks never had the rows that do not count.

    A row that was centred with the others is the opposite of their sum: in a task of three rows any slopes that fit two of them
    foretell the third.
    """
    shift, scale = _own(block, block.weights)
    target = np.zeros(block.n_tasks), np.ones(block.n_tasks)
    if block.kind == "regression":
        target = own_numbers(block.y[:, 0], block.offsets, block.weights, loss == "huber")
    return Scaling("own", shift, scale, *target)


def _own(tasks: TaskSet | TaskBlock, mask: np.ndarray | None) -> Parts:
    shift, scale = _moments(tasks.X, tasks.offsets, mask)
    usable = (scale > 0.0) & (np.diff(tasks.offsets) >= ROWS_FOR_A_UNIT)[:, None]
    return shift, np.where(usable, scale, NO_UNIT)


def _pooled(tasks: TaskSet, mask: np.ndarray | None) -> Parts:
    shift, scale = _moments(tasks.X, np.asarray([0, tasks.n_rows]), mask)
    return shift[0], _or_one(scale[0])


def _declared(tasks: TaskSet, mask: np.ndarray | None) -> Parts:
    if tasks.bounds is None:
        raise OptionError("scaling 'declared' needs public bounds: pass bounds=... (or --bounds FILE), or use 'own'.")
    low, high = tasks.bounds.arrays(tasks.feature_names)
    return (low + high) / 2, _or_one((high - low) / 2)


def _moments(X: np.ndarray, offsets: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation per task and column, (m, d) each, 0 for a constant one; two passes, a few tasks at a time."""
    m, d = offsets.size - 1, X.shape[1]
    if not X.shape[0]:
        return np.broadcast_to(0.0, (m, d)), np.broadcast_to(0.0, (m, d))
    mean, std = np.zeros((m, d)), np.zeros((m, d))

    def some(tasks: tuple[int, int]) -> None:
        a, b = tasks
        rows, part = slice(offsets[a], offsets[b]), offsets[a : b + 1] - offsets[a]
        w = np.ones(part[-1]) if mask is None else mask[rows].astype(np.float64)
        total = sums_by_group(w, part)
        n = np.where(total > 0.0, total, 1.0)[:, None]
        chunk = X[rows] if mask is None else X[rows] * w[:, None]
        mean[a:b] = sums_by_group(chunk, part) / n
        centred = X[rows] - np.repeat(mean[a:b], np.diff(part), axis=0)
        np.square(centred, out=centred)
        if mask is not None:
            centred *= w[:, None]
        std[a:b] = np.sqrt(sums_by_group(centred, part) / n)

    each(some, task_chunks(offsets))
    tiny = 1e-10 * np.maximum(np.abs(mean), 1e-300)  # rounding of a constant column is not a spread
    return mean, np.where(std > tiny, std, 0.0)


def _or_one(scale: np.ndarray) -> np.ndarray:
    return np.where(scale > 0, scale, 1.0)


def _unit_rows(X: np.ndarray) -> np.ndarray:
    norms = np.sqrt(np.einsum("nd,nd->n", X, X))
    return X / np.where(norms > 0, norms, 1.0)[:, None]
