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
    """Attack this estimator as it is configured, and compare the result with its certificate.

    One unit of the raw table is replaced by a canary, made for the attack, and everything runs as `fit` runs it. This is a
    rehearsal: it uses noise of its own and an account in memory. It touches no ledger and no folder, and no canary enters the
    fitted models. An audit can refute a claim, but it cannot prove one.

    Parameters
    ----------
    estimator : TaskRegressor or TaskClassifier
        Fitted or not. If it is fitted, the result is added to its certificate.
    data : (X, y, task), TaskSet, DataFrame, path or None, default=None
        The raw table it trains on. `None` makes one up.
    trials : int or None, default=None
        The number of runs with each of the two neighbouring tables. `None` chooses it from the claim.
    seed : int or None, default=None
        Seed of the rehearsal.
    **options
        For a DataFrame or a file, the options of `load_tasks` (task=, target=, missing=, bounds=, ...). Also jobs,
        view="releases" and progress. `one_run=True` rehearses a single run with canary tasks instead of many runs (options
        canaries, tasks, features, alarm). This is cheap, but weak at small epsilon. `taskveil fit --audit-canaries K` does the
        same in the real run.

    Returns
    -------
    AuditResult
        The claimed epsilon and the lower bound side by side. `verdict` is "consistent" or "refuted".

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
