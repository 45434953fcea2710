"""Whatever an admissible view holds and whatever the rows are, a task side answers with numbers and raises nothing.

A row-dependent exception would be a release nobody paid for (docs/theory/servers-and-sums.md#lying-server); the site's guard
turns it into a zero message, and these tests say that it never has to.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from tests.support import views
from tests.support.eigenvalues import fail_as_lapack

from taskveil import methods
from taskveil.methods import published, shared_prior, together_records
from taskveil.solvers import posterior

CASES = {
    **{f"{n}-{u}": (n, {"unit": u}) for n in methods.names() for u in methods.get(n, **views.OPTIONS.get(n, {})).units},
    "low-rank-rounds": ("low-rank", {"options": {"rounds": 3}}),
    "low-rank-paper": ("low-rank", {"options": {"rounds": 3}, "variant": "paper"}),
    "low-rank-sparse-groups": ("low-rank-sparse", {"options": {"shared": "group_sparse", "own": "l12"}}),
    "relationship-gram": ("relationship", {"options": {"covariance": "gram", "rounds": 2}}),
    "together-record-curved": ("together", {"unit": "record", "epsilon": 8.0}),  # enough for the curvature
    "mean-strength": ("mean", {"options": {"strength": 1.0}}),
    "mocha-learned": ("mocha", {"options": {"relationship": "learned", "rounds": 3}}),
}
del CASES["local-task"], CASES["local-record"]  # sends nothing


def linear(name: str) -> bool:
    method, options = CASES[name]
    return bool(methods.get(method, **views.OPTIONS.get(method, {})).under(options.get("unit", "task")).linear)


LINEAR = sorted(filter(linear, CASES))
NEURAL = sorted(set(CASES) - set(LINEAR))


def all_numbers(name: str, kind: str, drawn: tuple[str, str, int, int]) -> bool:
    method, options = CASES[name]
    copies = {k: dict(v) if isinstance(v, dict) else v for k, v in options.items()}
    return all(np.isfinite(made).all() for made in views.answer(method, kind, *drawn, **copies))


@pytest.mark.parametrize("name", LINEAR)
@settings(max_examples=12, deadline=None)
@given(drawn=views.admissible())
@example(drawn=("plain", "low", 2, 0))
@example(drawn=("plain", "least", 1, 0))
def test_a_task_side_is_total_on_admissible_views(name, drawn):
    for kind in ("regression", "classification"):
        assert all_numbers(name, kind, drawn)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEURAL)
@settings(max_examples=12, deadline=None)
@given(drawn=views.admissible())
def test_a_neural_task_side_raises_nothing_on_admissible_views(name, drawn):
    """Deep models may overflow single precision; clipping then sends zero, and the owner keeps what it learns alone."""
    method, options = CASES[name]
    views.answer(method, "classification", *drawn, **options)


def test_a_solver_that_squares_whatever_it_is_shown_would_be_noticed(monkeypatch):
    """The twin: any finite number was admissible, and a centre's scores were squared as they came; `eigh` then failed by rows."""
    fail_as_lapack(monkeypatch)
    monkeypatch.setattr(published, "LARGEST", 1e154)
    monkeypatch.setattr(posterior, "_of_ordinary_size", lambda scores, centre: (scores, centre))
    with pytest.raises(np.linalg.LinAlgError):
        for case in views.ROWS:
            all_numbers("subspace-task", "classification", (case, "high", 0, 1))


def test_shares_that_add_up_to_more_than_one_would_be_noticed(monkeypatch):
    """The twin of another fault: what was left of the energy became negative, and its root no number."""
    fail_as_lapack(monkeypatch)
    monkeypatch.setattr(shared_prior, "MOST", 100.0)
    with pytest.raises(np.linalg.LinAlgError):
        all_numbers("subspace-task", "classification", ("plain", "high", 1, 1))


@pytest.mark.parametrize(
    ("name", "length", "at"), [("together-record", "slope_length", 2), ("together-record-curved", "row_length", 2)]
)
def test_a_length_of_zero_would_be_noticed(monkeypatch, name, length, at):
    """The twin of a third: tasks divide by published lengths, and zero was among the admissible ones."""
    monkeypatch.setitem(together_records.RANGES, length, (0.0, 1e3))
    assert not all_numbers(name, "regression", ("plain", "low", at, 1))
