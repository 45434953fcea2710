"""Before any data is read: what a run will release, how much noise that takes, and whether it can be worth it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.methods import FEW_TASKS, record_methods
from taskveil.methods.base import PublicInfo
from taskveil.privacy.contributions import MomentSum
from taskveil.privacy.plan import Budget, Plan, PlannedRelease
from taskveil.privacy.planned import spent_share
from taskveil.privacy.units import Unit
from taskveil.runtime.run import Run

WORTH, HOPELESS = 0.3, 1.0  # noise-to-signal below which sharing pays, above which tasks end up learning alone
# Of the gap between learning alone and sharing without noise: what was closed where tasks have one model in common, at these
# ratios of noise to signal (least, most). Measured by experiments/estimator_study/planned.py.
RATIOS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 1.2)
LEAST = (0.4, 0.4, 0.1, 0.0, -0.15, -0.15, -0.15)
MOST = (1.05, 1.0, 0.9, 0.85, 0.8, 0.6, 0.1)
POINTS = 8  # of a curve of spending
SHARED_DIRECTIONS = 4  # assumed rank of what tasks share, for the signal of a matrix release


def describe_plan(run: Run) -> dict[str, Any]:
    """Noise, noise-to-signal and a verdict, from public sizes alone."""
    method, public, plan, budget = run.method, run.public, run.plan, run.budget
    releases = [_release(planned, public) for planned in plan.releases]
    clearest = _clearest(run.plan, public)
    total = None if plan.total is None else {"policy": plan.policy, "mu": 1 / plan.total.noise_multiplier}
    return {
        "method": method.name,
        "variant": budget.variant,
        "unit": str(budget.unit),
        "neighbours": str(budget.neighbours),
        "observer": "other-tasks" if budget.aggregation == "curator" else "server",
        "epsilon": budget.epsilon,
        "delta": budget.delta,
        "rounds": len(plan.rounds()),
        "total": total,
        "releases": merged(releases),
        "noise_to_signal": clearest,
        "expected_share": expected_share(clearest) if measured(method.name, budget) else None,
        "verdict": verdict(clearest, budget.epsilon is not None),
        "advice": advice(clearest, public, budget, plan),
    }


def outlook(record: Any) -> list[str]:
    """What `plan` would have said about a run that is over: empty where sharing could pay. From public sizes alone."""
    plan, public = record.plan, record.public
    if plan.budget.epsilon is None or not plan.releases:
        return []
    ratio = _clearest(plan, public)
    sentences = advice(ratio, public, plan.budget, plan)
    return [verdict(ratio), *sentences] if ratio >= WORTH else sentences


def spending(plan: Plan) -> list[dict[str, float]]:
    """Epsilon spent after 1, 2, 4, ... rounds and after the last one, at the noise of the whole plan."""
    if plan.budget.epsilon is None or plan.budget.variant != "sound":
        return []
    last = len(plan.rounds())
    rounds = sorted({min(2**k, last) for k in range(POINTS - 1)} | {last}) if last else []
    return [{"round": t, "epsilon": plan.spent_after(t)} for t in rounds]


def _clearest(plan: Plan, public: PublicInfo) -> float:
    """Of what is released in all: where a part of the budget comes first, as if all were spent on it."""
    whole = 1.0 if plan.total is None else math.sqrt(spent_share(plan, plan.releases[:1]))
    releases = plan.releases if plan.total is None else plan.releases[:1]
    return whole * clearest_ratio([_release(planned, public) for planned in releases])


def clearest_ratio(releases: list[dict[str, Any]]) -> float:
    """Noise over signal of the release that stands clearest: one kind of structure above its noise is worth sharing for.

    The demo shows it: there the mean (0.8) lowers the error although the second moment (1.2) drowns.
    """
    by_name: dict[str, float] = {}
    for r in releases:
        if r["noise_to_signal"] is not None:
            by_name[r["name"]] = max(by_name.get(r["name"], 0.0), r["noise_to_signal"])
    return min(by_name.values(), default=0.0)


def _release(planned: PlannedRelease, public: PublicInfo) -> dict[str, Any]:
    noise, signal = noise_and_signal(planned, public)
    return {
        "name": planned.name,
        "round": planned.round,
        "contribution": planned.contribution.kind,
        "mechanism": planned.mechanism.name,
        "scale": planned.mechanism.scale,
        "sensitivity_l2": planned.contribution.sensitivity("replace-one").l2,
        "noise": noise,
        "signal": signal,
        "noise_to_signal": noise / signal if signal else None,
    }


def noise_and_signal(planned: PlannedRelease, public: PublicInfo) -> tuple[float, float]:
    """Of the release, or of the clearer one of two sums that come in one."""
    what = planned.contribution.plain
    if not isinstance(what, MomentSum):
        return planned.mechanism.typical_norm(planned.contribution), signal_size(planned, public)
    scale, m, d = planned.mechanism.coordinate_deviation(planned.contribution), public.n_tasks, public.n_features
    mean = scale / what.mean_weight * math.sqrt(2 * math.log(2 * d * what.n_outputs)), m / math.sqrt(SHARED_DIRECTIONS)
    moment = scale / what.moment_weight * math.sqrt(2 * d), m / min(SHARED_DIRECTIONS, d)
    return min(mean, moment, key=lambda pair: pair[0] / pair[1])


def signal_size(planned: PlannedRelease, public: PublicInfo) -> float:
    """Size of the sum if every task (or row) sends a message of full length and they agree on a few directions."""
    m, bound = units_of(public), planned.contribution.bound
    return {
        "outer-sum": m * bound**2 / min(SHARED_DIRECTIONS, public.n_features),
        "task-gram": m * bound**2 / SHARED_DIRECTIONS,
        "diagonal-sum": m * bound**2 / max(SHARED_DIRECTIONS, 1),
        "task-stack": bound,
    }.get(planned.contribution.plain.kind, m * bound / math.sqrt(SHARED_DIRECTIONS))


def units_of(public: PublicInfo) -> int:
    """How many protected units there are: rows where these are declared, else tasks."""
    return public.n_tasks if public.task_rows is None else sum(public.task_rows)


def measured(method: str, budget: Budget) -> bool:
    """Whether shares of the gap were measured: the default method, whole tasks protected."""
    return method == "together" and budget.epsilon is not None and budget.unit is Unit.TASK


def expected_share(ratio: float) -> tuple[float, float]:
    """The least and the most of the gap between learning alone and sharing without noise that tasks with a common model close.

    Negative where all of a small gap may be lost again. What tasks share in a few directions only is found less often.
    """
    return float(np.interp(ratio, RATIOS, LEAST)), float(np.interp(ratio, RATIOS, MOST))


def verdict(ratio: float, private: bool = True) -> str:
    """What a ratio of noise to signal means, in a sentence."""
    if not private:
        return "no noise: whatever tasks share may show, and everybody who sees a release may learn whose it is"
    if ratio < WORTH:
        return "worth it: what tasks usually share is clearly stronger than the noise"
    if ratio < HOPELESS:
        return "marginal: strong common structure may be found, weak structure will not"
    return "doubtful: the noise is larger than what tasks usually share; sharing helps only tasks that are very similar"


def advice(ratio: float, public: PublicInfo, budget: Budget, plan: Plan) -> list[str]:
    """What would change the verdict."""
    sentences = []
    if budget.epsilon is not None and ratio >= WORTH:
        needed, what = math.ceil(units_of(public) * ratio / WORTH), "tasks" if public.task_rows is None else "rows"
        sentences.append(f"about {needed} {what}, or epsilon {budget.epsilon * ratio / WORTH:.3g}, would bring it below {WORTH}")
        if len(plan.rounds()) > 1 and plan.total is None:
            sentences.append("fewer rounds mean less noise per release")
    if budget.epsilon is not None and str(budget.unit) == "task" and public.n_tasks < FEW_TASKS:
        crowd = f"{public.n_tasks} tasks are too few to hide one" if public.n_tasks > 1 else "one task alone cannot be hidden"
        sentences.append(f"{crowd}: consider unit='record' (--unit record; methods {', '.join(record_methods())})")
    return sentences


def merged(releases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Equal releases of several rounds written once, with their count."""
    groups: dict[str, dict[str, Any]] = {}
    for release in releases:
        key = repr({k: v for k, v in release.items() if k != "round"})
        if key in groups:
            groups[key]["count"] += 1
        else:
            groups[key] = {**release, "count": 1}
    return list(groups.values())
