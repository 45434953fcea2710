"""Attacks on our own guarantees: a lower bound on epsilon to stand beside every epsilon we print.

`audit(estimator, data)` attacks a configuration from the raw table on, `audit_estimator` a method on made-up tasks that make its
messages as long as they get, `audit_mechanism(name, epsilon)` a single mechanism. An audit can refute a claim; it can never
prove one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from taskveil.audits.configured import audit_configured
from taskveil.audits.mechanisms import audit_mechanism
from taskveil.audits.methods import audit_estimator
from taskveil.audits.one_run import audit_one_run
from taskveil.audits.result import AuditResult
from taskveil.errors import OptionError

__all__ = ["AuditResult", "audit", "audit_configured", "audit_estimator", "audit_mechanism", "audit_one_run"]


def audit(estimator: Any, data: Any = None, trials: int | None = None, seed: int | None = None, **options: Any) -> AuditResult:
    """Attack this estimator as it is configured, and set the result beside its certificate.

    A canary unit is written into the raw cells and everything is run as `fit` runs it. It is a rehearsal: an account in memory,
    noise of its own, no ledger, no folder, and no canary enters the fitted models. An audit can refute a claim; it proves none.

    Parameters
    ----------
    estimator : TaskRegressor or TaskClassifier
        Fitted or not. Where it is fitted, its certificate gets the result.
    data : (X, y, task), TaskSet, DataFrame, path or None, default=None
        The raw table it trains on. `None` makes one up.
    trials : int or None, default=None
        Runs of each neighbour. `None` takes what the claim needs.
    seed : int or None, default=None
        Of the rehearsal.
    **options
        For a DataFrame or a file those of `load_tasks` (task=, target=, missing=, bounds=, ...). Also jobs, view="releases" and
        progress. `one_run=True` rehearses one run with canary tasks instead of many runs (canaries, tasks, features, alarm):
        cheap, and weak at small epsilon. `taskveil fit --audit-canaries K` does it in the run that counts.

    Returns
    -------
    AuditResult
        Claimed epsilon and lower bound side by side; `verdict` is "consistent" or "refuted".

    Examples
    --------
    >>> import taskveil as tv
    >>> tv.audit(tv.TaskRegressor("dp-aggr", epsilon=1.0), trials=50, seed=1).verdict
    'consistent'
    """
    if options.pop("one_run", False):
        if trials is not None:
            raise OptionError("one_run=True makes one run; trials is for the audit of many runs")
        estimator.audit_ = audit_one_run(estimator, data, seed=seed, **options)  # with more tasks: another configuration
        return estimator.audit_  # type: ignore[no-any-return]
    result = audit_configured(estimator, data, trials=trials, seed=seed, **options)
    estimator.audit_ = result
    if hasattr(estimator, "certificate_"):
        estimator.certificate_ = replace(estimator.certificate_, audit=result.to_dict())
    return result
