"""The curious server finds rows in un-masked and masked updates, and not in private ones."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.ponomarenko_2023.membership import membership

from taskveil.audits.row_reconstruction import recovered_direction, row_recovery, watched_updates
from taskveil.methods.svm.method import Svm
from taskveil.privacy.plan import Budget
from taskveil.tasks.block import TaskBlock

NONE = Budget(None, 1e-5)
PRIVATE = Budget(1.0, 1e-5, aggregation="local")


@pytest.fixture(scope="module")
def rows():
    """Five participants with 12 rows of 40 features, and 60 rows of the same law that nobody holds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(60) > 0, 1.0, -1.0)
    block = TaskBlock(X, y[:, None], np.arange(6, dtype=np.int64) * 12, None, "classification")
    return block, rng.standard_normal((60, 40))


@pytest.mark.parametrize("mask", [None, ("bernoulli", 0.5), ("beta", 2.0, 0.5)])
def test_membership_is_found_with_and_without_masks(rows, mask):
    method = Svm(rounds=40, coordinator="safe", local_passes=1, mask=mask, mask_seed=0, tol=0.0)
    block, others = rows
    auc, _ = membership(watched_updates(method, block, 2, NONE, 40), block.X[block.rows(2)], others)
    assert auc > 0.95


def test_membership_is_not_found_in_private_updates(rows):
    """Mean AUC over ten noise seeds lies near one half; the same figure for un-noised parts does not."""
    block, others = rows
    members = block.X[block.rows(2)]
    noisy = [membership(watched_updates(Svm(rounds=5), block, 2, PRIVATE, 5, seed), members, others)[0] for seed in range(10)]
    plain = membership(watched_updates(Svm(rounds=5, clip=1.0), block, 2, Budget(1e8, 1e-5), 5), members, others)[0]
    assert abs(np.mean(noisy) - 0.5) < 0.15
    assert plain > 0.75


@pytest.mark.parametrize("mask", [None, ("bernoulli", 0.5), ("beta", 2.0, 0.5)])
def test_whoever_knows_all_rows_but_one_reads_that_one_through_the_mask(rows, mask):
    block, _ = rows
    method = Svm(rounds=20, coordinator="safe", local_passes=1, mask=mask, mask_seed=0, tol=0.0)
    updates = watched_updates(method, block, 2, NONE, 20)
    found = [row_recovery(updates, block.X[block.rows(2)], i) for i in range(12)]
    assert np.mean(np.array(found) > 0.999) > 0.7


def test_a_row_is_not_read_from_private_updates(rows):
    block, _ = rows
    updates = watched_updates(Svm(rounds=5), block, 2, PRIVATE, 5)
    found = [row_recovery(updates, block.X[block.rows(2)], i) for i in range(12)]
    assert np.max(found) < 0.9


def test_updates_without_the_unknown_row_say_nothing_about_it():
    rng = np.random.default_rng(1)
    known = rng.standard_normal((4, 9))
    assert not recovered_direction(rng.standard_normal((3, 4)) @ known, known).any()
