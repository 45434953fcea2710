"""What a fit keeps of the rows: single precision stays single, and rows that are a file are never in memory as a whole."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import taskveil as tv
from taskveil.solvers import padding
from taskveil.tasks.grouping import in_order, room_like

TASKS, ROWS, FEATURES = 400, 100, 40


def table(dtype: type = np.float64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((TASKS * ROWS, FEATURES)).astype(dtype)
    return X, X[:, 0] + rng.standard_normal(len(X)), np.repeat(np.arange(TASKS), ROWS)


def fitted(X, y, task, method: str) -> tv.TaskRegressor:
    return tv.TaskRegressor(method, epsilon=1.0, insecure_noise_seed=0).fit(X, y, task=task)


def peak(X, y, task, method: str) -> tuple[float, np.ndarray]:
    """Memory above the caller's arrays at the peak of a fit, over X; and the models."""
    tracemalloc.start()
    coef = fitted(X, y, task, method).coef_
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / X.nbytes, coef


@pytest.mark.parametrize("method", ["subspace", "together"])
def test_single_precision_stays_single_and_changes_little(method):
    X, y, task = table(np.float32)
    found = fitted(X, y, task, method)
    assert found._training.X.dtype == np.float32
    np.testing.assert_allclose(found.coef_, fitted(X.astype(np.float64), y, task, method).coef_, atol=1e-4)


@pytest.mark.parametrize("method", ["subspace", "together"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_rows_in_a_file_are_never_in_memory_as_a_whole(method, tmp_path, monkeypatch):
    """The same fit from an array is the twin: it holds a scaled copy, which is as large as the rows."""
    monkeypatch.setattr(padding, "LIMIT", 20_000)
    X, y, task = table()
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    from_file, found = peak(mapped, y, task, method)
    from_memory, wanted = peak(X, y, task, method)
    assert from_file < 0.6 and from_memory > 1.0
    np.testing.assert_array_equal(found, wanted)


def test_room_for_rows_of_a_file_is_a_file(tmp_path):
    X = np.arange(60.0).reshape(20, 3)
    np.save(tmp_path / "rows.npy", X)
    mapped, order = np.load(tmp_path / "rows.npy", mmap_mode="r"), np.arange(20)[::-1]
    for of_a_file in (mapped, np.asarray(mapped), mapped[3:]):
        assert isinstance(room_like(of_a_file), np.memmap)
    assert not isinstance(room_like(X), np.memmap)
    np.testing.assert_array_equal(in_order(np.asarray(mapped), order), X[order])
