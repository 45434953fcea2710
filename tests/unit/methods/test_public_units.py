"""Without noise models are sent in public units, one for each feature: the sum of squares is that of the models all the same."""

import numpy as np
import pytest
from tests.support.blocks import make_block

from taskveil import TaskRegressor, methods
from taskveil.methods import proximal_sides
from taskveil.methods.proximal_sides import units
from taskveil.privacy.contributions import Contribution, OuterSum
from taskveil.solvers.moves import counted


def sums(monkeypatch, name: str, scale: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Second moments on the billboards of a run of four rounds, and those of the models that tasks had."""
    real, had, shown = proximal_sides.ProximalTasks.step, [], []

    def step(self, state, view):
        if "map" in view:
            shown.append(view["second-moment"])
        state, message = real(self, state, view)
        had.append(state["w"].reshape(-1, state["w"].shape[-1]).copy())
        return state, message

    monkeypatch.setattr(proximal_sides.ProximalTasks, "step", step)
    block = make_block(n_tasks=20, n_features=5, rows=(8, 30), seed=1)
    X = block.X * np.array([1.0, 1e-3, 1e3, 1.0, 1.0])
    task = np.repeat(np.arange(20), block.sizes)
    method = methods.get(name, rounds=5, tol=0.0)
    TaskRegressor(method, epsilon=None, scaling="none").fit(X, scale * block.y[:, 0], task=task)
    wanted = [W.T @ W for W in had[: len(shown)]]
    return shown, [np.diagonal(S) for S in wanted] if name == "group-sparse" else wanted


def lengths(S: np.ndarray) -> np.ndarray:
    return np.sqrt(S if S.ndim == 1 else np.diagonal(S))


def worst(shown: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    """Largest error relative to the features' own lengths, now or a round ago, after the first round."""
    errors = []
    for before, S, W in zip(wanted, shown[1:], wanted[1:], strict=False):
        size = np.maximum(lengths(before), lengths(W))
        errors.append(np.abs((S - W) / (np.square(size) if W.ndim == 1 else np.outer(size, size))).max())
    return float(max(errors))


@pytest.mark.parametrize("scale", [1.0, 1e-3])
@pytest.mark.parametrize("name", ["low-rank", "group-sparse"])
def test_the_server_sees_the_second_moment_of_the_models(monkeypatch, name, scale):
    """Whatever the units of features and targets: to 2^-40 of a feature's length (2^-60 of one in the first round)."""
    shown, wanted = sums(monkeypatch, name, scale)
    assert len(shown) == 4 and worst(shown, wanted) < 1e-10


def test_a_server_that_forgets_the_units_is_seen(monkeypatch):
    """The twin."""
    monkeypatch.setattr(proximal_sides, "counted", lambda models, one, bits: models / (2.0 * one))
    assert worst(*sums(monkeypatch, "low-rank", 1.0)) > 0.1


def test_no_coefficient_exceeds_its_unit_and_two_digits_say_it():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((50, 1, 4)) * np.array([1.0, 3e-9, 7e5, 0.0])
    S = np.einsum("krd,kre->de", W, W)
    one = units(S)
    np.testing.assert_array_equal(one, units(np.diagonal(S)))
    assert (np.frexp(one)[0] == 0.5).all() and (np.abs(W) <= one).all() and (one[:3] <= 4.0 * np.sqrt(np.diagonal(S)[:3])).all()
    sent = counted(W, one, 40)
    np.testing.assert_allclose(sent * one, W, atol=2.0**-41 * one.max())
    places = OuterSum(4, Contribution.unbounded).partial(OuterSum(4, Contribution.unbounded).clip(sent)).parts[0]
    assert np.count_nonzero(np.abs(places).max(axis=(1, 2))) == 3  # two digits: a square of each, and their product
