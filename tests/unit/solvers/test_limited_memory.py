"""The one-evaluation-at-a-time quasi-Newton method on functions with known minima."""

from __future__ import annotations

import numpy as np

from taskveil.solvers import limited_memory


def run(value_and_gradient, point, rounds, first_step):
    state = limited_memory.start(point, 10, first_step)
    best = np.inf
    for _ in range(rounds):
        values, gradients = value_and_gradient(state["point"])
        best = min(best, float(values.sum()))
        state = limited_memory.advance(state, values, gradients)
    return state, best


def test_quadratics_are_minimised_independently_of_one_another():
    rng = np.random.default_rng(0)
    A = [np.diag(10.0 ** rng.uniform(0, 3, 8)) for _ in range(2)]
    b = rng.standard_normal((2, 8))

    def f(p):
        return (
            np.array([0.5 * x @ M @ x - c @ x for x, M, c in zip(p, A, b)]),
            np.stack([M @ x - c for x, M, c in zip(p, A, b)]),
        )

    state, _ = run(f, np.zeros((2, 8)), 60, 1e-3)
    np.testing.assert_allclose(state["base"], [np.linalg.solve(M, c) for M, c in zip(A, b)], atol=1e-6)


def test_a_function_with_a_kink_in_its_gradient_is_minimised():
    """Squared hinge plus a ridge: once, not twice, differentiable."""

    def f(p):
        slack = np.maximum(1.0 - p * np.arange(1, 6), 0.0)
        return 0.5 * np.sum(slack**2 + 0.1 * p**2, axis=1), -slack * np.arange(1, 6) + 0.1 * p

    state, _ = run(f, np.zeros((1, 5)), 60, 1e-2)
    _, gradient = f(state["base"])
    assert np.abs(gradient).max() < 1e-6


def test_a_step_that_makes_things_worse_is_shortened():
    def f(p):
        return np.sum(p**4, axis=1), 4 * p**3

    state = limited_memory.start(np.full((1, 2), 3.0), 5, 1.0)  # a first step of -108 overshoots by far
    state = limited_memory.advance(state, *f(state["point"]))
    far = np.abs(state["point"]).max()
    state = limited_memory.advance(state, *f(state["point"]))
    assert np.abs(state["point"] - 3.0).max() < np.abs(far - 3.0)
    assert state["value"][0] == f(np.full((1, 2), 3.0))[0][0]
