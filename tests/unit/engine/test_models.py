"""Models as pairs of pure functions: sizes, convolutions against a library, the user's own pairs and modules."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.errors import OptionError

jax = pytest.importorskip("jax")
jnp = jax.numpy

from taskveil.engine.convolution import convolve, halve  # noqa: E402
from taskveil.engine.models import build, losses_of  # noqa: E402


def test_the_cnn_has_the_parameters_of_the_papers_network():
    model = build("cnn", 784, 62, "classification")
    assert model.n_parameters == 213_630 and model.loss == "softmax"


def test_patches_times_a_matrix_is_the_librarys_convolution():
    rng = np.random.default_rng(0)
    images, weights = rng.standard_normal((2, 8, 8, 3)), rng.standard_normal((27, 5))
    kernel = weights.reshape(3, 3, 3, 5)  # rows, columns, channels in, channels out
    library = jax.lax.conv_general_dilated(
        jnp.asarray(images), jnp.asarray(kernel), (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    np.testing.assert_allclose(convolve(jnp.asarray(images), jnp.asarray(weights), 0.5), library + 0.5, atol=1e-4)


def test_halving_takes_the_largest_of_every_two_by_two():
    images = np.random.default_rng(1).standard_normal((3, 4, 6, 2)).astype(np.float32)
    expected = images.reshape(3, 2, 2, 3, 2, 2).max(axis=(2, 4))
    np.testing.assert_array_equal(np.asarray(halve(jnp.asarray(images))), expected)


def test_the_first_of_equal_pixels_gets_the_gradient_of_a_window():
    gradient = jax.grad(lambda images: jnp.sum(halve(images)))(jnp.ones((1, 2, 2, 1)))
    np.testing.assert_array_equal(gradient[0, :, :, 0], [[1, 0], [0, 0]])


def test_losses_are_the_textbook_ones():
    scores, y = np.array([[0.3, -1.0, 2.0], [1.0, 0.0, 0.0]]), np.array([2, 1])
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(losses_of("softmax", jnp.asarray(scores), jnp.asarray(y)), -np.log(p[[0, 1], y]), rtol=1e-5)
    signs, one = np.array([[1.0], [-1.0]]), scores[:, :1]
    logistic = np.log1p(np.exp(-signs * one))[:, 0]
    np.testing.assert_allclose(losses_of("logistic", jnp.asarray(one), jnp.asarray(signs)), logistic, rtol=1e-5)


# ------------------------------------------------------------ what a user may bring


def own_init(key):
    return {"inner": jax.random.normal(key, (4, 6)) / 2, "outer": jnp.zeros((6, 2))}


def own_apply(params, rows):
    return jnp.tanh(rows @ params["inner"]) @ params["outer"]


class FlaxLike:
    """The two methods of a Flax linen module that the adapter uses; Flax itself is not a dependency."""

    def init(self, key, rows):
        return {"params": {"kernel": jax.random.normal(key, (rows.shape[1], 2)), "bias": jnp.zeros(2)}}

    def apply(self, variables, rows):
        return rows @ variables["params"]["kernel"] + variables["params"]["bias"]


@jax.tree_util.register_pytree_node_class
class EquinoxLike:
    """A callable pytree of one row, like an Equinox module: an array leaf and a leaf that is no array."""

    def __init__(self, weights, act=None):
        self.weights, self.act = weights, act

    def __call__(self, row):
        return self.act(self.weights @ row)

    def tree_flatten(self):
        return (self.weights, self.act), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@pytest.mark.parametrize("description, parameters", [
    ((own_init, own_apply), 36), (FlaxLike(), 10), (EquinoxLike(np.ones((2, 4), np.float32), jnp.tanh), 8),
])  # fmt: skip
def test_pairs_and_modules_become_models(description, parameters):
    model = build(description, 4, 2, "classification")
    rows = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    flat = model.start(3)
    assert flat.shape == (parameters,) == (model.n_parameters,) and flat.dtype == np.float32
    assert model.apply(model.unravel(jnp.asarray(flat)), rows).shape == (5, 2)
    np.testing.assert_array_equal(model.start(3), flat)


def test_a_models_scores_must_have_one_column_per_output():
    with pytest.raises(OptionError, match="scores"):
        build((own_init, own_apply), 4, 3, "classification")


@pytest.mark.parametrize("description", ["transformer", 3.5, {"name": "mlp", "depth": 3}, lambda x: x])
def test_what_is_no_model_is_refused(description):
    with pytest.raises(OptionError):
        build(description, 4, 2, "classification")


def test_a_cnn_needs_square_images():
    with pytest.raises(OptionError, match="square"):
        build("cnn", 783, 10, "classification")
