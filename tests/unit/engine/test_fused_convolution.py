"""The fused kernels (interpreted here) and the operation for CPUs against the plain functions: values, gradients, ties."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from taskveil.engine import convolution  # noqa: E402
from taskveil.engine import fused_convolution as fused  # noqa: E402
from taskveil.engine.convolution import convolution_layers, convolve, halve  # noqa: E402
from taskveil.engine.lift import leave  # noqa: E402

SIDE, CLIENTS, IMAGES = 8, 2, 4


def plain(images, layers):
    for weights, bias in layers:
        images = halve(jax.nn.relu(convolve(images, weights, bias)))
    return images


def in_kernels(images, layers, dtype=jnp.float32):
    for weights, bias in layers:
        images = fused.convolve_and_halve(images, weights, bias, dtype)
    return leave(images)


def case(seed: int = 0, ties: bool = False):
    rng = np.random.default_rng(seed)
    images = rng.random((CLIENTS, IMAGES, SIDE, SIDE, 1))
    sizes = [(9, 16), (16,), (144, 32), (32,)]
    weights = [rng.normal(0.1, 0.3, (CLIENTS, *s)) for s in sizes]
    if ties:  # small whole numbers: windows whose pixels look at different things are often equal
        images, weights = np.rint(images), [np.rint(3 * w).clip(-1, 1) for w in weights]
    w1, b1, w2, b2 = (w.astype(np.float32) for w in weights)
    target = rng.normal(size=(CLIENTS, IMAGES, SIDE // 4, SIDE // 4, 32)).astype(np.float32)
    return images.astype(np.float32), ((w1, b1), (w2, b2)), target


def value_and_gradients(layer_function, images, layers, target):
    loss = jax.value_and_grad(lambda layers, images, target: jnp.sum(layer_function(images, layers) * target))
    return jax.tree.leaves(jax.jit(jax.vmap(loss))(layers, images, target))


def worst(found, expected) -> float:
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("ties", [pytest.param(False, marks=pytest.mark.slow), True])
def test_values_and_gradients_are_those_of_the_plain_functions_ties_included(ties):
    drawn = case(ties=ties)
    assert worst(value_and_gradients(in_kernels, *drawn), value_and_gradients(plain, *drawn)) < 1e-5


def test_a_kernel_that_gives_a_tie_to_another_corner_is_noticed(monkeypatch):
    """The twin: the right of two equal columns is as good a maximum, but not the plain path's."""
    images, layers, target = case(ties=True)
    images, layers, target = images[:, :1], layers[:1], np.tile(target[:, :1, :, :, :16], (1, 1, 2, 2, 1))
    honest = fused.pool
    monkeypatch.setattr(fused, "pool", lambda a, b, c, d: mirrored(*honest(b, a, d, c)))  # a shape that no other test compiles
    found = value_and_gradients(in_kernels, images, layers, target)
    assert worst(found, value_and_gradients(plain, images, layers, target)) > 1e-3


def mirrored(best, winner):
    return best, jnp.where(winner < fused.NOWHERE, winner ^ 1, winner)


@pytest.mark.slow
def test_sixteen_bit_activations_stay_within_a_percent_and_small_gradients_do_not_vanish():
    images, layers, target = case(seed=1)
    tiny = 1e-5 * target
    expected = value_and_gradients(plain, images, layers, tiny)
    found = value_and_gradients(lambda i, w: in_kernels(i, w, jnp.float16), images, layers, tiny)
    for a, b in zip(found[1:], expected[1:], strict=True):
        assert np.linalg.norm(a - b) < 1e-2 * np.linalg.norm(b)


@pytest.mark.parametrize(
    ("channels", "outputs", "can"),
    [(1, 16, True), (16, 32, True), (3, 16, False), (16, 24, False), (8, 16, False), (32, 64, False), (1, 128, False)],
)
def test_only_shapes_that_the_matrix_units_take_and_a_processor_holds_are_fused(channels, outputs, can):
    assert fused.fits(channels, outputs) is can


# ------------------------------------------------------------------ on a CPU


def of_the_backend(images, layers):
    return convolution_layers(images, [{"weights": weights, "bias": bias} for weights, bias in layers])


def gradients_of_everything(layer_function, images, layers, target):
    loss = jax.value_and_grad(lambda drawn: jnp.sum(layer_function(*drawn) * target))
    return jax.tree.leaves(jax.jit(loss)((images, layers)))


@pytest.mark.parametrize("ties", [False, True])
def test_a_cpus_operation_has_the_plain_values_and_gradients_ties_included(ties):
    assert jax.default_backend() == "cpu"
    drawn = case(ties=ties)
    assert worst(value_and_gradients(of_the_backend, *drawn), value_and_gradients(plain, *drawn)) < 1e-5


def test_a_cpus_operation_takes_any_channels_and_gives_the_images_their_gradient():
    """Three and five channels: sizes no kernel takes; and one channel, whose neighbourhoods lie the other way."""
    rng = np.random.default_rng(2)
    for channels in (1, 3):
        images, target = rng.normal(size=(4, 8, 12, channels)), rng.normal(size=(4, 4, 6, 5))
        layers = [(rng.normal(size=(9 * channels, 5)), rng.normal(size=5))]
        drawn = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), (images, layers, target))
        assert worst(gradients_of_everything(of_the_backend, *drawn), gradients_of_everything(plain, *drawn)) < 1e-5


def test_a_cpus_operation_that_gives_a_tie_to_another_corner_is_noticed(monkeypatch):
    images, layers, target = case(ties=True)
    layers, target = layers[:1], np.tile(target[..., :16], (1, 1, 2, 2, 1))
    honest = convolution.pool
    monkeypatch.setattr(convolution, "pool", lambda a, b, c, d: mirrored(*honest(b, a, d, c)))
    found = value_and_gradients(of_the_backend, images, layers, target)
    assert worst(found, value_and_gradients(plain, images, layers, target)) > 1e-3
