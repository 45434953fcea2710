"""For every planted fault an audit that finds it, on a small budget of runs: what the tests check and the documentation lists.

Pure mechanisms (delta = 0) where possible: their likelihood ratio is bounded by e^epsilon everywhere, so a fault shows in the
bulk of the outputs and not only in the tail, and a few hundred runs suffice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from taskveil.audits.mechanisms import audit_mechanism
from taskveil.audits.methods import audit_estimator
from taskveil.audits.result import AuditResult
from tests.support import audit_faults as faults
from tests.support.resumed_audit import audit_resume

Audit = Callable[[int], AuditResult]  # seed -> result


@dataclass(frozen=True)
class Case:
    """A fault, where it is planted, and the audit that must refute with it and be silent without it."""

    fault: str
    where: str
    plant: Callable[[], AbstractContextManager[None]]
    audit: Audit
    slow: bool = False


def on_method(name: str, options: dict[str, Any] | None = None, **given: Any) -> Audit:
    """An audit of a method; estimator options and audit options in one list of keywords."""
    looks = {k: given.pop(k) for k in ("trials", "canary", "view", "n_tasks") if k in given}

    def audit(seed: int) -> AuditResult:
        from taskveil import methods
        from taskveil.estimators import TaskRegressor

        est = TaskRegressor(methods.get(name, **(options or {})), **{"epsilon": 1.0, "delta": 1e-5, **given})
        return audit_estimator(est, seed=seed, **looks)

    return audit


def on_mechanism(name: str, **given: Any) -> Audit:
    return lambda seed: audit_mechanism(name, 1.0, seed=seed, **given)


PURE: dict[str, Any] = {"mechanism": "l2-laplace", "delta": 0.0}

CASES = (
    Case("noise halved", "one Gaussian release", faults.noise_halved, on_mechanism("gaussian", trials=1_000_000)),
    Case("noise halved", "dp-aggr, end to end", faults.noise_halved, on_method("dp-aggr", trials=2400, **PURE), slow=True),
    Case("noise halved", "one two-sided Wishart release", faults.noise_halved, on_mechanism("two-sided-wishart", trials=40_000)),
    Case("clipping off", "one Laplace release", faults.clipping_off, on_mechanism("laplace", trials=2000)),
    Case("clipping off", "low-rank, end to end", faults.clipping_off, on_method("low-rank", {"rounds": 2}, trials=400)),
    Case(
        "a round not charged", "low-rank, 10 rounds", faults.round_not_charged,
        on_method("low-rank", {"rounds": 10, "local_steps": 1}, trials=1600, delta=0.0, neighbours="add-remove"), slow=True,
    ),
    Case(
        "sample-count weights", "dp-aggr, the canary holds more rows", faults.sample_count_weights,
        on_method("dp-aggr", trials=1600, **PURE),
    ),
    Case(
        "sample-count weights", "mean, the canary holds more rows", faults.sample_count_weights,
        on_method("mean", {"rounds": 1, "strength": 1.0}, trials=1600, **PURE), slow=True,
    ),
    Case(
        "add-remove noise sold as replace-one", "one l2-Laplace release", faults.wrong_neighbours,
        on_mechanism("l2-laplace", neighbours="replace-one", trials=20_000),
    ),
    Case(
        "add-remove noise sold as replace-one", "dp-aggr, end to end", faults.wrong_neighbours,
        on_method("dp-aggr", trials=2400, **PURE), slow=True,
    ),
    Case(
        "noise reused in two rounds", "low-rank, a canary that changes", faults.noise_reused,
        on_method("low-rank", {"rounds": 2}, trials=400, canary="changing", neighbours="add-remove"),
    ),
    Case("resume repeats noise", "a release made again after a crash", faults.resume_repeats_noise,
         lambda seed: audit_resume(1.0, 1e-5, trials=1600, seed=seed)),
    Case(
        "fixed-size cohort sold as Poisson", "mean, 20 rounds at rate 0.1", faults.fixed_size_cohort,
        on_method(
            "mean", {"rounds": 20, "rate": 0.1, "strength": 1.0}, trials=2400, n_tasks=10, view="releases",
            neighbours="add-remove", delta=0.1,  # with a small delta the noise hides the fault from a few thousand runs
        ),
        slow=True,
    ),
    Case("one-sided noise sold as two-sided", "one Wishart release", faults.one_sided_noise,
         on_mechanism("two-sided-wishart", trials=20_000)),
)  # fmt: skip
