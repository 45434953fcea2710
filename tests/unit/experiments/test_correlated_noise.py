"""The comparison of correlated noise with sampled cohorts: its algebra, and that the stored figures are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from experiments.correlated_noise.run import best_error, compare, error, sums_of_noise

RESULTS = Path(__file__).parents[3] / "experiments" / "correlated_noise" / "results.json"
BANDS = np.array([1.0, 0.6, 0.3])


def matrix(bands: np.ndarray, rounds: int) -> np.ndarray:
    return sum(c * np.eye(rounds, k=-i) for i, c in enumerate(bands))


def test_errors_are_row_norms_of_the_sums_of_noise():
    rounds, C = 9, matrix(BANDS / np.linalg.norm(BANDS), 9)
    rows = np.linalg.norm(np.tri(rounds) @ np.linalg.inv(C), axis=1)
    np.testing.assert_allclose(np.linalg.norm(sums_of_noise(BANDS / np.linalg.norm(BANDS), rounds)), rows[-1], rtol=1e-12)
    np.testing.assert_allclose(error(BANDS, rounds, "last"), rows[-1], rtol=1e-12)
    np.testing.assert_allclose(error(BANDS, rounds, "mean"), np.sqrt(np.mean(rows**2)), rtol=1e-12)


def test_fresh_noise_has_the_closed_form():
    assert best_error(1, 16, "last") == pytest.approx(4.0)
    assert best_error(1, 16, "mean") == pytest.approx(np.sqrt(17 / 2))


@pytest.mark.parametrize("bands", [[1.0], [1.0, 0.5], [1.0, 0.9, 0.8, 0.1]])
def test_no_correlation_helps_the_last_model_when_everybody_takes_part(bands):
    """Error times sensitivity is at least T; fresh noise has exactly that."""
    rounds, unit = 12, np.asarray(bands) / np.linalg.norm(bands)
    product = error(np.asarray(bands), rounds, "last") * np.linalg.norm(matrix(unit, rounds) @ np.ones(rounds))
    assert product >= rounds - 1e-9
    assert (product == pytest.approx(rounds)) == (len(bands) == 1)


def test_a_stored_case_is_what_the_code_finds():
    stored = {(r["tasks"], r["cohort"], r["rounds"], r["epsilon"]): r for r in json.loads(RESULTS.read_text())}
    assert len(stored) == 72
    found = compare(500, 100, 20, 1.0)
    for measure in ("last", "mean"):
        for name in ("fresh", "banded", "turns"):
            assert found[measure][name] == pytest.approx(stored[500, 100, 20, 1.0][measure][name], rel=5e-3)
