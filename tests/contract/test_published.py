"""What a method publishes is what it declares: every billboard of a run is one that a site finds admissible."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support import views

from taskveil import methods
from taskveil.methods.published import published
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import in_process
from taskveil.runtime.run import Run

NAMES = [n for n in methods.names() if n != "local"]
NEURAL = [n for n in NAMES if not methods.get(n, **views.OPTIONS.get(n, {})).linear]


def billboards(name: str, kind: str, unit: str):
    method, public, plan = views.setting(name, kind, unit=unit)
    block = views.rows_of("plain", kind, 5, tasks=views.N_TASKS)
    record = in_process.run(Run(method, public, plan, source=insecure_seeded_noise(3)), block)
    return published(method, public, plan), record.billboards


def broken_rules(shown, boards) -> list[str]:
    return [
        f"{name!r} of round {board.round} {rule}"
        for board in boards
        for name, value in board.values.items()
        if (rule := shown.at(board.round)[name].broken_rule(np.asarray(value), views.N_TASKS)) is not None
    ]


@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in NEURAL else ()) for n in NAMES])
def test_every_billboard_of_a_run_is_admissible(name, kind):
    """The neural ones are slow to compile; tests/contract/test_runtimes.py takes one of them through a site in every suite."""
    method = methods.get(name, **views.OPTIONS.get(name, {}))
    if kind not in method.kinds:
        pytest.skip(f"{name} does {method.kinds}")
    for unit in method.units:
        shown, boards = billboards(name, kind, unit)
        for board in boards:
            inside = shown.inside(board).values
            assert set(inside) == set(shown.at(board.round))
            for key, value in board.values.items():  # rounding may put an eigenvector's entry a digit beyond one
                np.testing.assert_allclose(inside[key], value, rtol=1e-12)
        assert broken_rules(shown, [shown.inside(board) for board in boards]) == []


def test_a_billboard_outside_the_declared_range_would_be_noticed(monkeypatch):
    """The twin: a method that declares less than it publishes."""
    monkeypatch.setattr(methods.get("subspace").__class__, "ranges", lambda self, public: {"basis": (0.0, 0.5)})
    shown, boards = billboards("subspace", "regression", "task")
    assert any("'basis' of round 1 lies outside" in rule for rule in broken_rules(shown, boards))


def test_a_billboard_beyond_its_range_is_moved_into_the_range_and_nan_is_not_published():
    shown, boards = billboards("dp-aggr", "regression", "task")
    boards[-1].values["mean"][:] *= 1e12
    assert broken_rules(shown, boards) == ["'mean' of round 1 lies outside its public range"]
    assert broken_rules(shown, [shown.inside(board) for board in boards]) == []
    boards[-1].values["mean"][:] = np.nan
    assert not np.any(shown.inside(boards[-1]).values["mean"])


def test_a_run_without_privacy_promises_nothing_about_its_billboards():
    method, public, plan = views.setting("svm", "classification", epsilon=None)
    assert published(method, public, plan) is None
