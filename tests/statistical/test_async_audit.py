"""The asynchronous method under attack: one record of one node against the server, which reads every noisy message."""

from __future__ import annotations

import taskveil as tv
from taskveil.audits import audit_estimator
from taskveil.methods.async_mtl import AsyncMTL


def audited(epsilon: float, trials: int, **options):
    method = AsyncMTL(rounds=3, row_rate=1.0, **options)
    est = tv.TaskRegressor(method, epsilon=epsilon, delta=1e-5, unit="record", observer="server", aggregation="local")
    return audit_estimator(est, trials=trials, seed=3)


def test_the_messages_of_a_node_are_consistent_with_their_composed_claim():
    assert audited(1.0, 150).verdict == "consistent"


def test_the_attack_sees_messages_and_would_refute_a_smaller_claim():
    """All three messages together cost epsilon 8: consistent, and the same transcript refutes a claim of epsilon 0.5."""
    found = audited(8.0, 500)
    assert found.verdict == "consistent"
    assert found.lower_bound > 0.5
