"""Units of the target, by what it is: a number has a centre and a scale, a rate or a time has a scale only.

    number   y = shift + scale score              mean and deviation; with loss "huber" median and median absolute deviation
    rate     log rate = score + log scale         scale: events per exposure (loss "poisson")
    time     log hazard = score - log scale       scale: time per event (survival)
    label    the score itself

Own units are statistics of a task's own rows, never sent, for unit = task; declared ones are the end of the declared range. Rates
and times have no units without one of the two, whatever the features have: "as it comes" would be the unit somebody counted in.
Why: docs/theory/preparation.md#rates-and-times.
"""

from __future__ import annotations

import numpy as np

from taskveil.errors import OptionError
from taskveil.tasks.grouping import sums_by_group
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import EXPOSURE, TaskSet

__all__ = ["block_targets", "check_declared", "declared_units", "link_of", "own_rates", "robust_units", "undeclared_target"]

LINKS = {"poisson": "rate", "cox": "time"}
DEVIATIONS = 1.4826  # median absolute deviations in a standard deviation, of normal numbers
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
            f"carry every row into every message. Declare target = {example} ('target' in the bounds, see `taskveil declare`)."
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


def robust_units(tasks: TaskSet, mask: np.ndarray | None) -> Units:
    """Median, and median absolute deviation in standard deviations; rows of weight 0 do not count. Equal targets have scale 1."""
    shift, scale = np.zeros(tasks.n_tasks), np.ones(tasks.n_tasks)
    for i in range(tasks.n_tasks):
        y = tasks.y[tasks.rows(i)]
        y = y if mask is None else y[mask[tasks.rows(i)] > 0.0]
        if y.size:
            shift[i] = np.median(y)
            spread = DEVIATIONS * np.median(np.abs(y - shift[i])) or y.std()
            scale[i] = spread if spread > 1e-10 * max(abs(shift[i]), 1e-300) else 1.0
    return shift, scale
