"""A representation for all below a head of each client's own (Collins et al. 2021; Shen et al. 2023).

    scores = x D + phi(x) H + b        own: D, H, b (first in the flat vector, they never leave);  shared: the parameters of phi
    a round  client k walks E steps on phi down the error that solved heads make on rows they did not see (heads.left_out_error);
             the message is the direction of the change of phi, and nothing else
    finish   D, H, b are solved on all rows: on the representation (D = 0), on the rows themselves (H = 0, "alone"), or on both

Why the head is not held fixed: docs/theory/shared-representation.md#rounds. The linear representation is a matrix with
orthonormal columns, the alternating form of low-rank regression, W = B h.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from taskveil.engine.batches import Rows, all_rows
from taskveil.engine.heads import SMALL, left_out_error, left_out_residuals, solve_head
from taskveil.engine.models import Apply, Init, Model, adapt_module, cnn_body, mlp_body
from taskveil.engine.personalise import Option, Tuner, Tuning
from taskveil.engine.rounds import MOST_UNROLLED, Round, each_client
from taskveil.errors import OptionError

FOR_CLASSES = 0.01  # scores of classes are about ten times as long as targets coded 0 and 1: a smaller ridge corresponds


@dataclass(frozen=True, eq=False)
class SharedModel(Model):
    """A model whose last parameters are a representation; `features` maps these and rows to what the head sees."""

    features: Apply = field(kw_only=True)
    unravel_shared: Callable[[Any], Any] = field(kw_only=True, repr=False)

    @cached_property
    def beside(self) -> Any:
        """Compiled: rows (k, n, d) of k clients beside their features, (k, n, d + width)."""

        def client(rows: Any, shared: Any) -> Any:
            return jnp.concatenate([rows, self.features(self.unravel_shared(shared), rows)], axis=1)

        accelerator = jax.default_backend() != "cpu"
        return jax.jit(lambda shared, rows: each_client(lambda r: client(r, shared), (rows,), accelerator))


def build_shared(description: Any, n_features: int, n_outputs: int, kind: str) -> SharedModel:
    """The model of a representation given by name, {"name": ..., options}, an (init, apply) pair to features, or a module."""
    below_init, below = _representation(description, n_features)
    shapes = jax.eval_shape(below_init, jax.random.key(0))
    blank = jax.tree.map(lambda s: jnp.zeros(s.shape, jnp.float32), shapes)
    out = jax.eval_shape(below, blank, jax.ShapeDtypeStruct((3, n_features), jnp.float32))
    if len(out.shape) != 2 or out.shape[0] != 3:
        raise OptionError(f"a representation must map rows (n, {n_features}) to features (n, width); 3 rows gave {out.shape}")

    def init(key: Any) -> Any:
        own = {"bias": (n_outputs,), "inputs": (n_features, n_outputs), "weights": (out.shape[1], n_outputs)}
        return {"own": {name: jnp.zeros(shape) for name, shape in own.items()}, "shared": below_init(key)}

    def apply(params: Any, rows: Any) -> Any:
        own = params["own"]
        direct = jnp.matmul(rows, own["inputs"], precision="highest")
        return direct + jnp.matmul(below(params["shared"], rows), own["weights"], precision="highest") + own["bias"]

    flat, unravel = ravel_pytree(init(jax.random.key(0)))
    lower, unravel_shared = ravel_pytree(blank)
    loss = "squared" if kind == "regression" else "logistic" if n_outputs == 1 else "softmax"
    return SharedModel(
        "shared", init, apply, loss, n_features, n_outputs, unravel, flat.size, flat.size - lower.size,
        features=below, unravel_shared=unravel_shared,
    )  # fmt: skip


def _representation(description: Any, n_features: int) -> tuple[Init, Apply]:
    options = dict(description) if isinstance(description, dict) else {"name": description}
    name = options.pop("name", None)
    try:
        if name in ("linear", "softmax"):
            return _directions(n_features, **options)
        if name in ("mlp", "cnn"):
            body = (mlp_body if name == "mlp" else cnn_body)(n_features, **options)
            return lambda key: body.init(jax.random.split(key, body.layers)), body.apply
    except TypeError as error:
        raise OptionError(f"representation {name!r} does not have the options {sorted(options)}") from error
    if isinstance(name, str):
        raise OptionError(f"unknown representation {name!r}: expected linear, mlp, cnn, an (init, apply) pair or a module")
    if isinstance(description, tuple) and len(description) == 2:
        return description
    return adapt_module(description, n_features)


def _directions(n_features: int, width: int | None = None) -> tuple[Init, Apply]:
    """A matrix (d, width) with orthonormal columns; by default about sqrt(d) of them."""
    width = min(n_features, math.ceil(math.sqrt(n_features)) if width is None else int(width))

    def init(key: Any) -> Any:
        return jnp.linalg.qr(jax.random.normal(key, (n_features, width)))[0]

    return init, lambda B, rows: jnp.matmul(rows, B, precision="highest")


class RepresentationRound(Round):
    """The round of a `SharedModel`: heads are solved, the representation walks, its change is the message."""

    model: SharedModel

    def _client(self, anchor: Any, begin: Any, index: Any, weights: Any, X: Any, y: Any, knobs: Any) -> tuple[Any, Any]:
        model, rows, weight = self.model, X[index[0]], weights[0]
        goals = _goals(model, y[index[0]])
        turns = max(1, weight.size // (self.work.batch_size or weight.size))
        first = jnp.arange(self.work.steps)[:, None] % turns  # a step takes every so-manieth row, so that padding is shared out
        places = first + turns * jnp.arange(weight.size // turns)[None, :]

        def error(shared: Any, at: Any) -> Any:
            part = weight[at] / jnp.maximum(jnp.sum(weight[at]), SMALL)
            return left_out_error(model.features(shared, rows[at]), goals[at], part, knobs[1])

        def one(shared: Any, at: Any) -> tuple[Any, None]:
            gradient = jax.grad(error)(shared, at)
            return jax.tree.map(lambda w, g: w - knobs[0] * g, shared, gradient), None

        unroll = self.accelerator and self.work.steps <= MOST_UNROLLED
        end, _ = jax.lax.scan(one, model.unravel_shared(anchor), places, unroll=unroll)
        change = ravel_pytree(end)[0] - anchor
        length = jnp.linalg.norm(change)
        return anchor, jnp.where(length > 0, change * (knobs[3] / length), 0.0)


def _goals(model: Model, targets: Any) -> Any:
    """Targets as columns of numbers, (n, outputs)."""
    return jax.nn.one_hot(targets, model.n_outputs) if model.loss == "softmax" else targets


def _counted(option: Option) -> np.ndarray:
    """Whether the row and its features count, and the ridge."""
    return np.asarray([option.kind != "shared", option.kind != "alone", option.strength], np.float32)


class HeadTuner(Tuner):
    """Heads solved after the last release, on rows that stand beside their features: the first `n_inputs` columns are the row.

    The option says which columns count, its strength is the ridge. The others are zeroed, so that nothing is compiled again.
    """

    def __init__(self, model: Model, tuning: Tuning, n_inputs: int):
        super().__init__(model, tuning)
        self.n_inputs = n_inputs
        self._solved, self._left_out = jax.jit(self._solve), jax.jit(self._leave_out)

    def fit(
        self, option: Option, anchor: Any, pool: tuple[Any, Any], rows: Rows, tasks: np.ndarray, first: np.ndarray, seed: int,
        width: int | None = None,
    ) -> Any:  # fmt: skip
        index, weights = all_rows(rows, tasks, width or int(max(rows.sizes[tasks].max(initial=1), 1)))
        return self._solved(index.astype(np.int32), weights, *pool, _counted(option))

    def left_out(
        self, options: tuple[Option, ...], pool: tuple[Any, Any], rows: Rows, tasks: np.ndarray, width: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Losses and errors (options, clients, rows) of heads that did not see the row, and which rows exist: no refits.

        Classes are judged by the head for squared loss, whose left-out residuals have a closed form.
        """
        index, weights = all_rows(rows, tasks, width)
        both = np.stack([self._left_out(index.astype(np.int32), weights, *pool, _counted(option)) for option in options])
        return both[:, :, 0], both[:, :, 1], (weights > 0).astype(float)

    def _leave_out(self, index: Any, weights: Any, X: Any, y: Any, counted: Any) -> Any:
        def client(i: Any, weight: Any) -> Any:
            goals = _goals(self.model, y[i])
            left = left_out_residuals(self._groups(X[i], counted), goals, weight, counted[2])
            return jnp.stack([jnp.sum(left**2, axis=1), self._row_error(goals - left, y[i])])

        return each_client(client, (index, weights), self.accelerator)

    def _groups(self, rows: Any, counted: Any) -> tuple[Any, Any]:
        return counted[0] * rows[:, : self.n_inputs], counted[1] * rows[:, self.n_inputs :]

    def _solve(self, index: Any, weights: Any, X: Any, y: Any, counted: Any) -> Any:
        def client(i: Any, weight: Any) -> Any:
            groups = self._groups(X[i], counted)
            ridge = counted[2] * (1.0 if self.model.loss == "squared" else FOR_CLASSES)
            inputs, inner, bias = solve_head(groups, y[i], weight, ridge, self.model.loss, self.model.n_outputs)
            return ravel_pytree({"bias": bias, "weights": jnp.concatenate([inputs, inner])})[0]

        return each_client(client, (index, weights), self.accelerator)
