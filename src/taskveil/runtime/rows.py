"""From row gradients to a bounded message: draw the Poisson sample, clip every row, sum. Happens at the site.

Coins come from the one randomness source, fresh for every message and keyed by task, and are used nowhere else; rows that
are not drawn are set to zero rather than removed, so that neither shapes nor timing show how many were.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taskveil.errors import OptionError
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.contributions import RowSum
from taskveil.privacy.plan import PlannedRelease
from taskveil.privacy.randomness import NoiseSource


def bounded_rows(planned: PlannedRelease, rows: RowGradients, source: NoiseSource, tasks: Sequence[str | int]) -> Bounded:
    """The clipped sum of the drawn rows of each task; `tasks` names them (keys of seeded test coins)."""
    if not isinstance(planned.contribution, RowSum):
        raise OptionError(f"release {planned.id!r} is not a sum of rows; the method must send whole messages")
    slopes = rows.slopes
    if planned.rate is not None and planned.rate < 1:
        slopes = slopes * _drawn(planned, rows, source, tasks)[:, None]
    return planned.contribution.sum_factored_rows(rows.X, slopes, rows.offsets)


def _drawn(planned: PlannedRelease, rows: RowGradients, source: NoiseSource, tasks: Sequence[str | int]) -> np.ndarray:
    drawn, rate = np.zeros(len(rows.slopes)), float(planned.rate or 1.0)
    for position, task in enumerate(tasks):
        own = slice(int(rows.offsets[position]), int(rows.offsets[position + 1]))
        coins = source.at(planned.round, f"{planned.name}/rows", task)
        drawn[own] = coins.bernoulli(rate, own.stop - own.start)
    return drawn
