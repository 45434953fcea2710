"""The dense layer that walks its step on the way back, against gradients and the step apart."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from taskveil.engine import fused_dense  # noqa: E402
from taskveil.engine.fused_dense import walk  # noqa: E402
from taskveil.engine.lift import lift_of  # noqa: E402
from taskveil.engine.models import build  # noqa: E402
from taskveil.engine.products import parts  # noqa: E402
from taskveil.engine.rounds import Cohort, LocalWork, Round  # noqa: E402
from taskveil.engine.walk import Walk  # noqa: E402

ETA, PULL = 0.3, 0.7


def case(n: int = 16, inputs: int = 40, outputs: int = 16):
    rng = np.random.default_rng(0)
    shapes = (3, n, inputs), (3, inputs, outputs), (inputs, outputs), (3, n, outputs)
    return [jnp.asarray(rng.standard_normal(s), jnp.float32) for s in shapes]


def found_and_expected(rows, weights, target, dy):
    """(gradient of the rows, weights after the step) of three clients: through `walk`, and in float64."""

    def back(rows, weights, dy):
        scores, pull_back = jax.vjp(lambda r, w: walk(r, w, target, ETA, PULL, "highest"), rows, weights)
        return pull_back(dy)

    x, w, a, g = (np.asarray(v, np.float64) for v in (rows, weights, target, dy))
    gradient = np.einsum("kni,kno->kio", x, g)
    expected = np.einsum("kno,kio->kni", g, w), (w - ETA * (gradient - PULL * a)) / (1 + ETA * PULL)
    return jax.jit(jax.vmap(back))(rows, weights, dy), expected


def worst(found, expected) -> float:
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("n", [16, 10])  # 10 rows are not a side of the matrix units: plain steps
def test_walking_gives_the_gradient_of_the_rows_and_the_weights_after_the_step(n):
    assert worst(*found_and_expected(*case(n))) < 1e-5


def test_a_walk_that_forgets_the_pull_is_noticed(monkeypatch):
    monkeypatch.setattr(Walk, "moved", lambda self, weights, gradient, target: weights - self.eta * gradient)
    assert worst(*found_and_expected(*case())) > 1e-2


def round_of_cnn(walks: bool):
    model = build({"name": "cnn", "channels": (2, 4), "hidden": 16}, 64, 3, "classification")
    rng, clients, steps, batch = np.random.default_rng(1), 2, 2, 16
    one = Round(model, LocalWork(steps=steps, batch_size=batch, learning_rate=0.5, pull=0.5))
    one.walks = walks
    first = model.start(0)
    own = np.stack([first, first + 0.01 * rng.standard_normal(first.size).astype(np.float32)])
    index = rng.integers(0, 40, (clients, steps, batch)).astype(np.int32)
    even = np.full(index.shape, 1 / batch, np.float32)
    ones = np.ones(clients, np.float32)
    cohort = Cohort(first[None], own, ones, ones[:, None], ones, index, even)
    return one.messages(cohort, (rng.random((40, 64), dtype=np.float32), rng.integers(0, 3, 40).astype(np.int32)), 100.0)


def test_a_round_that_walks_is_the_round_that_does_not():
    for walked, plain in zip(round_of_cnn(True), round_of_cnn(False), strict=True):
        assert np.linalg.norm(walked - plain) < 1e-4 * np.linalg.norm(np.asarray(plain))


def test_only_the_cnn_walks_and_not_on_a_cpu_by_itself():
    model = build("softmax", 4, 3, "classification")
    assert not model.walked
    assert not Round(build("cnn", 64, 3, "classification"), LocalWork()).walks or jax.default_backend() == "gpu"


def test_the_kernel_takes_only_what_a_program_can_hold():
    rows = case()[1].shape[1]  # the first test above covers a last tile that is not full
    assert all(rows % how.tile for how in fused_dense.STEP.values())
    shapes = (16, 128), (10, 128), (16, 62), (1024, 128), (16, 512)
    assert [fused_dense.fits(*shape) for shape in shapes] == [True, False, False, False, False]


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16])
def test_weights_move_to_the_last_bit_and_16_bit_rows_get_lifted_gradients(dtype, monkeypatch):
    """Against float64. Twin: slopes of one part are seen to be fewer than those of two or three."""
    rows, weights, target, dy = (a[0] if a.ndim == 3 else a for a in case())
    rows = rows.astype(dtype)
    x, w, g, a = (np.asarray(v, np.float64) for v in (rows, weights, dy, target))
    expected = lift_of(dtype) * (g @ w.T), (w - ETA * (x.T @ g - PULL * a)) / (1 + ETA * PULL)

    def errors():
        found = fused_dense.stepped(rows, weights, target, ETA, PULL, dy)
        return [worst([np.asarray(f, np.float64)], [e]) for f, e in zip(found, expected, strict=True)]

    back, moved = errors()
    assert back < (1e-5 if dtype == jnp.float32 else 2e-3) and moved < 1e-6
    monkeypatch.setattr(fused_dense, "parts", lambda a, dtype, exact=False: parts(a, dtype, exact)[:1])
    assert errors()[1] > 1e-6
