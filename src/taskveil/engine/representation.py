"""A representation for all below a head of each client's own (Collins et al. 2021; Shen et al. 2023).

    scores = x D + phi(x) H + b        own: D, H, b (first in the flat vector, they never leave);  shared: the parameters of phi
             + S (phi(x)/|phi(x)| P + c)   with `public_head`: shared too are P and c, and own heads are solved on what they leave
                                           over; S is 1, or 0 for a client that stays alone
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

HEAD_UNIT = 5.0  # length of a public head on features of length one that tells classes apart
FOR_CLASSES = 0.01  # scores of classes are about ten times as long as targets coded 0 and 1: a smaller ridge corresponds


@dataclass(frozen=True, eq=False)
class SharedModel(Model):
    """A model whose last parameters are a representation; `features` maps these and rows to what the head sees.

    `public` maps them to the scores of the public head; None: heads are drawn toward zero.
    """

    features: Apply = field(kw_only=True)
    public: Apply | None = field(kw_only=True, default=None)
    unravel_shared: Callable[[Any], Any] = field(kw_only=True, repr=False)

    @cached_property
    def beside(self) -> Any:
        """Compiled: rows (k, n, d) of k clients beside their features, then public scores if there are any."""

        def client(rows: Any, shared: Any) -> Any:
            params = self.unravel_shared(shared)
            scores = [] if self.public is None else [self.public(params, rows)]
            return jnp.concatenate([rows, self.features(params, rows), *scores], axis=1)

        accelerator = jax.default_backend() != "cpu"
        return jax.jit(lambda shared, rows: each_client(lambda r: client(r, shared), (rows,), accelerator))


def build_shared(description: Any, n_features: int, n_outputs: int, kind: str) -> SharedModel:
    """The model of a representation given by name, {"name": ..., options}, an (init, apply) pair to features, or a module."""
    with_head = isinstance(description, dict) and bool(description.get("public_head"))
    if isinstance(description, dict):
        description = {k: v for k, v in description.items() if k != "public_head"}
    below_init, below = _representation(description, n_features)
    blank = _blank(below_init)
    out = jax.eval_shape(below, blank, jax.ShapeDtypeStruct((3, n_features), jnp.float32))
    if len(out.shape) != 2 or out.shape[0] != 3:
        raise OptionError(f"a representation must map rows (n, {n_features}) to features (n, width); 3 rows gave {out.shape}")
    public: Apply | None = None
    if with_head:
        below_init, below, public = _with_public_head(below_init, below, out.shape[1], n_outputs)
        blank = _blank(below_init)

    def init(key: Any) -> Any:
        own: dict[str, tuple[int, ...]] = {"bias": (n_outputs,), "inputs": (n_features, n_outputs)}
        own["weights"] = (out.shape[1], n_outputs)
        if public is not None:
            own["weights_public"] = (n_outputs, n_outputs)  # 1, or 0 for a task that stays alone
        return {"own": {name: jnp.zeros(shape) for name, shape in own.items()}, "shared": below_init(key)}

    def apply(params: Any, rows: Any) -> Any:
        own, shared = params["own"], params["shared"]
        scores = _exactly(rows, own["inputs"]) + _exactly(below(shared, rows), own["weights"]) + own["bias"]
        return scores if public is None else scores + _exactly(public(shared, rows), own["weights_public"])

    flat, unravel = ravel_pytree(init(jax.random.key(0)))
    lower, unravel_shared = ravel_pytree(blank)
    if lower.size == 0:
        raise OptionError("this representation has no parameters, so nothing would be shared: add 'public_head': True")
    loss = "squared" if kind == "regression" else "logistic" if n_outputs == 1 else "softmax"
    return SharedModel(
        "shared", init, apply, loss, n_features, n_outputs, unravel, flat.size, flat.size - lower.size,
        features=below, public=public, unravel_shared=unravel_shared,
    )  # fmt: skip


def _blank(init: Init) -> Any:
    return jax.tree.map(lambda s: jnp.zeros(s.shape, jnp.float32), jax.eval_shape(init, jax.random.key(0)))


def _exactly(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision="highest")


def _with_public_head(below_init: Init, below: Apply, width: int, n_outputs: int) -> tuple[Init, Apply, Apply]:
    """A linear head for everybody beside the representation: it begins at zero and is moved with it, in comparable units."""
    unit = HEAD_UNIT / (length(below_init(jax.random.key(0))) or 1.0)

    def init(key: Any) -> Any:
        return {"below": below_init(key), "head": {"bias": jnp.zeros(n_outputs), "weights": jnp.zeros((width, n_outputs))}}

    def features(params: Any, rows: Any) -> Any:
        return below(params["below"], rows)

    def public(params: Any, rows: Any) -> Any:
        inner, head = features(params, rows), params["head"]
        inner = inner / jnp.sqrt(jnp.sum(inner**2, axis=1, keepdims=True) + SMALL)
        return unit * (_exactly(inner, head["weights"]) + head["bias"])

    return init, features, public


def length(params: Any) -> float:
    return math.sqrt(sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(params)))


def _representation(description: Any, n_features: int) -> tuple[Init, Apply]:
    options = dict(description) if isinstance(description, dict) else {"name": description}
    name = options.pop("name", None)
    try:
        if name == "rows":
            return _rows_themselves(**options)
        if name in ("linear", "softmax"):
            return _directions(n_features, **options)
        if name in ("mlp", "cnn"):
            body = (mlp_body if name == "mlp" else cnn_body)(n_features, **options)
            return lambda key: body.init(jax.random.split(key, body.layers)), body.apply
    except TypeError as error:
        raise OptionError(f"representation {name!r} does not have the options {sorted(options)}") from error
    if isinstance(name, str):
        raise OptionError(f"unknown representation {name!r}: expected linear, mlp, cnn, rows, an (init, apply) pair or a module")
    if isinstance(description, tuple) and len(description) == 2:
        return description
    return adapt_module(description, n_features)


def _rows_themselves() -> tuple[Init, Apply]:
    """Nothing to learn below the heads: of use where a public one is learned."""
    return lambda key: (), lambda params, rows: rows


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
        model = self.model

        def error(shared: Any, rows: Any, targets: Any, weight: Any) -> Any:
            goals = _goals(model, targets)
            left = goals if model.public is None else goals - model.public(shared, rows)
            return left_out_error(model.features(shared, rows), left, weight, knobs[1])

        def one(shared: Any, batch: tuple[Any, Any]) -> tuple[Any, None]:
            at, weight = batch
            gradient = jax.grad(error)(shared, X[at], y[at], weight)
            return jax.tree.map(lambda w, g: w - knobs[0] * g, shared, gradient), None

        unroll = self.accelerator and self.work.steps <= MOST_UNROLLED
        end, _ = jax.lax.scan(one, model.unravel_shared(anchor), (index, weights), unroll=unroll)
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
    The last `n_public` columns are public scores: whoever does not stay alone starts from them, and squared loss solves the rest.
    """

    def __init__(self, model: Model, tuning: Tuning, n_inputs: int, n_public: int = 0):
        super().__init__(model, tuning)
        self.n_inputs, self.n_public = n_inputs, n_public
        self.unseen = 1.0 if n_public and model.loss == "softmax" else 0.0  # rows of classes that only the public head knows
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
            left = left_out_residuals(self._groups(X[i], counted), goals - self._public(X[i], counted), weight, counted[2])
            return jnp.stack([jnp.sum(left**2, axis=1), self._row_error(goals - left, y[i])])

        return each_client(client, (index, weights), self.accelerator)

    def _groups(self, rows: Any, counted: Any) -> tuple[Any, Any]:
        return counted[0] * rows[:, : self.n_inputs], counted[1] * rows[:, self.n_inputs : rows.shape[1] - self.n_public]

    def _public(self, rows: Any, counted: Any) -> Any:
        return counted[1] * rows[:, rows.shape[1] - self.n_public :] if self.n_public else 0.0

    def _solve(self, index: Any, weights: Any, X: Any, y: Any, counted: Any) -> Any:
        def client(i: Any, weight: Any) -> Any:
            groups, targets, loss = self._groups(X[i], counted), y[i], self.model.loss
            if self.n_public:
                targets, loss = _goals(self.model, targets) - self._public(X[i], counted), "squared"
            ridge = counted[2] * (1.0 if loss == "squared" else FOR_CLASSES)
            inputs, inner, bias = solve_head(groups, targets, weight, ridge, loss, self.model.n_outputs)
            public = counted[1] * jnp.eye(self.n_public, self.model.n_outputs)
            return ravel_pytree({"bias": bias, "weights": jnp.concatenate([inputs, inner, public])})[0]

        return each_client(client, (index, weights), self.accelerator)
