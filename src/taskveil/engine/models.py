"""Models as pairs of pure functions, and the losses they are trained with.

    linear    scores = W x + b; squared loss for regression, logistic for two classes, one-against-the-rest logistic for more
    softmax   the same scores, cross-entropy over classes
    mlp       hidden layers with relu (default one of 64), cross-entropy or squared loss
    cnn       4 layers for square images: conv 3x3 16, pool, conv 3x3 32, pool, dense 128, dense; 213,630 parameters on
              28 x 28 images with 62 classes, the size of the FEMNIST model in Hu, Wu, Smith 2023 (PMTL). On a GPU
              activations="float16" keeps what is between layers in 16 bits; weights and gradients stay in 32
    (init, apply)  your own: init(key) -> params, apply(params, rows) -> scores (n, outputs)
    a Flax or Equinox module: see `adapt_module`

A client's parameters are one flat float32 vector everywhere outside a jitted round, so that clipping, states and
files never depend on the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from taskveil.engine.convolution import convolution_layers
from taskveil.engine.lift import leave
from taskveil.errors import OptionError

Init = Callable[[Any], Any]
Apply = Callable[[Any, Any], Any]
LOSSES = ("squared", "logistic", "softmax")
ACTIVATIONS = ("float32", "float16")
WALKED = {"cnn": frozenset({"[2]['weights']"})}  # the dense layer below the head


@dataclass(frozen=True, eq=False)
class Model:
    """A model of `n_features` inputs and `n_outputs` scores; `loss` names what its scores mean."""

    name: str
    init: Init
    apply: Apply
    loss: str
    n_features: int
    n_outputs: int
    unravel: Callable[[Any], Any] = field(repr=False)
    n_parameters: int = 0
    n_own: int = 0  # how many of them, the first, never leave their task (representation.py)
    walked: frozenset[str] = frozenset()  # leaves that `apply`, given a walk, moves itself: see fused_dense.py

    @property
    def n_shared(self) -> int:
        """Length of a message."""
        return self.n_parameters - self.n_own

    def start(self, seed: int) -> np.ndarray:
        """The data-independent first parameters, flat (p,) float32."""
        return np.asarray(ravel_pytree(self.init(jax.random.key(seed)))[0], dtype=np.float32)

    def row_losses(self, params: Any, rows: Any, targets: Any, *walk: Any) -> Any:
        """Loss of every row (n,)."""
        return losses_of(self.loss, self.apply(params, rows, *walk), targets)

    def mean_loss(self, params: Any, rows: Any, targets: Any, weights: Any, *walk: Any) -> Any:
        """sum_i weight_i loss_i; weights sum to one over a client's rows."""
        return jnp.sum(weights * self.row_losses(params, rows, targets, *walk))


def losses_of(loss: str, scores: Any, targets: Any) -> Any:
    """Row losses. Targets are (n, r) numbers or -1/+1 columns; for softmax, class numbers (n,)."""
    if loss == "squared":
        return 0.5 * jnp.sum((scores - targets) ** 2, axis=1)
    if loss == "logistic":
        return jnp.sum(jnp.logaddexp(0.0, -targets * scores), axis=1)
    own = jnp.arange(scores.shape[1]) == targets[:, None]  # not by index: its gradient would be scattered, a kernel more
    return -jnp.sum(jnp.where(own, jax.nn.log_softmax(scores), 0.0), axis=1)


def build(description: Any, n_features: int, n_outputs: int, kind: str) -> Model:
    """The model a description stands for: a name, {"name": ..., options}, an (init, apply) pair or a module."""
    options: dict[str, Any] = {}
    if isinstance(description, dict):
        options = {k: v for k, v in description.items() if k != "name"}
        description = description.get("name")
    if isinstance(description, str):
        name, (init, apply) = description, _named(description, n_features, n_outputs, options)
    elif isinstance(description, tuple) and len(description) == 2 and all(callable(f) for f in description):
        name, (init, apply) = "own", description
    else:
        name, (init, apply) = type(description).__name__, adapt_module(description, n_features)
    model = _finish(name, init, apply, _loss_for(name, kind, n_outputs), n_features, n_outputs)
    return replace(model, walked=WALKED[name]) if name in WALKED and options.get("hidden", True) else model


def _finish(name: str, init: Init, apply: Apply, loss: str, n_features: int, n_outputs: int) -> Model:
    shapes = jax.eval_shape(init, jax.random.key(0))
    blank = jax.tree.map(lambda s: jnp.zeros(s.shape, jnp.float32), shapes)
    scores = jax.eval_shape(apply, blank, jax.ShapeDtypeStruct((3, n_features), jnp.float32))
    if scores.shape != (3, n_outputs):
        raise OptionError(f"apply must map rows (n, {n_features}) to scores (n, {n_outputs}); 3 rows gave {scores.shape}")
    flat, unravel = ravel_pytree(blank)
    return Model(name, init, apply, loss, n_features, n_outputs, unravel, int(flat.size))


def _loss_for(name: str, kind: str, n_outputs: int) -> str:
    if kind == "regression":
        return "squared"
    return "logistic" if n_outputs == 1 or name == "linear" else "softmax"


def _named(name: str, n_features: int, n_outputs: int, options: dict[str, Any]) -> tuple[Init, Apply]:
    makers: dict[str, Callable[..., tuple[Init, Apply]]] = {"linear": _linear, "softmax": _linear, "mlp": _mlp, "cnn": _cnn}
    if name not in makers:
        raise OptionError(f"unknown model {name!r}: expected {', '.join(makers)}, an (init, apply) pair or a module")
    try:
        return makers[name](n_features, n_outputs, **options)
    except TypeError as error:
        raise OptionError(f"model {name!r} does not have the options {sorted(options)}") from error


def _linear(n_features: int, n_outputs: int) -> tuple[Init, Apply]:
    def init(key: Any) -> Any:
        return {"bias": jnp.zeros(n_outputs), "weights": jnp.zeros((n_features, n_outputs))}

    def apply(params: Any, rows: Any) -> Any:
        return rows @ params["weights"] + params["bias"]

    return init, apply


def _mlp(n_features: int, n_outputs: int, hidden: Any = (64,)) -> tuple[Init, Apply]:
    return _with_head(mlp_body(n_features, hidden), n_outputs)


def _cnn(n_features: int, n_outputs: int, **options: Any) -> tuple[Init, Apply]:
    return _with_head(cnn_body(n_features, **options), n_outputs)


@dataclass(frozen=True)
class Body:
    """The layers below a linear head: `apply` maps rows (n, d) to features (n, width); `init` takes a key for each layer."""

    init: Init
    apply: Apply
    width: int
    layers: int
    precision: Any = None  # of the head's product


def _with_head(body: Body, n_outputs: int) -> tuple[Init, Apply]:
    def init(key: Any) -> Any:
        keys = jax.random.split(key, body.layers + 1)
        return [*body.init(keys[:-1]), _dense(keys[-1], body.width, n_outputs)]

    def apply(params: Any, rows: Any, *walk: Any) -> Any:
        inner, head = body.apply(params[:-1], rows, *walk), params[-1]
        return jnp.matmul(inner, head["weights"], precision=body.precision) + head["bias"]

    return init, apply


def mlp_body(n_features: int, hidden: Any = (64,)) -> Body:
    widths = [n_features, *(int(h) for h in ([hidden] if isinstance(hidden, int) else hidden))]

    def init(keys: Any) -> Any:
        return [_dense(k, a, b) for k, a, b in zip(keys, widths[:-1], widths[1:])]

    def apply(params: Any, rows: Any) -> Any:
        for layer in params:
            rows = jax.nn.relu(rows @ layer["weights"] + layer["bias"])
        return rows

    return Body(init, apply, widths[-1], len(widths) - 1)


def cnn_body(n_features: int, channels: Any = (16, 32), hidden: int = 128, activations: str = "float32") -> Body:
    """Two convolutions and a dense layer of `hidden` units; hidden=0: the head sits on the convolutions."""
    side = math.isqrt(n_features)
    if activations not in ACTIVATIONS:
        raise OptionError(f"activations must be {' or '.join(ACTIVATIONS)}; got {activations!r}")
    if side * side != n_features or side % 4:
        raise OptionError(f"model 'cnn' needs square images whose side is a multiple of 4; got {n_features} features")
    first, second = (int(c) for c in channels)
    flat = (side // 4) ** 2 * second
    sizes = [(9, first), (9 * first, second), *([(flat, hidden)] if hidden else [])]
    precision = _dense_precision(activations)

    def init(keys: Any) -> Any:
        return [_dense(k, a, b) for k, (a, b) in zip(keys, sizes)]

    def apply(params: Any, rows: Any, walk: Any = None) -> Any:
        images = convolution_layers(rows.reshape(-1, side, side, 1), params[:2], activations)
        inner = images.reshape(images.shape[0], -1)
        for layer in params[2:]:
            inner = jax.nn.relu(_walked_product(inner, layer["weights"], walk, precision) + layer["bias"])
        return leave(inner)

    return Body(init, apply, hidden or flat, len(sizes), precision)


def _walked_product(rows: Any, weights: Any, walk: Any, precision: Any) -> Any:
    if walk is None:
        return jnp.matmul(leave(rows), weights, precision=precision)
    from taskveil.engine import fused_dense

    return fused_dense.walk(rows, weights, walk.target[2]["weights"], walk.eta, walk.pull, precision)


def _dense_precision(activations: str) -> Any:
    """Of products in dense layers: a GPU cuts float32 to 10 bits unless told not to, and three such products make up for it.

    With 16-bit activations the convolutions decide how precise a message is; more in the dense layers changes nothing.
    """
    if activations == "float16":
        return None
    return jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3 if jax.default_backend() == "gpu" else "highest"


def _dense(key: Any, n_in: int, n_out: int) -> dict[str, Any]:
    """Uniform initial weights of variance 1 / (3 n_in), zero bias."""
    bound = 1 / math.sqrt(n_in)
    return {"weights": jax.random.uniform(key, (n_in, n_out), minval=-bound, maxval=bound), "bias": jnp.zeros(n_out)}


def adapt_module(module: Any, n_features: int) -> tuple[Init, Apply]:
    """A Flax linen module (init/apply methods) or an Equinox module (a callable pytree) as an (init, apply) pair.

    Flax: rows (n, n_features) go in as one batch. Equinox: the module maps one row; its own arrays are the initial
    parameters, so they must not come from private data.
    """
    if hasattr(module, "init") and hasattr(module, "apply"):
        example = jnp.zeros((1, n_features), jnp.float32)
        return lambda key: module.init(key, example), lambda params, rows: module.apply(params, rows)
    leaves, structure = jax.tree.flatten(module)
    arrays = [isinstance(leaf, (jax.Array, np.ndarray)) for leaf in leaves]
    if not callable(module) or not any(arrays):
        raise OptionError(
            f"cannot use a {type(module).__name__} as a model: give a name, an (init, apply) pair, a Flax module or a "
            "callable pytree such as an Equinox module"
        )

    def init(key: Any) -> Any:
        return [jnp.asarray(leaf) for leaf, is_array in zip(leaves, arrays) if is_array]

    def apply(params: Any, rows: Any) -> Any:
        weights = iter(params)
        full = [next(weights) if is_array else leaf for leaf, is_array in zip(leaves, arrays)]
        return jax.vmap(jax.tree.unflatten(structure, full))(rows)

    return init, apply
