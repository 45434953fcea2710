"""The shell completes what a command can be asked about."""

from __future__ import annotations

from taskveil.cli.audit import complete_targets
from taskveil.cli.reproduce import complete_items


def test_audit_targets_and_names_to_reproduce_are_completed():
    assert {"subspace", "svm"} <= set(complete_targets(None, None, "s"))
    assert "fit" in complete_targets(None, None, "f") and "paper-wishart" in complete_targets(None, None, "paper")
    assert all(name.startswith("svm-") for name in complete_items(None, None, "svm-")) and complete_items(None, None, "svm-")
