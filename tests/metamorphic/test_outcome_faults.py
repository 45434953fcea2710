"""Faults that counts and times invite, planted: the laws of isolation must see each of them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.metamorphic.test_planted_faults import moved_by_a_row, moved_by_a_task
from tests.support.laws import Setup
from tests.support.raw_tables import bounds

from taskveil.losses.cox import Cox, expected_events
from taskveil.methods import mean_records
from taskveil.methods.row_gradients import RowGradients
from taskveil.tasks.prepare import scaling, step


@pytest.mark.parametrize("kind", ["counts", "survival"])
def test_a_tasks_own_rate_as_the_unit_of_records_is_seen(kind, monkeypatch):
    setup = Setup("mean", kind, "record", {"bounds": bounds(kind)})
    assert not moved_by_a_row(setup)
    monkeypatch.setattr(scaling, "undeclared_target", lambda bounds: True)
    monkeypatch.setattr(step, "check_declared", lambda link, bounds: None)  # which would refuse such a run
    assert moved_by_a_row(setup)


def test_a_partial_likelihood_over_records_is_seen(monkeypatch):
    """The slope of every row with the same people at risk moves with one of them."""
    setup = Setup("mean", "survival", "record", {"bounds": bounds("survival")})
    assert not moved_by_a_row(setup)

    def of_risk_sets(block, point):
        scores, y = block.X @ point[0, : block.n_features], block.y[:, 0]
        slopes = np.concatenate([
            expected_events(scores[rows], y[rows], np.ones(len(y[rows]))) - (y[rows] > 0)
            for rows in map(block.rows, range(block.n_tasks))
        ])  # fmt: skip
        rows = np.concatenate([slopes[:, None] * block.X, np.zeros((len(y), mean_records.PARTS))], axis=1)
        return RowGradients(rows, np.ones((len(y), 1)), block.offsets)

    monkeypatch.setattr(mean_records, "hazard_gradients", of_risk_sets)
    assert moved_by_a_row(setup)


def test_risk_sets_that_join_tasks_are_seen(monkeypatch):
    setup = Setup("local", "survival")
    assert not moved_by_a_task(setup)
    apart = Cox.intercepts

    def joined(self, scores, block):
        everybody = expected_events(scores[:, 0], block.y[:, 0], np.ones(block.n_rows))
        return apart(self, scores, block) + block.means_by_task(everybody[:, None])

    monkeypatch.setattr(Cox, "intercepts", joined)
    assert moved_by_a_task(setup)
