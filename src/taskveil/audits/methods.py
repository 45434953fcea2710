"""Audits of whole methods: the public estimator trains on made-up tasks, with and without a canary, many times.

Two estimators with the user's own options are fitted, one per world; then the same prepared run (method, block, plan) is
repeated with fresh noise, and the observer of the certificate looks at what he is sent. Every run goes through the real
runtime: clip, charge (an account in memory, never a ledger), noise, server step. Scores are learned on the selection runs
(linear discriminants) or listed (support violations, jumps between rounds, participation).

What is claimed is what the certificate of such a run states, whether it holds or not: a paper's false claim is a claim.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from taskveil.audits import statistics
from taskveil.audits.both_worlds import ALARM as STEPS_ALARM
from taskveil.audits.both_worlds import steps_in_sight
from taskveil.audits.canaries import CANARY, LARGE, Canary, needs_company, worst_neighbour
from taskveil.audits.lower_bound import FALSE_ALARM
from taskveil.audits.observe import Layout, Transcript, watched
from taskveil.audits.parallel import repeated
from taskveil.audits.rehearsal import RunLog, Trained, train, without_canary
from taskveil.audits.result import NOTHING, AuditResult, Finding, Progress, search
from taskveil.errors import OptionError
from taskveil.estimators.base import TaskEstimator
from taskveil.privacy.certificate import Certificate
from taskveil.privacy.contributions import OuterSum
from taskveil.privacy.plan import Plan
from taskveil.privacy.profile import Curve, charges_of
from taskveil.runtime.run import Run
from taskveil.tasks.public_bounds import PublicBounds

TRIALS = 1600
SELECTION = 0.35  # of the runs: learned scores need more of them than a threshold does
WIDE = 400  # numbers per run beyond which correlations are not learned
MARGIN = 1e-5  # relative; the canary's direction is exact to less than this


@dataclass
class World:
    """A run that can be repeated with fresh noise, and what the observer saw of the last one."""

    estimator: Any  # unfitted: options of the run
    trained: Any  # fitted once on this world's rows
    log: RunLog
    spy: Any
    transcript: Transcript

    @staticmethod
    def of(estimator: Any, trained: Trained, observer: str, absent: bool = False) -> World:
        """A world in which the trained run can be repeated, with the canary or (`absent`) without it."""
        transcript, log = Transcript(), trained.logs[0]
        method = without_canary(log.method) if absent else log.method
        return World(clone(estimator), trained.estimator, log, watched(method, transcript, observer), transcript)

    def run(self, noise_seed: int) -> np.ndarray:
        """One run with this noise: all the observer saw, as one vector."""
        self.estimator.insecure_noise_seed = noise_seed
        self.estimator._run(Run(self.spy, self.log.public, self.log.plan), self.log.block)
        return self.transcript.vector()


@dataclass(frozen=True)
class Looks:
    """Who looks, how often, and with what."""

    observer: str
    trials: int | None
    key: int
    jobs: int
    progress: Progress | None


def told_apart(
    run: Callable[[int, int], np.ndarray], worlds: Sequence[World] | None, layout: Layout, plan: Plan, claim: Mapping[str, Any],
    certificate: Certificate, looks: Looks,
) -> tuple[Finding, dict[str, Any] | None]:  # fmt: skip
    """What many runs of two worlds show of a claim; and single releases, to those who see them all (None: nobody does)."""
    trials = looks.trials or TRIALS
    steps = None if worlds is None else steps_in_sight(worlds, looks.observer, trials, looks.key, claim["delta"])
    finding = search(
        repeated(run, looks.key, looks.jobs), scores(layout, plan), claim["epsilon"], claim["delta"], trials,
        selection=SELECTION, progress=looks.progress, gaussian=claims_mu(certificate),
        alarm=FALSE_ALARM - (STEPS_ALARM if steps else 0.0),
    )  # fmt: skip
    return finding, steps


def audit_estimator(
    estimator: TaskEstimator,
    *,
    trials: int | None = None,
    seed: int | None = None,
    n_tasks: int = 6,
    canary: str = "largest",
    view: str | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> AuditResult:
    """Attack the estimator's configuration. `view="releases"` looks at the noisy sums instead of the billboard."""
    est = simulation_of(estimator)
    if est.epsilon is None:
        raise OptionError("epsilon=None makes no claim, so there is nothing to refute; give an epsilon")
    key = secrets.randbits(40) if seed is None else int(seed)
    worlds, shape = prepare(est, canary, n_tasks, view)
    claim, plan = claim_of(worlds[1].trained), worlds[1].log.plan
    if claim is None or not plan.releases:
        return _nothing_shared(est, key)
    worlds[1].run(key)
    looks = Looks("server" if view == "releases" else str(est.observer), trials, key, jobs, progress)
    finding, steps = told_apart(
        lambda world, seed: worlds[world].run(seed), worlds, Layout.of(worlds[1].transcript), plan, claim,
        worlds[1].trained.certificate_, looks,
    )  # fmt: skip
    return AuditResult(
        target=str(est._method().name), delta=claim["delta"], **finding.fields(claim["epsilon"], steps),
        neighbours=claim["neighbours"], unit=claim["unit"], observer=claim["observer"], variant=est.variant, seed=key,
        details={"canary": shape.kind, "against": shape.against, "tasks": shape.n_tasks},
    )  # fmt: skip


def simulation_of(estimator: TaskEstimator) -> Any:
    """The same configuration with nothing of the user's: no ledger, no folder, no bounds, no network."""
    params = estimator.get_params(deep=False)
    method = params["method"] if isinstance(params["method"], str) else clone(params["method"])
    delta = params["delta"]
    if delta is None:
        fitted = getattr(estimator, "record_", None)
        delta = 1e-5 if fitted is None else fitted.plan.budget.delta
    if isinstance(params["epsilon"], Mapping):  # the canary has the smallest budget, whose statement comes first
        params["epsilon"] = {f"t{CANARY:03d}": min(params["epsilon"].values()), "*": max(params["epsilon"].values())}
    declared = estimator._loss in ("poisson", "cox") and str(params["unit"]) == "record"  # without one there is no such run
    params.update(
        method=method, delta=delta, ledger=None, account=None, run_dir=None, runtime="in_process", progress=None, exposure=None,
        bounds=PublicBounds(target=(0.0, LARGE)) if declared else None, scaling="none", person=None, task_column=None,
        strict=False, insecure_noise_seed=0, seed=params["seed"] or 0,
    )  # fmt: skip
    return type(estimator)(**params)


def prepare(est: Any, kind: str, n_tasks: int, view: str | None) -> tuple[list[World], Canary]:
    """Both worlds, fitted once through the public estimator."""
    alone = est.aggregation in ("local", "local-model") and est.observer == "server"
    base = Canary(kind, 1 if alone else n_tasks, unit=str(est.unit), loss=est._loss)
    plan = _trained(est, base.tasks(1)).logs[0].plan
    replaced = str(est.neighbours) == "replace-one" and est.variant == "sound"  # one-sided noise: nothing is furthest
    shape = Canary(
        kind, base.n_tasks, worst_neighbour(plan) if replaced else "nothing", base.unit, needs_company(plan), base.loss
    )
    observer = "server" if view == "releases" else str(est.observer)
    return [World.of(est, _trained(est, shape.tasks(w)), observer) for w in (0, 1)], shape


def _trained(est: Any, tasks: Any) -> Trained:
    trained = train(est, lambda: (tasks,))
    if trained.error is not None:
        raise trained.error
    return trained


def claims_mu(certificate: Certificate) -> bool:
    """Whether what is claimed is a Gaussian curve: nothing but unsampled Gaussian releases."""
    return bool(certificate.events) and Curve(charges_of(certificate)).mu() is not None


def claim_of(fitted: Any) -> dict[str, Any] | None:
    """The statement about the asked observer, whether it holds or not (with seeded noise none does)."""
    observer = str(getattr(fitted, "estimator", fitted).observer)
    fitting = [s.to_dict() for s in fitted.certificate_.statements if s.observer == observer]
    return fitting[0] if fitting else None


def _nothing_shared(est: Any, key: int) -> AuditResult:
    return AuditResult(
        target=str(est._method().name), delta=0.0, **{**NOTHING.fields(0.0), "attack": "none: nothing is shared"},
        neighbours=str(est.neighbours), unit=str(est.unit), observer=str(est.observer), variant=est.variant, seed=key,
    )  # fmt: skip


# ------------------------------------------------------------------ scores


def scores(layout: Layout, plan: Plan) -> Callable[[np.ndarray, np.ndarray], dict[str, statistics.Score]]:
    """Learned and listed scores of transcripts laid out as `layout`."""

    def build(first: np.ndarray, second: np.ndarray) -> dict[str, statistics.Score]:
        by_name = _learned(layout, first, second)
        by_name |= _support(layout, plan)
        if layout.n_rounds > 1:
            by_name |= _between_rounds(layout, first, second)
        return by_name

    return build


def _learned(layout: Layout, first: np.ndarray, second: np.ndarray) -> dict[str, statistics.Score]:
    values = slice(0, layout.size)
    by_name = {}
    for name, full in (("learned direction", True), ("learned direction, coordinates apart", False)):
        if full and layout.size > WIDE:
            continue
        score = statistics.discriminant(first[:, values], second[:, values], full)
        by_name[name] = _on(score, lambda x: x[:, values])
    return by_name


def _support(layout: Layout, plan: Plan) -> dict[str, statistics.Score]:
    """For second moments on the billboard: can the canary's part be inside? The least likely round decides."""
    bounds = {p.name: p.contribution.bound for p in plan.releases if isinstance(p.contribution, OuterSum)}
    places = [(place, shape, bounds[name]) for _, name, place, shape in layout.slices if name in bounds]
    places = [(p, s, b) for p, s, b in places if len(s) == 2 and s[0] == s[1] > 1]
    if not places:
        return {}

    def smallest(axis: int) -> statistics.Score:
        def score(x: np.ndarray) -> np.ndarray:
            worst = np.full(len(x), np.inf)
            for place, shape, bound in places:
                present = np.zeros(shape)
                present[axis, axis] = bound**2 * (1 - MARGIN)
                worst = np.minimum(worst, statistics.support(present)(x[:, place].reshape(-1, *shape)))
            return worst

        return score

    return {"support violation": smallest(0), "support violation of the other": smallest(1)}


def _between_rounds(layout: Layout, first: np.ndarray, second: np.ndarray) -> dict[str, statistics.Score]:
    """Jumps (noise used twice cancels in them), and increments weighted by who else was missing."""

    def increments(x: np.ndarray) -> np.ndarray:
        return _increments(layout, x)

    steps = statistics.discriminant(increments(first), increments(second), full=False)
    by_name = {
        "learned direction of increments": _on(steps, increments),
        "smallest jump between rounds": lambda x: _smallest_jump(layout, x),
    }
    others = first[:, layout.size :]
    if others.shape[1] == layout.n_rounds and np.ptp(others) > 0:
        by_name |= _participation(layout, first, second)
    return by_name


def _participation(layout: Layout, first: np.ndarray, second: np.ndarray) -> dict[str, statistics.Score]:
    """Rounds weighted by how many others were missing: where cohorts have a fixed size that shows the canary's bit."""
    full = max(float(first[:, layout.size :].max()), float(second[:, layout.size :].max()))
    rounds = [number for number, _, place, _ in layout.slices for _ in range(place.stop - place.start)]

    def missing(x: np.ndarray) -> np.ndarray:
        return (full - x[:, layout.size :])[:, rounds]

    by_name = {}
    for what, of in (("increments", lambda x: _increments(layout, x)), ("values", lambda x: x[:, : layout.size])):

        def weighted(x: np.ndarray, of: Callable[[np.ndarray], np.ndarray] = of) -> np.ndarray:
            return of(x) * missing(x)

        score = statistics.discriminant(weighted(first), weighted(second), full=False)
        by_name[f"participation times {what}"] = _on(score, weighted)  # billboards add up, releases do not
    return by_name


def _increments(layout: Layout, x: np.ndarray) -> np.ndarray:
    """Values minus those of the round before under the same name."""
    result = x[:, : layout.size].copy()
    before: dict[str, slice] = {}
    for _, name, place, _ in layout.slices:
        last = before.get(name)
        if last is not None and last.stop - last.start == place.stop - place.start:
            result[:, place] -= x[:, last]
        before[name] = place
    return result


def _smallest_jump(layout: Layout, x: np.ndarray) -> np.ndarray:
    moves = _increments(layout, x)
    seen: set[str] = set()
    smallest = np.full(len(x), np.inf)
    for _, name, place, shape in layout.slices:
        if name in seen and math.prod(shape) > 1:
            smallest = np.minimum(smallest, np.linalg.norm(moves[:, place], axis=1))
        seen.add(name)
    return np.log10(np.where(np.isfinite(smallest), smallest, 1.0) + 1e-12)


def _on(score: statistics.Score, part: Callable[[np.ndarray], np.ndarray]) -> statistics.Score:
    return lambda x: score(part(x))
