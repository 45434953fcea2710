"""Audits of single mechanisms: worst-case neighbours, many outputs drawn by the mechanism's own code, the best test.

The path is the real one: raw messages -> contribution.clip -> total -> the mechanism that `make_plan` calibrated -> `add`.
Only the drawing of many outputs at once is ours: laws with independent coordinates get runs as further coordinates, matrix
laws get a stream that hands out whole batches, and what fits neither is drawn one by one.

Low bits   Wishart and l2-Laplace noise have no exact sampler; their certificates cover real arithmetic. So their outputs are
rounded to 2^-24 of the scale before they are scored (post-processing). `low_bits=True` leaves them as they are, and the audit
then refutes the two-sided Wishart at d = 1 through the last bits of doubles, as Mironov 2012 did for Laplace noise.

Worst-case neighbours   others zero. add-remove: K along e1 against nothing. replace-one: opposite messages for sums of
vectors, orthogonal ones for second moments (|e1 e1' - e2 e2'|_F = sqrt 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from taskveil.audits import statistics
from taskveil.audits.result import AuditResult, Progress, Statistics, search
from taskveil.errors import OptionError
from taskveil.privacy.contributions import Contribution, DiagonalSum, MomentSum, OuterSum, VectorSum
from taskveil.privacy.events import GaussianEvent
from taskveil.privacy.mechanisms.gaussian import Gaussian
from taskveil.privacy.mechanisms.laplace import L2Laplace, Laplace
from taskveil.privacy.mechanisms.paper_wishart import PaperWishart
from taskveil.privacy.mechanisms.wishart import TwoSidedWishart
from taskveil.privacy.plan import Budget, PlannedRelease, Request, make_plan
from taskveil.privacy.randomness import FloatArray, NoiseSource, Shape, Stream, insecure_seeded_noise, system_noise
from taskveil.privacy.units import Neighbours

FAR = 1e3  # a canary's raw message is this many times the clipping norm long
BATCH = 250_000
ROUNDING = 2.0**-24  # of the scale

# name -> (contribution of a dimension, default dimension for add-remove / replace-one, default trials)
TARGETS: dict[str, tuple[Callable[[int], Contribution], tuple[int, int], int]] = {
    "gaussian": (lambda d: VectorSum((d,), 1.0), (1, 1), 1_000_000),
    "matrix-gaussian": (lambda d: OuterSum(d, 1.0), (2, 2), 1_000_000),
    "moments": (lambda d: MomentSum(d, 0.8, 0.1, 0.6), (2, 2), 1_000_000),  # Gaussian noise on a mean and a second moment
    "two-sided-wishart": (lambda d: OuterSum(d, 1.0), (1, 2), 300_000),
    "paper-wishart": (lambda d: OuterSum(d, 1.0), (3, 3), 100_000),
    "laplace": (lambda d: DiagonalSum(d, 1.0), (2, 2), 1_000_000),
    "l2-laplace": (lambda d: VectorSum((d,), 1.0), (2, 2), 100_000),
}


class BatchedStream(Stream):
    """A stream whose every draw has a leading axis of `runs` independent copies."""

    def __init__(self, stream: Stream, runs: int) -> None:
        self._stream, self._runs = stream, runs

    def _wide(self, shape: Shape) -> tuple[int, ...]:
        return (self._runs, *((shape,) if isinstance(shape, int) else shape))

    def normal(self, scale: float, shape: Shape) -> FloatArray:
        return self._stream.normal(scale, self._wide(shape))

    def laplace(self, scale: float, shape: Shape) -> FloatArray:
        return self._stream.laplace(scale, self._wide(shape))

    def uniform(self, size: Shape) -> FloatArray:
        return self._stream.uniform(self._wide(size))

    def chi_square(self, degrees: float | FloatArray, size: Shape = ()) -> FloatArray:
        return self._stream.chi_square(degrees, self._wide(size))

    def wishart(self, dimension: int, degrees: int, scale: float, size: tuple[int, ...] = ()) -> FloatArray:
        return self._stream.wishart(dimension, degrees, scale, self._wide(size))

    def key(self) -> bytes:
        return self._stream.key()


@dataclass(frozen=True)
class Setting:
    """A planned release and the clipped totals of the two neighbours."""

    planned: PlannedRelease
    totals: tuple[np.ndarray, np.ndarray]

    def outputs(self, world: int, runs: int, stream: Stream) -> np.ndarray:
        """Noisy totals (runs, *total_shape)."""
        planned, total = self.planned, self.totals[world]
        mechanism, what = planned.mechanism, planned.contribution
        if isinstance(mechanism, Laplace) or (isinstance(mechanism, Gaussian) and not what.symmetric):
            wide = VectorSum((runs, *what.total_shape), what.bound)  # runs as further coordinates
            return mechanism.add(wide, np.broadcast_to(total, wide.shape), stream)
        if isinstance(mechanism, Gaussian | TwoSidedWishart | PaperWishart):
            return mechanism.add(what, total, BatchedStream(stream, runs))
        return np.stack([mechanism.add(what, total, stream) for _ in range(runs)])


def setting(
    name: str, epsilon: float, delta: float, neighbours: str, dimension: int | None = None, variant: str | None = None
) -> Setting:
    """The mechanism as a plan calibrates it, between worst-case neighbours."""
    if name not in TARGETS:
        raise OptionError(f"no mechanism audit for {name!r}; known: {', '.join(TARGETS)}")
    make, defaults, _ = TARGETS[name]
    what = make(dimension or defaults[neighbours != "add-remove"])
    paper = name == "paper-wishart"
    variant = ("preprint" if variant == "preprint" else "paper") if paper else "sound"
    law = "gaussian" if name == "moments" else name
    budget = Budget(epsilon, delta, neighbours=Neighbours(neighbours), mechanism=law, variant=variant)
    (planned,) = make_plan([Request("audited", 1, what)], budget).releases
    return Setting(planned, (_total(what, other_message(what, neighbours)), _total(what, first_message(what))))


def first_message(what: Contribution) -> np.ndarray:
    """K times FAR along the first coordinate."""
    message = np.zeros(what.message_shape)
    message.flat[0] = FAR * what.bound
    if isinstance(what, MomentSum):
        message[-1] = FAR
    return message


def other_message(what: Contribution, neighbours: str) -> np.ndarray:
    """Nothing (add-remove), the opposite vector, or an orthogonal one for second moments."""
    if neighbours == "add-remove":
        return np.zeros(what.message_shape)
    message = first_message(what)
    if isinstance(what, OuterSum | DiagonalSum):
        return np.roll(message, 1, axis=-1) if what.n_features > 1 else np.zeros(what.message_shape)
    if isinstance(what, MomentSum):
        cosine = what.worst_angle if what.n_features > 1 else -1.0
        message[0], message[1], message[-1] = FAR * cosine, FAR * math.sqrt(1 - cosine**2), -FAR
        return message
    return -message


def _total(what: Contribution, message: np.ndarray) -> np.ndarray:
    return what.total(what.clip(message[None]))


def scores(case: Setting) -> Statistics:
    """The likelihood ratio where the density is known; listed scores where it is not."""
    (t0, t1), mechanism, what = case.totals, case.planned.mechanism, case.planned.contribution
    listed = {"projection on the shift": statistics.projection(t1 - t0)}
    if isinstance(mechanism, L2Laplace):
        listed = {"likelihood ratio": statistics.distance_ratio(t0, t1, 2)}
    elif isinstance(mechanism, Laplace) or what.total_shape == (1, 1):
        listed = {"likelihood ratio": statistics.distance_ratio(t0, t1, 1)}
        if isinstance(mechanism, PaperWishart):
            listed = {"support violation": statistics.support(t1)}
    elif isinstance(mechanism, Gaussian):
        listed = {"likelihood ratio": statistics.projection(t1 - t0)}
    elif what.symmetric:
        listed["support violation"] = statistics.support(t1)
        listed["support violation of the other"] = statistics.support(t0)
        listed["trace"] = statistics.trace
        listed["largest eigenvalue"] = statistics.extreme_eigenvalue(True)
        listed["smallest eigenvalue"] = statistics.extreme_eigenvalue(False)
    return lambda first, second: dict(listed)


def audit_mechanism(
    name: str,
    epsilon: float,
    delta: float | None = None,
    *,
    trials: int | None = None,
    seed: int | None = None,
    neighbours: str | None = None,
    dimension: int | None = None,
    variant: str | None = None,
    low_bits: bool = False,
    progress: Progress | None = None,
) -> AuditResult:
    """Attack one release of a mechanism calibrated to (epsilon, delta)."""
    relation = neighbours or "add-remove"
    delta = 1e-5 if delta is None else delta
    case = setting(name, epsilon, delta, relation, dimension, variant)
    runs = TARGETS[name][2] if trials is None else int(trials)
    source = system_noise(exact=False) if seed is None else insecure_seeded_noise(seed)

    exact = isinstance(case.planned.mechanism, Gaussian | Laplace)  # these have exact discrete samplers

    def sampler(world: int, begin: int, count: int) -> np.ndarray:
        drawn = _outputs(case, source, world, begin, count)
        return drawn if low_bits or exact else _rounded(drawn, case.planned.mechanism.scale)

    gaussian = isinstance(case.planned.event, GaussianEvent)
    finding = search(sampler, scores(case), epsilon, delta, runs, progress=progress, gaussian=gaussian)
    return AuditResult(
        target=name, delta=delta, **finding.fields(epsilon), neighbours=relation, seed=seed,
        variant="paper" if name == "paper-wishart" else "sound", observer="whoever sees the release",
        details={"total_shape": list(case.planned.contribution.total_shape), "scale": case.planned.mechanism.scale},
    )  # fmt: skip


def _outputs(case: Setting, source: NoiseSource, world: int, begin: int, count: int) -> np.ndarray:
    parts = []
    for start in range(begin, begin + count, BATCH):
        runs = min(BATCH, begin + count - start)
        parts.append(case.outputs(world, runs, source.at(start, f"audit/world-{world}")))
    return np.concatenate(parts)


def _rounded(outputs: np.ndarray, scale: float) -> np.ndarray:
    grid = 2.0 ** np.floor(np.log2(scale)) * ROUNDING
    return np.rint(outputs / grid) * grid
