"""What an audit says, and the staged search that says it: draw, choose a test on one part, count on the other, stop early.

Stages look at 1/16, 1/4 and all of the runs. An audit that may stop early tests several times, so the error probabilities
are shared out: of the verdict's 1e-6 every stage gets an equal part; of the bound's 5 % the early stages get 0.5 % each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from taskveil.audits.lower_bound import CONFIDENCE, FALSE_ALARM, Bound, Test, choose_test, epsilon_bound, held_out_bound, mu_bound
from taskveil.errors import OptionError
from taskveil.privacy.guarantees import gaussian_epsilon

CONSISTENT, REFUTED = "consistent", "refuted"
EARLY_SHARE = 0.005
CAUTION = 0.1  # the threshold is chosen at a tenth of alpha: far in the tails the selection part flatters it
SMALLEST_STAGE = 700  # runs; fewer do not always show an epsilon above 3
SIMULATION = (
    "a simulation on made-up neighbours: no private rows were read, nothing was charged to a ledger, and no canary is in a "
    "released model"
)

Progress = Callable[[int, int], None]
Sampler = Callable[[int, int, int], np.ndarray]  # world, first run, runs -> outputs (runs, size)
Statistics = Callable[[np.ndarray, np.ndarray], dict[str, Callable[[np.ndarray], np.ndarray]]]


@dataclass(frozen=True)
class AuditResult:
    """The claimed epsilon and the lower bound that an attack found, side by side.

    Attributes
    ----------
    claimed_epsilon, delta : float
        What the certificate claims.
    lower_bound : float
        Epsilon is at least this, with the given `confidence`.
    verdict : {"consistent", "refuted"}
        "refuted" if the attack contradicts the claim.
    refutation_bound : float
        The lower bound with confidence 1 - 1e-6, on which the verdict rests.
    leaks : list of str
        Differences outside of releases, which no noise covers. Any leak refutes the claim.
    power : float or None
        The largest epsilon that this number of runs could have shown.
    trials : int
        Runs under each of the two neighbouring tables.
    """

    target: str
    claimed_epsilon: float
    delta: float
    lower_bound: float  # with `confidence`
    confidence: float
    attack: str
    trials: int  # outputs drawn under each of the two neighbours
    verdict: str
    refutation_bound: float = 0.0  # the bound with confidence 1 - 1e-6 that the verdict rests on
    neighbours: str = ""
    unit: str = "task"
    observer: str = "other-tasks"
    variant: str = "sound"
    seed: int | None = None
    details: dict[str, Any] = field(default_factory=dict)
    note: str = SIMULATION
    leaks: list[str] = field(default_factory=list)  # differences outside of releases: no noise covers them
    power: float | None = None  # the largest epsilon that so many runs could have shown with confidence 1 - 1e-6
    configuration: dict[str, Any] | None = None  # what was attacked (audits.configuration)
    gaussian_bound: float | None = None  # epsilon at delta of the least mu-GDP curve not refuted; None: no such claim
    gaussian_refutation_bound: float | None = None  # the same with the confidence of the verdict
    every_release: dict[str, Any] | None = None  # the bound from single releases, where all are visible (both_worlds.py)
    alarm: float = FALSE_ALARM  # how often a correct run is called refuted, at most

    @property
    def refuted(self) -> bool:
        """Whether the attack contradicts the claim."""
        return self.verdict == REFUTED

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)

    def __str__(self) -> str:
        what = f"{self.target} ({self.variant}, {self.neighbours} neighbours, one {self.unit} against {self.observer})"
        claim = f"claimed epsilon {self.claimed_epsilon:.4g}, delta {self.delta:.3g}"
        bound = f"lower bound {self.lower_bound:.4g} with {100 * self.confidence:.4g} % confidence"
        if self.gaussian_bound is not None:
            bound += f" by Clopper-Pearson; {self.gaussian_bound:.4g} if the curve is Gaussian, as is claimed here"
        if self.every_release is not None:
            steps = self.every_release
            bound += (
                f"; {steps['lower_bound']:.4g} from each of {steps['releases']} release(s) in {steps['runs']} runs, if their "
                "noise is Gaussian, as is recorded"
            )
        how = f"attack: {self.attack}" + (f"; {self.trials} runs of each neighbour" if self.trials != 1 else "")
        lines = [what, claim, bound, how]
        if self.power is not None:
            few = "" if self.power > self.claimed_epsilon else ": too few for this claim, give more trials"
            lines.append(f"so many runs can refute claims up to epsilon {self.power:.3g}{few}")
        if not self.refuted:
            lines.append("consistent: this attack found no contradiction (that proves nothing)")
        if self.refutation_bound > self.claimed_epsilon:
            lines.append(f"REFUTED: epsilon is at least {self.refutation_bound:.4g} with confidence 1 - {self.alarm:g}")
        elif (self.gaussian_refutation_bound or 0.0) > self.claimed_epsilon:
            lines.append(f"REFUTED as a Gaussian curve: its epsilon is at least {self.gaussian_refutation_bound:.4g}")
        if self.every_release is not None and self.every_release["refutation_bound"] > self.claimed_epsilon:
            lines.append(f"REFUTED release by release: epsilon is at least {self.every_release['refutation_bound']:.4g}")
        lines += [f"REFUTED: {leak}" for leak in self.leaks]
        return "\n  ".join([*lines, self.note])


@dataclass(frozen=True)
class Finding:
    """Outcome of the staged search."""

    lower_bound: float
    refutation_bound: float
    test: Test
    trials: int
    gaussian_bound: float | None = None
    gaussian_refutation_bound: float | None = None

    def verdict(self, claimed: float) -> str:
        """Either bound may refute, at a confidence of 1 - 1e-6; the error probability is shared between them."""
        sure = max(self.refutation_bound, self.gaussian_refutation_bound or 0.0)
        return REFUTED if sure > claimed and math.isfinite(claimed) else CONSISTENT

    def fields(self, claimed: float, steps: dict[str, Any] | None = None) -> dict[str, Any]:
        """What a result says of it against a claim; `steps`: what single releases show (both_worlds.py)."""
        by_step = steps is not None and steps["refutation_bound"] > claimed
        return {
            "claimed_epsilon": claimed, "lower_bound": self.lower_bound, "confidence": CONFIDENCE, "attack": self.attack(),
            "trials": self.trials, "verdict": REFUTED if by_step else self.verdict(claimed),
            "refutation_bound": self.refutation_bound, "gaussian_bound": self.gaussian_bound,
            "gaussian_refutation_bound": self.gaussian_refutation_bound, "every_release": steps,
        }  # fmt: skip

    def attack(self) -> str:
        """The test in words: which score, above or below which threshold."""
        side = "above" if self.test.above else "at or below"
        return f"{self.test.score} {side} {self.test.threshold:.4g}" if self.test.score != "none" else "none"


NOTHING = Finding(0.0, 0.0, Test("none", math.inf, True, 1, 0.0), 0)  # where nothing was counted


def search(
    sampler: Sampler,
    statistics: Statistics,
    claimed: float,
    delta: float,
    trials: int,
    *,
    selection: float = 0.25,
    progress: Progress | None = None,
    gaussian: bool = False,
    alarm: float = FALSE_ALARM,
) -> Finding:
    """Draw in stages; at each one choose a test on the selection part and count on the rest; stop when refuted.

    `gaussian`: what is claimed is Gaussian DP, so that the bound on mu counts too. `alarm`: how often a correct mechanism may be
    called refuted.
    """
    if trials < 20:
        raise OptionError(f"an audit needs at least 20 trials, got {trials}")
    ends = stages(trials)
    outputs: list[list[np.ndarray]] = [[], []]
    for begin, end in zip((0, *ends), ends):
        for world in (0, 1):
            outputs[world].append(sampler(world, begin, end - begin))
            if progress is not None:
                progress(begin + end + world * (end - begin), 2 * trials)
        first, second = (np.concatenate(parts) for parts in outputs)
        last = end == trials
        alpha = 1 - CONFIDENCE - EARLY_SHARE * (len(ends) - 1) if last else EARLY_SHARE
        sure = alarm / len(ends) / (2 if gaussian else 1)
        finding = _look(first, second, statistics, delta, (alpha, sure), selection, gaussian)
        if finding.verdict(claimed) == REFUTED or last:
            return finding
    raise AssertionError("the last stage returns")


def power(trials: int, selection: float, delta: float) -> float:
    """The largest bound with confidence 1 - 1e-6 that so many runs can give: one world always, the other never."""
    counted = trials - max(int(selection * trials), 2)
    return float(epsilon_bound(np.array(counted), counted, np.array(0), counted, delta, FALSE_ALARM / len(stages(trials))))


def stages(trials: int) -> tuple[int, ...]:
    """Numbers of trials after which an audit looks at its result."""
    return (*(n for n in (trials // 16, trials // 4, trials // 2) if n >= SMALLEST_STAGE), trials)


def _look(
    first: np.ndarray, second: np.ndarray, statistics: Statistics, delta: float, alphas: Sequence[float], share: float,
    gaussian: bool = False,
) -> Finding:  # fmt: skip
    cut = max(int(share * len(first)), 2)
    scores = statistics(first[:cut], second[:cut])
    chosen = [{n: s(part) for n, s in scores.items()} for part in (first[:cut], second[:cut])]
    counted = [{n: s(part) for n, s in scores.items()} for part in (first[cut:], second[cut:])]

    def look(alpha: float, bound: Bound) -> tuple[Test, float]:
        test = choose_test(chosen[0], chosen[1], delta, alpha * CAUTION, bound)
        return test, held_out_bound(test, counted[0], counted[1], delta, alpha, bound)

    (test, stated), (_, sure) = (look(alpha, epsilon_bound) for alpha in alphas)
    if not gaussian:
        return Finding(stated, sure, test, len(first))
    curves = [gaussian_epsilon(delta, look(alpha, mu_bound)[1]) for alpha in alphas]
    return Finding(stated, sure, test, len(first), *curves)
