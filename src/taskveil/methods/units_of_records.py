"""Common units when single rows are protected: first and second moments of rows inside declared outer ranges.

    round 1  "common-moments"  sum over rows of (x, x^2) / sqrt(2 columns), x the row in its declared ranges [-1, 1]; RowSum,
                               bound 1
    server   centre = mean, scale = deviation, of N rows (public); a column whose variance drowns in noise keeps its range

Unit: one row. Its part has length at most 1 inside the ranges and is clipped to 1 by the runtime outside them, so replacing a row
moves the sum by at most 2. (docs/theory/preparation.md#common-scale-records has a sharper joint bound, 2 a sqrt(d) with more
weight on x^2; this one needs no new kind of sum.) Afterwards every row is mapped by released numbers alone: no own mean, no own
deviation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from taskveil.methods.base import Message, PublicInfo, State, View
from taskveil.methods.common_units import Units, columns_of, n_columns
from taskveil.methods.row_gradients import RowGradients
from taskveil.methods.shared_prior import noise_deviation
from taskveil.privacy.contributions import RowSum
from taskveil.privacy.plan import Plan, Request
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.scaling import Scaling

MOMENTS = "common-moments"
MOST_NOISE = 0.02  # on a mean, in declared ranges [-1, 1]; above it the ranges themselves serve better
SMALLEST = 1e-3  # of a declared half range: no scale is finer
CLEAR = 4.0  # deviations of noise by which a variance must stand out


class RecordUnits(Units):
    """Moments of rows, one round."""

    rounds = 1

    def requests(self, public: PublicInfo, weights: Units.Weights) -> list[Request]:
        return [Request(MOMENTS, 1, RowSum((1, 2 * n_columns(public)), 1.0), weight=weights(1.0))]

    def worth_buying(self, plan: Plan, public: PublicInfo) -> bool:
        return noise_of_a_mean(plan, public) <= MOST_NOISE

    def message(self, block: TaskBlock, view: View, public: PublicInfo, plan: Plan) -> Message:
        x = columns_of(block)
        rows = np.hstack([x, np.square(np.clip(x, -1.0, 1.0))]) / math.sqrt(2 * x.shape[1])
        slopes = np.ones((len(x), 1)) if block.weights is None else block.weights[:, None]
        return {MOMENTS: RowGradients(rows, slopes, block.offsets)}

    def publish(self, releases: Mapping[str, np.ndarray], values: State, public: PublicInfo, plan: Plan) -> State:
        columns = n_columns(public)
        moments = releases[MOMENTS].reshape(2, columns) * math.sqrt(2 * columns) / _rows(public)
        mean = np.clip(moments[0], -1.0, 1.0)
        variance = moments[1] - mean**2
        clear = variance > CLEAR * noise_of_a_mean(plan, public) + SMALLEST**2
        scale = np.sqrt(np.where(clear, variance, 1.0))
        usable = clear.astype(np.float64)
        return {"common/scale": scale, "common/scaled": usable, "common/centre": mean * usable, "common/centred": usable}

    def scaling(self, block: TaskBlock, values: Mapping[str, np.ndarray], loss: str = "squared") -> Scaling:
        wide = (block.n_tasks, values["common/scale"].size)
        scale = np.clip(values["common/scale"], SMALLEST, 1.0)  # whatever a server may publish
        centre = np.clip(values["common/centre"], -1.0, 1.0)
        return self.as_scaling(block, np.broadcast_to(centre, wide), np.broadcast_to(scale, wide))


def noise_of_a_mean(plan: Plan, public: PublicInfo) -> float:
    """Deviation of the noise on the mean of a column, in units of its declared half range."""
    planned = next(p for p in plan.releases if p.name == MOMENTS)
    deviation = noise_deviation(planned, public.n_tasks, plan.budget.aggregation)
    return deviation * math.sqrt(2 * n_columns(public)) / _rows(public)


def _rows(public: PublicInfo) -> float:
    return float(max(1, sum(public.task_rows or ())))
