"""A task's numbers are the same, to the last bit, alone and in a block of others: sizes and rows of others are private."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.blocks import make_block

from taskveil.losses import LOSSES
from taskveil.methods.local import best_intercepts
from taskveil.solvers import padding, posterior
from taskveil.solvers.evidence import Prior, averaged_models, residual_models
from taskveil.solvers.lasso import minimise_l1
from taskveil.solvers.lipschitz import task_lipschitz
from taskveil.solvers.newton import minimise_local
from taskveil.threads import small_matrix_threads

LOSS = {"regression": "squared", "classification": "logistic"}


def solved(block, kind: str, d: int) -> dict[str, np.ndarray]:
    """Every solver that works on stacks of tasks; axis 0 runs over tasks."""
    rng = np.random.default_rng(d)
    B, centre = rng.standard_normal((d, min(3, d))), rng.standard_normal((1, d))
    name, loss = LOSS[kind], LOSSES.get(LOSS[kind])
    W = np.repeat(centre[None], block.n_tasks, axis=0)
    with small_matrix_threads(0):
        return {
            "averaged": averaged_models(block, [Prior(), Prior(0.1, B), Prior(centre=centre)], name)[0],
            "residual": residual_models(block, centre, 1.0, name),
            "newton": minimise_local(block, loss, 0.1, W)[0],
            "lasso": minimise_l1(block, loss, 0.05)[0],
            "lipschitz": task_lipschitz(block, loss, True),
            "intercepts": best_intercepts(block, W, loss),
        }


def moved(kind: str, d: int, rows: tuple[int, int]) -> set[str]:
    """Solvers whose result for a task differs between the block and the task alone."""
    block = make_block(kind, n_tasks=24, n_features=d, rows=rows, seed=d, held_out=0.2)
    whole, found = solved(block, kind, d), set()
    for i in (0, 11, 23):
        one = solved(block.take([i]), kind, d)
        found |= {name for name in whole if whole[name][i].tobytes() != one[name][0].tobytes()}
    return found


@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize(
    ("d", "rows"),
    [(1, (1, 6)), (5, (4, 60)), (28, (4, 60)), (40, (20, 40)), (7, (200, 400)), (48, (340, 380)), (2, (8200, 8400))],
)
def test_a_task_has_the_same_numbers_alone_and_among_others(kind, d, rows):
    assert moved(kind, d, rows) == set()


def test_padding_with_rows_of_others_is_seen(monkeypatch):
    """The twin: weight zero does not keep a row out of a decomposition in row space."""
    real = padding._stack

    def borrowed(block, tasks, width):
        stack = real(block, tasks, width)
        stack.X[np.arange(width) >= block.sizes[tasks][:, None]] = block.X[0]
        return stack

    monkeypatch.setattr(padding, "_stack", borrowed)
    assert "newton" in moved("regression", 28, (4, 60))


def test_sums_that_depend_on_who_else_is_in_the_stack_are_seen(monkeypatch):
    """The twin, as it was: above 8192 products NumPy adds up a lone task's in another order (seen from a table of 80 schools)."""
    monkeypatch.setattr(posterior, "per_task", np.einsum)
    assert "residual" in moved("regression", 48, (340, 380))


def test_a_width_depends_on_the_size_alone_and_adds_less_than_a_quarter():
    sizes = np.arange(1, 5000)
    widths = padding.padded_width(sizes)
    assert (widths >= sizes).all() and ((widths - sizes) < sizes / 4).all() and np.unique(widths).size < 50
    np.testing.assert_array_equal(padding.padded_width(sizes[::-1]), widths[::-1])
