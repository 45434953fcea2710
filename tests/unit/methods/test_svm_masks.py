"""Masks slow training down, move no optimum when consistent, and protect nobody."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.svm_runs import excess, related_block, run

from taskveil.methods.svm.masks import Mask, mask_source, parse_mask
from taskveil.methods.svm.method import Svm

MASKS = [("bernoulli", 0.5), ("bernoulli", 0.25), ("beta", 2.0, 0.5)]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("classification", [True, False])
def test_consistent_masks_reach_the_unmasked_optimum(mask, classification):
    block = related_block(classification=classification)
    method = Svm(mask=mask, mask_seed=0, rounds=600, C1=0.5)
    assert excess(method, block, run(method, block)) < 1e-3


def test_masking_dw_but_not_the_dual_drifts_off():
    """The paper's line 11 against line 12, in the same loop; the check above rejects it."""
    block = related_block()
    method = Svm(mask=("bernoulli", 0.5), mask_seed=0, mask_mode="paper", rounds=600, C1=0.5)
    assert excess(method, block, run(method, block)) > 1e-3


def test_a_mask_is_fresh_in_every_epoch_and_for_every_participant():
    mask, source = parse_mask(("bernoulli", 0.5)), mask_source(3)
    draws = [mask.draw(t, k, 64, source) for t in (0, 1) for k in (0, 1)]
    assert len({d.tobytes() for d in draws}) == 4
    np.testing.assert_array_equal(draws[0], mask.draw(0, 0, 64, source))


def test_masks_have_their_law_and_leave_the_other_points_alone():
    """Means of 20,000 draws within 5 standard errors (false alarm below 1e-6 each)."""
    n, source = 20_000, mask_source(0)
    for mask, mean, sd in (
        (Mask("bernoulli", 0.3), 0.3, np.sqrt(0.21)),
        (Mask("beta", 2.0, 0.5), 0.8, np.sqrt(2 * 0.5 / (2.5**2 * 3.5))),
    ):
        p = mask.draw(0, 0, n, source)
        assert p.min() >= 0.0 and p.max() <= 1.0
        assert abs(p.mean() - mean) < 5 * sd / np.sqrt(n)
    half = Mask("beta", 2.0, 0.5, share=0.5).draw(0, 0, n, source)
    assert abs(np.mean(half == 1.0) - 0.5) < 5 * 0.5 / np.sqrt(n) + 0.02


def test_masks_can_be_written_as_text():
    assert parse_mask("beta:2,0.5") == Mask("beta", 2.0, 0.5)
    assert parse_mask("bernoulli:0.5", 0.25) == Mask("bernoulli", 0.5, share=0.25)
    assert parse_mask(None) is None


def test_a_masked_run_is_certified_as_unprotected():
    import taskveil as tv

    block = related_block(n_tasks=3)
    est = tv.TaskClassifier(Svm(mask=("beta", 2.0, 0.5), rounds=5), epsilon=None)
    est.fit(block.X, block.y[:, 0], task=block.task_of_row)
    assert est.certificate_.statements == ()
    assert any("masks do not change that" in text for text in est.certificate_.not_protected)
