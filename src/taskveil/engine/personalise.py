"""After the last release: every client fits itself to what is public and to its own rows, and chooses for itself.

Nothing here is sent, so none of it costs privacy (docs/theory/index.md#local-work). Objectives, anchored at the billboard a
(docs/theory/mean-regularised.md#fine-tuning; Yu, Bagdasaryan, Shmatikov 2020; Kirkpatrick et al. 2017 for ewc):

    shared           a itself
    alone            l(w) from the data-independent start, as if the billboard did not exist
    vanilla          l(w), from a
    mean             l(w) + (strength/2) |w - a|^2, from a
    symmetrised-kl   l(w) + (strength/2) (KL(p_w || p_a) + KL(p_a || p_w)), from a
    ewc              l(w) + (strength/2) sum_j F_jj (w_j - a_j)^2, F the client's mean squared gradient at a

For exponential families the symmetrised divergence is (mean difference) x (score difference), which is what is coded: for
classes sum_c (p_c - q_c)(s_c - t_c), for two classes (p - q)(s - t), for squared loss (s - t)^2.

A noisy mean of clipped messages points in a useful direction but is short. For linear models a client may therefore stretch the
anchor first (`scale`), which only changes how sure the shared model is of itself.

The choice is made on held-out rows of the client (folds); an option that uses the billboard must beat "alone" by a
quarter of a standard error, so that clients with few rows stay alone when in doubt. Where a public head knows classes that a
client has not met, none of its rows can say so: "alone" is then judged on one row more, of such a class, and errs (`unseen`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from taskveil.engine.batches import Rows, all_rows, row_batches
from taskveil.engine.models import Model
from taskveil.engine.rounds import CHUNK_ON_ACCELERATOR, CHUNK_ON_CPU, each_client
from taskveil.errors import OptionError

KINDS = ("shared", "alone", "vanilla", "mean", "symmetrised-kl", "ewc")
CAUTION = 0.25
AFTER_TRAINING = 2**20  # stands for the round number in the order of rows


@dataclass(frozen=True)
class Option:
    """One way to personalise; `strength` weighs the anchor, `scale` multiplies it first."""

    kind: str
    strength: float = 1.0
    scale: float = 1.0

    @property
    def name(self) -> str:
        words = self.kind if self.kind in ("shared", "alone", "vanilla") else f"{self.kind} {self.strength:g}"
        return words if self.scale == 1 else f"{words} x{self.scale:g}"


def parse_options(options: Any, strength: float, kinds: tuple[str, ...] = KINDS) -> tuple[Option, ...]:
    """Names, (name, strength) or (name, strength, scale) as options."""
    parsed = []
    for option in options:
        kind, *numbers = (option,) if isinstance(option, str) else option
        if kind not in kinds or len(numbers) > 2:
            raise OptionError(f"unknown way to personalise {option!r}: expected one of {', '.join(kinds)}")
        parsed.append(Option(str(kind), *(float(n) for n in numbers or [strength])))
    return tuple(parsed)


@dataclass(frozen=True)
class Tuning:
    """Local SGD after the last release."""

    steps: int = 100
    batch_size: int | None = 16
    learning_rate: float = 0.1
    decay: float = 0.0  # ridge toward zero, for "alone" and all others alike
    alone_steps: int | None = None  # None: as many as the others


class Tuner:
    """Compiled fine-tuning and scoring of one model."""

    def __init__(self, model: Model, tuning: Tuning, accelerator: bool | None = None):
        self.model, self.tuning = model, tuning
        self.accelerator = jax.default_backend() != "cpu" if accelerator is None else accelerator
        self._tuned = jax.jit(self._tune, static_argnums=(0,))
        self._losses = jax.jit(self._score)
        self._applied = jax.jit(self._apply)

    @property
    def chunk(self) -> int:
        return CHUNK_ON_ACCELERATOR if self.accelerator else CHUNK_ON_CPU

    def with_tuning(self, tuning: Tuning) -> Tuner:
        """The same compiled functions with other numbers of steps and step sizes."""
        twin = copy.copy(self)
        twin.tuning = tuning
        return twin

    def fit(
        self, option: Option, anchor: Any, pool: tuple[Any, Any], rows: Rows, tasks: np.ndarray, first: np.ndarray, seed: int,
        width: int | None = None,
    ) -> Any:  # fmt: skip
        """Models (k, p) of some clients under one option; `anchor` (k, p), `first` (p,) the data-independent start.

        A step takes `width` rows; None: a batch, or all rows of the largest of these clients.
        """
        anchor = jnp.asarray(anchor) if option.scale == 1 else option.scale * jnp.asarray(anchor)
        if option.kind == "shared":
            return anchor
        kind, start, steps = option.kind, anchor, self.tuning.steps
        if kind == "alone":
            kind, start = "vanilla", jnp.broadcast_to(first, anchor.shape)
            steps = self.tuning.alone_steps or steps
        width = width or self.tuning.batch_size or int(max(rows.sizes[tasks].max(initial=1), 1))
        index, weights = row_batches(rows, tasks, steps, width, seed, AFTER_TRAINING)
        some = (rows.sizes[tasks] > 0).astype(np.float32)  # a client without rows keeps its start
        knobs = np.asarray([self.tuning.learning_rate, option.strength, self.tuning.decay], np.float32)
        return self._tuned(kind, anchor, start, index.astype(np.int32), weights, some, *pool, knobs)

    def row_losses(
        self, models: Any, pool: tuple[Any, Any], rows: Rows, tasks: np.ndarray, width: int, first: int = 0
    ) -> tuple[Any, Any]:
        """Loss and whether it was wrong, for `width` rows (k, width) from `first` on, and the weights of those that exist."""
        index, weights = all_rows(rows, tasks, width, first)
        return self._losses(models, *pool, index.astype(np.int32)), weights

    def scores(self, models: Any, X: Any) -> Any:
        """Scores (k, n, outputs) of rows X (k, n, d) under each client's own model."""
        return self._applied(models, X)

    def _apply(self, models: Any, X: Any) -> Any:
        return each_client(lambda w, x: self.model.apply(self.model.unravel(w), x), (models, X), self.accelerator)

    def _score(self, models: Any, X: Any, y: Any, index: Any) -> Any:
        def client(w: Any, i: Any) -> Any:
            scores = self.model.apply(self.model.unravel(w), X[i])
            return jnp.stack([self._row_loss(scores, y[i]), self._row_error(scores, y[i])])

        return each_client(client, (models, index), self.accelerator)

    def _row_loss(self, scores: Any, y: Any) -> Any:
        from taskveil.engine.models import losses_of

        return losses_of(self.model.loss, scores, y)

    def _row_error(self, scores: Any, y: Any) -> Any:
        if self.model.loss == "softmax":
            return (jnp.argmax(scores, axis=1) != y).astype(jnp.float32)
        if self.model.loss == "logistic":
            wrong = jnp.argmax(scores, axis=1) != jnp.argmax(y, axis=1) if y.shape[1] > 1 else (scores * y)[:, 0] <= 0
            return wrong.astype(jnp.float32)
        return jnp.sum((scores - y) ** 2, axis=1)

    def _tune(self, kind: str, anchor: Any, start: Any, index: Any, weights: Any, some: Any, X: Any, y: Any, knobs: Any) -> Any:
        def client(a: Any, s: Any, i: Any, w: Any, there: Any) -> Any:
            target, params = self.model.unravel(a), self.model.unravel(s)
            pull = self._pull(kind, target, X, y, i, w, knobs)

            def one(params: Any, batch: tuple[Any, Any]) -> tuple[Any, None]:
                rows, weight = batch
                return self._step(kind, params, target, pull, X[rows], y[rows], weight, knobs), None

            params, _ = jax.lax.scan(one, params, (i, w))
            return jnp.where(there > 0, ravel_pytree(params)[0], s)

        return each_client(client, (anchor, start, index, weights, some), self.accelerator)

    def _pull(self, kind: str, target: Any, X: Any, y: Any, index: Any, weights: Any, knobs: Any) -> Any:
        """Weight of |w - a|^2 per parameter: constant for mean, the Fisher diagonal for ewc, else zero."""
        if kind != "ewc":
            return jax.tree.map(lambda a: knobs[1] if kind == "mean" else jnp.float32(0.0), target)

        def row_gradient(row: Any, label: Any) -> Any:
            return jax.grad(lambda p: self.model.row_losses(p, row[None], label[None])[0])(target)

        def add(total: Any, batch: tuple[Any, Any]) -> tuple[Any, None]:
            rows, weight = batch
            gradients = jax.vmap(row_gradient)(X[rows], y[rows])
            square = jax.tree.map(lambda g: jnp.tensordot(weight, g * g, axes=1), gradients)
            return jax.tree.map(jnp.add, total, square), None

        few = min(8, index.shape[0])
        zero = jax.tree.map(jnp.zeros_like, target)
        fisher, _ = jax.lax.scan(add, zero, (index[:few], weights[:few]))
        return jax.tree.map(lambda f: knobs[1] * f / few, fisher)

    def _step(self, kind: str, params: Any, target: Any, pull: Any, rows: Any, labels: Any, weight: Any, knobs: Any) -> Any:
        def objective(p: Any) -> Any:
            scores = self.model.apply(p, rows)
            value = jnp.sum(weight * self._row_loss(scores, labels))
            if kind != "symmetrised-kl":
                return value
            shared = self.model.apply(target, rows)
            return value + 0.5 * knobs[1] * jnp.sum(weight * self._divergence(scores, shared))

        gradient, eta, decay = jax.grad(objective)(params), knobs[0], knobs[2]
        return jax.tree.map(lambda w, g, a, c: (w - eta * (g - c * a)) / (1 + eta * (c + decay)), params, gradient, target, pull)

    def _divergence(self, scores: Any, shared: Any) -> Any:
        """Symmetrised KL divergence of every row's predictions."""
        if self.model.loss == "softmax":
            p, q = jax.nn.softmax(scores), jax.nn.softmax(shared)
        elif self.model.loss == "logistic":
            p, q = jax.nn.sigmoid(scores), jax.nn.sigmoid(shared)
        else:
            p, q = scores, shared
        return jnp.sum((p - q) * (scores - shared), axis=1)


def choose(
    losses: np.ndarray,
    errors: np.ndarray,
    weights: np.ndarray,
    alone: int | Sequence[int] | None,
    caution: float = CAUTION,
    unseen: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Best option of every client and its mean held-out errors.

    `losses`, `errors` (options, k, rows) on held-out rows, `weights` (k, rows) zero for padding. An option is judged by its
    mean error and by its mean loss, which weighs as much as two rows' errors (it decides where errors are few and nearly
    tied); options other than those numbered `alone` must beat the best of these, if there are any, by `caution` standard
    errors. Those numbered `alone` err on `unseen` rows more (Laplace's rule of succession: one).
    """
    mass = np.maximum(weights.sum(axis=1), 1e-12)
    judged = errors + (2 / np.maximum(mass, 2.0))[:, None] * losses
    mean = _over_rows(judged * weights) / mass
    own = np.atleast_1d([] if alone is None else alone).astype(int)
    if own.size:
        mean[own] += unseen / mass
        best_alone = own[np.argmin(mean[own], axis=0)]
        difference = judged - judged[best_alone, np.arange(judged.shape[1])]
        average = _over_rows(difference * weights) / mass
        spread = np.sqrt(np.maximum(_over_rows(difference**2 * weights) / mass - average**2, 0))
        rows = np.maximum((weights > 0).sum(axis=1) - 1, 1)
        margin = caution * spread / np.sqrt(rows)
        margin[own] = 0.0
        mean = mean + margin
    best = np.argmin(mean, axis=0)
    return best, _over_rows(errors * weights) / mass


def _over_rows(values: np.ndarray) -> np.ndarray:
    """Sum over the last axis from first to last: zeros of padding change no bit, however many there are."""
    return np.asarray(np.add.accumulate(values, axis=-1)[..., -1])
