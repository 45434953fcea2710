"""Attacks on our own guarantees: a lower bound on epsilon to stand beside every epsilon we print.

`audit(estimator)` attacks a configuration, `audit_mechanism(name, epsilon)` a single mechanism. An audit can refute a claim;
it can never prove one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from taskveil.audits.mechanisms import audit_mechanism
from taskveil.audits.methods import audit_estimator
from taskveil.audits.one_run import audit_one_run
from taskveil.audits.result import AuditResult

__all__ = ["AuditResult", "audit", "audit_estimator", "audit_mechanism", "audit_one_run"]


def audit(estimator: Any, trials: int | None = None, seed: int | None = None, **options: Any) -> AuditResult:
    """Attack this estimator's configuration and set the result beside its certificate.

    A simulation: made-up tasks, an account in memory, noise of its own. The user's rows are not read, the ledger is not
    touched, and no canary enters the fitted models. `options` as in `audit_estimator` (jobs, canary, view, progress).

    >>> import taskveil as tv
    >>> tv.audit(tv.TaskRegressor("dp-aggr", epsilon=1.0), trials=50, seed=1).verdict
    'consistent'
    """
    result = audit_estimator(estimator, trials=trials, seed=seed, **options)
    estimator.audit_ = result
    if hasattr(estimator, "certificate_"):
        estimator.certificate_ = replace(estimator.certificate_, audit=result.to_dict())
    return result
