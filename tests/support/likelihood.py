"""The exact privacy loss of whole runs: real noise, the billboards it led to, and every sum as both neighbours would send it.

Two neighbouring raw tables are prepared by the estimator's own `fit`. Then one of them is run, with noise of the system, and a
second task side on the other's rows steps at the same views (audits/both_worlds.py). Both messages are clipped and summed by the
runtime's own step 2 and put on the mechanism's grid, so that every release gives the logarithm of its two densities exactly.
Under adaptive composition these add up to the loss of the run.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import rel_entr
from scipy.stats import chi2, norm

from taskveil.audits.both_worlds import with_other_worlds
from taskveil.audits.observe import _WithoutEnd
from taskveil.audits.rehearsal import RunLog, _Silenced, train
from taskveil.methods.base import Method
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.planned import PlannedRelease
from taskveil.privacy.randomness import NoiseSource, system_noise
from taskveil.runtime import in_process
from taskveil.runtime.round import bounded
from taskveil.runtime.run import Run

FALSE_ALARM = 1e-6
ROUNDING = 1e-6  # relative: sums of floats, and noise on a grid of 2^-40 deviations

Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # X, y, task; the protected unit is the first task or its first row


@dataclass
class Transcript:
    """One run: per release how far the neighbours' sums lie apart, the loss, the noise, and how many summands differ."""

    relation: str  # which neighbours the plan counts on
    moves: dict[str, float] = field(default_factory=dict)  # over what the plan allows
    squares: float = 0.0  # sum of (distance / scale)^2
    loss: float = 0.0
    noise: list[np.ndarray] = field(default_factory=list)  # in planned deviations
    summands: int = 0  # most that differ in one message

    def note(self, planned: PlannedRelease, noisy: np.ndarray, here: Any, there: Any) -> None:
        what, scale = planned.contribution, planned.mechanism.scale
        z, a, b = what.to_vector(noisy), _sum(planned, here), _sum(planned, there)
        apart = float(np.linalg.norm(a - b))
        self.moves[planned.id] = apart / what.sensitivity(self.relation).l2
        self.squares += (apart / scale) ** 2
        self.loss += float((a - b) @ (z - (a + b) / 2)) / scale**2  # log density at z around a over that around b
        self.noise.append((z - a) / scale)
        self.summands = max(self.summands, _differing(here, there))


def _sum(planned: PlannedRelease, message: Any) -> np.ndarray:
    """What noise is put on: clipped, summed, on the grid."""
    what = planned.contribution
    total = what.total(bounded(planned, message, None, system_noise()))
    return np.asarray(what.to_vector(planned.mechanism.put(what, total, np.zeros(what.vector_size))))


def _differing(here: Any, there: Any) -> int:
    """Rows, or tasks' messages, that are not the same bits."""
    if not isinstance(here, RowGradients):
        return int((_bits(here) != _bits(there)).any(axis=1).sum())
    return int(((_bits(here.X) != _bits(there.X)).any(axis=1) | (_bits(here.slopes) != _bits(there.slopes)).any(axis=1)).sum())


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float64).view(np.int64).reshape(len(values), -1)


@dataclass
class Neighbours:
    """Two neighbouring tables as the estimator prepared them; `absent`: the second one's canary is the null unit."""

    worlds: tuple[RunLog, RunLog]
    estimator: Any
    absent: bool

    @staticmethod
    def of(estimator: Any, first: Table, second: Table | None) -> Neighbours:
        """`second` None: the first table without its canary (add-remove)."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = [train(estimator, lambda table=table: table) for table in (first, first if second is None else second)]
        for one in fitted:
            if one.error is not None:
                raise one.error
        a, b = (one.logs[0] for one in fitted)
        assert a.plan == b.plan and a.public.to_dict() == b.public.to_dict()
        return Neighbours((a, replace(b, block=copy.copy(b.block))), fitted[0].estimator, second is None)

    def runs(self, count: int, real: int = 0, source: NoiseSource | None = None) -> list[Transcript]:
        """Runs of world `real`, seen from both."""
        return [self._run(real, source or system_noise()) for _ in range(count)]

    def _run(self, real: int, source: NoiseSource) -> Transcript:
        here, there = self.worlds[real], self.worlds[1 - real]
        seen = Transcript(str(here.plan.budget.neighbours))
        method = with_other_worlds(self._method(here.method), there.block, seen.note)
        with np.errstate(all="ignore"):
            in_process.run(Run(method, here.public, here.plan, source=source), here.block)
        return seen

    def _method(self, method: Method) -> Method:
        """Without the last local fits, which nobody sees; the null unit in its world."""
        spy: Any = copy.copy(method)

        def task_side(block: Any, public: Any, plan: Any) -> Any:
            side = _WithoutEnd(method.task_side(block, public, plan))
            away = self.absent and block is self.worlds[1].block
            return _Silenced(side, str(plan.budget.unit)) if away else side

        spy.task_side = task_side
        return spy


def violations(pair: Neighbours, transcripts: Sequence[Transcript]) -> list[str]:
    """What the certificate says and these runs refute; the last two are wrong with probability 1e-6 each."""
    (statement,) = {(s.epsilon, s.delta) for s in pair.estimator.certificate_.statements}
    epsilon, delta = statement
    found = sorted({name for seen in transcripts for name, move in seen.moves.items() if move > 1 + ROUNDING})
    found = [f"release {name} moves further than its sensitivity" for name in found]
    if any(seen.summands > 1 for seen in transcripts):
        found.append("several summands of a message differ")
    if gaussian_delta(epsilon, math.sqrt(max(seen.squares for seen in transcripts))) > delta * (1 + ROUNDING):
        found.append("the sums lie further apart than epsilon allows")
    excess = np.mean([max(0.0, 1 - math.exp(min(epsilon - seen.loss, 0.0))) for seen in transcripts])
    if too_often(float(excess), delta, len(transcripts)):
        found.append("losses beyond epsilon are more frequent than delta")
    noise = np.concatenate([part for seen in transcripts for part in seen.noise])
    if not FALSE_ALARM / 2 < chi2.cdf(noise @ noise, noise.size) < 1 - FALSE_ALARM / 2:
        found.append("the noise has another deviation than planned")
    return found


def too_often(mean: float, expected: float, count: int) -> bool:
    """Whether numbers in [0, 1] of at most this expectation have such a mean with a chance below 1e-6 (Hoeffding 1963, 2.1)."""
    distance = rel_entr(mean, expected) + rel_entr(1 - mean, 1 - expected)
    return mean > expected and count * distance > -math.log(FALSE_ALARM)


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Balle & Wang 2018, Theorem 8, written out."""
    return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)) if mu > 0 else 0.0
