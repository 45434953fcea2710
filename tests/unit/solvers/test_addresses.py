"""What a compiled loop computes does not depend, to the last bit, on where its arrays lie in memory."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import textwrap

import numpy as np
import pytest
from numba import njit
from numba.core.registry import CPUDispatcher

from taskveil import solvers
from taskveil.solvers import kernels, kernels_step, kernels_tridiagonal
from taskveil.solvers.bands import packed_size

WIDTHS = [4, 5, 6, 7, 12, 13, 20, 28, 31]  # below 32 numbers: compilers call arrays close within at most a few vectors
REACH = 40  # numbers between two arrays; the widest vectors, unrolled four times, hold 32
FAR = 2000


@njit(fastmath=kernels.FAST)
def stored_and_summed(W, before, beta, mean, z):
    """The planted fault: the loop stores z and sums at once."""
    shift = 0.0
    for j in range(z.size):
        z[j] = W[j] + beta * (W[j] - before[j])
        shift += mean[j] * z[j]
    return shift


def outcomes(call, inputs: list[np.ndarray], size: int) -> set[bytes]:
    """What `call` leaves, with its output (size,) at every distance up to REACH before and after each of its inputs."""
    dtype, seen = inputs[0].dtype, set()
    for k, one in enumerate(inputs):
        for gap in range(REACH):
            for begin in (FAR * (2 * k + 1) - gap - size, FAR * (2 * k + 1) + one.size + gap):
                memory = np.zeros(FAR * (2 * len(inputs) + 1), dtype)
                placed = [memory[FAR * (2 * i + 1) :][: a.size].reshape(a.shape) for i, a in enumerate(inputs)]
                for view, a in zip(placed, inputs, strict=True):
                    view[...] = a
                out = memory[begin : begin + size]
                result = call(*placed, out)
                seen.add(np.asarray(result).tobytes() + out.tobytes() + b"".join(view.tobytes() for view in placed))
    return seen


def extrapolations(loop, d: int) -> set[bytes]:
    W, before, mean = np.random.default_rng(d).standard_normal((3, d))
    return outcomes(lambda W, before, mean, z: loop(W, before, 0.3, mean, z), [W, before, mean], d)


@pytest.mark.parametrize("d", WIDTHS)
def test_extrapolation(d):
    assert len(extrapolations(kernels_step.extrapolate, d)) == 1


def test_a_loop_that_stores_and_sums_is_seen():
    """The twin."""
    assert any(len(extrapolations(stored_and_summed, d)) > 1 for d in WIDTHS)


@pytest.mark.parametrize("d", WIDTHS)
def test_one_pass_over_the_rows_of_a_task(d):
    rng = np.random.default_rng(d)
    X, w, y = rng.standard_normal((9, d)), rng.standard_normal(d), rng.standard_normal((9, 1))
    assert len(outcomes(lambda X, w, y, g: kernels.task_pass(X, y, np.empty(0), 0, 9, w, 0.3, 0, g), [X, w, y], d)) == 1


@pytest.mark.parametrize("d", WIDTHS)
def test_products_with_a_packed_matrix(d):
    rng = np.random.default_rng(d)
    packed, v = (rng.standard_normal(n).astype(np.float32) for n in (packed_size(d), d + 3))
    v[d:] = 0.0
    times = kernels_step.curvature_times
    assert len(outcomes(lambda packed, v, out: times(packed, 0, d, v, out), [packed, v], d + 3)) == 1


@pytest.mark.parametrize("d", WIDTHS)
def test_reduction_to_tridiagonal_form(d):
    B = np.random.default_rng(d).standard_normal((d, d))

    def reduce(A, out):
        kernels_tridiagonal.tridiagonalise(A, out[None, :d], out[None, d:])

    assert len(outcomes(reduce, [(B @ B.T)[None]], 2 * d)) == 1


@pytest.mark.parametrize("d", WIDTHS)
def test_turning_into_the_basis_and_back(d):
    A = np.random.default_rng(d).standard_normal((1, d, d))
    for back in (False, True):
        assert len(outcomes(lambda A, out, back=back: kernels_tridiagonal.turn(A, out[None, None], back), [A], d)) == 1


def reordering() -> dict[str, CPUDispatcher]:
    """Every compiled function of the solvers in which sums may be reordered."""
    found = {}
    for module in pkgutil.iter_modules(solvers.__path__):
        for name, value in vars(importlib.import_module(f"taskveil.solvers.{module.name}")).items():
            if isinstance(value, CPUDispatcher) and value.targetoptions.get("fastmath"):
                found[f"{module.name}.{name}"] = value
    return found


def sums_and_stores(function: CPUDispatcher) -> list[str]:
    """Innermost loops that carry a sum and store into an array they do not update in place."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function.py_func)))
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    innermost = [a for a in loops if not any(isinstance(b, ast.For | ast.While) for s in a.body for b in ast.walk(s))]
    return [ast.unparse(loop) for loop in innermost if _sums(loop) and _stores(loop)]


def _sums(loop: ast.AST) -> bool:
    return any(isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) for node in ast.walk(loop)) or any(
        _names(node.value, ast.Load) & {n for target in node.targets for n in _names(target, ast.Store)}
        for node in ast.walk(loop)
        if isinstance(node, ast.Assign)
    )


def _stores(loop: ast.AST) -> bool:
    targets = [target for node in ast.walk(loop) if isinstance(node, ast.Assign) for target in node.targets]
    return any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for target in targets for n in ast.walk(target))


def _names(node: ast.AST, context: type) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def test_no_loop_that_may_reorder_its_sums_stores_beside_them():
    kernels_seen = reordering()
    assert {"kernels.task_pass", "kernels_step.accelerated_step", "kernels_l1._one", "dual_coordinate.score"} <= set(kernels_seen)
    assert {name: found for name, function in kernels_seen.items() if (found := sums_and_stores(function))} == {}


def test_the_planted_loop_is_found():
    assert len(sums_and_stores(stored_and_summed)) == 1
