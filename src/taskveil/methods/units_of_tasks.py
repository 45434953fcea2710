"""Common units when tasks are protected: a scale, then a centre, from clipped statistics of every task's own rows.

    round 1  "common-scale"   per column (a l / B, a) with l = log10 of the task's own deviation, clipped to B decades, and
                              a = 1 where the task sees any spread, else 0; VectorSum, bound 1
    server   scale = 10^(B sum(a l / B) / sum(a)) where sum(a) stands clear of the noise, else the column has none
    round 2  "common-centre"  per column the task's mean over (R scale), clipped to [-1, 1]; VectorSum, bound 1
    server   centre = R scale mean, unless it lies close to the end of that range or drowns in noise

R is public: as large as the noise of a centre allows, three tenths of a scale, or ten scales.

Where nothing common was found a task uses its own centre or scale: they are its own business, since the unit is the task and only
clipped messages leave it. l is corrected for its bias in tasks of few rows, E log s^2 = log sigma^2 + digamma(v/2) - log(v/2)
with v = rows - 1 (normal rows).

Not worth it where the noise on a log10 scale is above 0.2. (Measured on tasks of 2 to 10 rows with one model in common: at 0.17
and below common units lower the error everywhere, at 0.31 they raise it.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np
from scipy.special import digamma

from taskveil.methods.base import Message, PublicInfo, State, View
from taskveil.methods.common_units import Units, columns_of, n_columns
from taskveil.methods.shared_prior import noise_deviation
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.plan import Plan, Request
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.scaling import NO_UNIT, Scaling
from taskveil.tasks.robust import medians, robust_scales
from taskveil.threads import each

SCALE, CENTRE = "common-scale", "common-centre"
DECADES = 4.0  # B: deviations from 1e-4 to 1e4 of the user's units are told apart; others count as the nearest of these
RANGE, LARGEST_RANGE = 10.0, 1e4  # R: centres up to that many deviations from zero are found; a task's own is used beyond
CENTRE_NOISE = 0.3  # of a scale: what a centre may be wrong by
SCALE_PART = 0.7  # of what is spent on units; the rest is for centres
VALUE_PART = 0.8  # of a scale message's squared length; the rest says whether there is a value
MOST_NOISE = 0.2  # of a log10 scale; above it a common scale is not worth buying
CLEAR = 4.0  # deviations of noise by which a count must stand out
NEAR_END = 0.9  # of RANGE: a centre further out may have been clipped


class TaskUnits(Units):
    """Statistics of whole tasks, two rounds."""

    rounds = 2

    def requests(self, public: PublicInfo, weights: Units.Weights) -> list[Request]:
        columns = n_columns(public)
        return [
            Request(SCALE, 1, VectorSum((2, columns), 1.0), weight=weights(SCALE_PART)),
            Request(CENTRE, 2, VectorSum((columns,), 1.0), weight=weights(1.0 - SCALE_PART)),
        ]

    def worth_buying(self, plan: Plan, public: PublicInfo) -> bool:
        return decades_of_noise(plan, public, public.n_tasks) <= MOST_NOISE

    def message(self, block: TaskBlock, view: View, public: PublicInfo, plan: Plan) -> Message:
        if view.round == 0:
            return {SCALE: scale_message(block, public.loss)}
        return {CENTRE: centre_message(block, view, _reach(_deviation(CENTRE, public, plan), public), public.loss)}

    def publish(self, releases: Mapping[str, np.ndarray], values: State, public: PublicInfo, plan: Plan) -> State:
        if SCALE in releases:
            return {**values, **_scales(releases[SCALE], _deviation(SCALE, public, plan))}
        return {**values, **_centres(releases[CENTRE], values, _deviation(CENTRE, public, plan), public)}

    def scaling(self, block: TaskBlock, values: Mapping[str, np.ndarray], loss: str = "squared") -> Scaling:
        mean, deviation, seen = own_statistics(block, loss)
        released = np.clip(values["common/scale"], 10.0**-DECADES, 10.0**DECADES)  # whatever a server may publish
        scale = np.where(values["common/scaled"] > 0, released, np.where(seen, deviation, NO_UNIT))
        if block.kind == "regression":
            scale[:, -1] = np.where(scale[:, -1] < NO_UNIT, scale[:, -1], 1.0)
        centre = np.where(values["common/centred"] > 0, values["common/centre"], mean)
        return self.as_scaling(block, centre, scale)


def decades_of_noise(plan: Plan, public: PublicInfo, senders: float) -> float:
    """Deviation of the noise on a log10 scale to which this many tasks contribute."""
    return _deviation(SCALE, public, plan) * DECADES * math.sqrt(n_columns(public) / VALUE_PART) / senders


def own_statistics(block: TaskBlock, loss: str = "squared") -> tuple[np.ndarray, ...]:
    """Mean and deviation of every column of every task (m, columns), and whether it has any spread; finite, whatever came.

    Of a target with wild values (loss "huber") the median, and the median absolute deviation.
    """
    some = each(partial(_statistics, robust=loss == "huber"), block.parts())  # few tasks at a time: no second array as large as X
    return tuple(np.concatenate(column) for column in zip(*some, strict=True))


def _statistics(block: TaskBlock, robust: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = columns_of(block)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = block.means_by_task(rows)
        variance = block.means_by_task((rows - mean[block.task_of_row]) ** 2)
        deviation = np.sqrt(variance * (block.counts / np.maximum(block.counts - 1.0, 1.0))[:, None])
        if robust:
            target, counted = rows[:, -1], None if block.weights is None else block.weights > 0.0
            mean[:, -1] = medians(target, block.offsets, counted)
            deviation[:, -1] = robust_scales(target, block.offsets, mean[:, -1], counted)
        seen = np.isfinite(deviation) & (deviation > 1e-10 * np.abs(mean)) & (block.counts >= 2.0)[:, None]
    return np.where(np.isfinite(mean), mean, 0.0), np.where(seen, deviation, 1.0), seen


def scale_message(block: TaskBlock, loss: str = "squared") -> np.ndarray:
    """(m, 2, columns): (a l / B, a), weighted so that the whole has length at most one."""
    _, deviation, seen = own_statistics(block, loss)
    half = np.maximum(block.counts - 1.0, 1.0)[:, None] / 2.0
    logs = np.log10(deviation) - (digamma(half) - np.log(half)) / (2.0 * math.log(10.0))
    values = np.where(seen, np.clip(logs / DECADES, -1.0, 1.0), 0.0)
    weighted = (math.sqrt(VALUE_PART) * values, math.sqrt(1.0 - VALUE_PART) * seen)
    return np.stack(weighted, axis=1) / math.sqrt(seen.shape[1])


def centre_message(block: TaskBlock, view: View, reach: float = RANGE, loss: str = "squared") -> np.ndarray:
    """(m, columns): means in units of R = `reach` scales; zero where the column has no common scale."""
    mean, _, _ = own_statistics(block, loss)
    places = np.clip(mean / (reach * view["common/scale"]), -1.0, 1.0) * view["common/scaled"]
    return places / math.sqrt(mean.shape[1])


def _scales(total: np.ndarray, deviation: float) -> State:
    columns = total.shape[1]
    senders = total[1] * math.sqrt(columns / (1.0 - VALUE_PART))
    sums = total[0] * math.sqrt(columns / VALUE_PART)
    noise = deviation * math.sqrt(columns / (1.0 - VALUE_PART))
    clear = senders > max(CLEAR * noise, 0.5)
    logs = DECADES * np.clip(sums / np.where(clear, senders, 1.0), -1.0, 1.0)
    return {"common/scale": np.where(clear, 10.0**logs, 1.0), "common/scaled": clear.astype(np.float64)}


def _reach(deviation: float, public: PublicInfo) -> float:
    """R, from the noise of a sum of centres."""
    noise = deviation * math.sqrt(n_columns(public)) / public.n_tasks
    return float(np.clip(CENTRE_NOISE / max(noise, 1e-300), RANGE, LARGEST_RANGE))


def _centres(total: np.ndarray, values: State, deviation: float, public: PublicInfo) -> State:
    spread, reach = math.sqrt(total.size) / public.n_tasks, _reach(deviation, public)
    places = np.clip(total * spread, -1.0, 1.0)
    precise = deviation * spread * reach <= 1.0
    usable = (np.abs(places) <= NEAR_END) & (values["common/scaled"] > 0) & precise
    centre = np.where(usable, places * reach * values["common/scale"], 0.0)
    return {"common/centre": centre, "common/centred": usable.astype(np.float64)}


def _deviation(name: str, public: PublicInfo, plan: Plan) -> float:
    planned = next(p for p in plan.releases if p.name == name)
    return noise_deviation(planned, public.n_tasks, plan.budget.aggregation)
