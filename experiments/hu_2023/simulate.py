"""Algorithm 1 and its rivals for softmax regression, many runs at once: the same arithmetic as the library, made for sweeps.

    mean      w_k from its own last value, E steps on l_k + (lambda/2)|w - a|^2, message w_k - a                 (Algorithm 1)
    fedavg    the same from a with lambda = 0;   fedprox  from a with lambda > 0
    pp-sgd    one gradient g of l_k at a + w_k; w_k <- w_k - eta g; a moves against the mean of the g's (Bietti et al. 2022)
    naive-dp  every w_k gets noise of its own (Fig. 1); nothing is averaged

Messages are clipped, summed over the cohort, noised and divided by the cohort. Settings are numbers, not shapes, so a sweep compiles once
per data set. Noise comes from JAX's generator and nothing is charged: this measures accuracy, it protects nobody. That it computes
what the library's `mean`, `fedavg`, `fedprox` and `pp-sgd` compute is tested (tests/unit/experiments/test_pmtl.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from taskveil.engine.personalise import CAUTION

KINDS = ("vanilla", "mean", "symmetrised-kl", "ewc")
STRENGTHS = {"vanilla": 0.0, "mean": 0.003, "symmetrised-kl": 0.3, "ewc": 0.3}
STRETCHES = (1.0, 3.0, 10.0, 30.0)
TUNE_STEPS, TUNE_RATE, FOLDS = 60, 10.0, 3
COLUMNS = ("published", *KINDS, "chosen")


class Rows(NamedTuple):
    """Rows of all tasks, padded: X (K, n, d + 1) with a last column of ones, y (K, n), weight (K, n) summing to one or zero."""

    X: Any
    y: Any
    weight: Any


class Shape(NamedTuple):
    """What runs that are computed together share: rounds T, local steps E, and the tasks of a round (fixed size, or all)."""

    rounds: Any
    steps: Any
    cohort: int


class Knobs(NamedTuple):
    """The other numbers of one run."""

    rate: Any  # eta
    pull: Any  # lambda
    clip: Any  # gamma
    noise: Any  # deviation of the noise on the sum
    server_rate: Any
    own_start: Any  # 1: mean; 0: fedavg, fedprox
    explicit: Any  # 1: the printed step; 0: the pull taken implicitly
    shrink: Any  # 1: scale an update by the estimated share of signal in it (ours)


def padded(X: np.ndarray, y: np.ndarray, task: np.ndarray, n_tasks: int, width: int | None = None) -> Rows:
    """Rows of arrays sorted or not; `width` rows a task, by default as many as the largest has."""
    counts = np.bincount(task, minlength=n_tasks)
    width = int(counts.max()) if width is None else width
    order = np.argsort(task, kind="stable")
    within = np.arange(task.size) - np.repeat(np.cumsum(counts) - counts, counts)
    shown = np.zeros((n_tasks, width, X.shape[1] + 1), np.float32)
    labels, weight = np.zeros((n_tasks, width), np.int32), np.zeros((n_tasks, width), np.float32)
    at = task[order], within
    shown[at] = np.hstack([X[order], np.ones((task.size, 1))])
    labels[at], weight[at] = y[order], 1 / counts[task[order]]
    return Rows(shown, labels, weight)


def gradient(W: Any, rows: Rows) -> Any:
    """Of every task's mean cross-entropy; W (K, d + 1, c)."""
    wrong = jax.nn.softmax(rows.X @ W) - jax.nn.one_hot(rows.y, W.shape[2])
    return jnp.swapaxes(rows.X, 1, 2) @ (rows.weight[..., None] * wrong)


def local_work(begin: Any, anchor: Any, rows: Rows, steps: Any, k: Knobs) -> Any:
    def step(_: Any, W: Any) -> Any:
        g = gradient(W, rows)
        printed = W - k.rate * (g + k.pull * (W - anchor))
        implicit = (W - k.rate * (g - k.pull * anchor)) / (1 + k.rate * k.pull)
        return jnp.where(k.explicit > 0, printed, implicit)

    return jax.lax.fori_loop(0, steps, step, begin)


def clipped(messages: Any, bound: Any) -> Any:
    norms = jnp.sqrt(jnp.sum(messages**2, axis=(1, 2), keepdims=True))
    return messages * jnp.minimum(1.0, bound / jnp.maximum(norms, 1e-30))


def train(
    kind: str, rows: Rows, classes: int, shape: Shape, k: Knobs, key: Any, state: tuple[Any, Any] | None = None, first: Any = 0
) -> tuple[Any, Any]:
    """Personal models (K, d + 1, c) and what is shared (d + 1, c) after round `shape.rounds`, on from `state` after round `first`."""
    n_tasks, _, width = rows.X.shape
    blank = jnp.zeros((width, classes))

    def one_round(t: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        own, anchor = state
        draw, noise = jax.random.split(jax.random.fold_in(key, t))
        asked = (
            jnp.argsort(jax.random.uniform(draw, (n_tasks,)))[: shape.cohort] if shape.cohort < n_tasks else jnp.arange(n_tasks)
        )
        theirs, last = jax.tree.map(lambda a: jnp.asarray(a)[asked], rows), own[asked]
        if kind == "pp-sgd":
            message = gradient(anchor + last, theirs)
            new = last - k.rate * message
        else:
            new = local_work(jnp.where(k.own_start > 0, last, anchor), anchor, theirs, shape.steps, k)
            message = new - anchor
        total = jnp.sum(clipped(message, k.clip), axis=0) + k.noise * jax.random.normal(noise, blank.shape)
        share = jnp.maximum(0.0, 1 - blank.size * k.noise**2 / jnp.maximum(jnp.sum(total**2), 1e-30))
        update = k.server_rate * jnp.where(k.shrink > 0, share, 1.0) * total / shape.cohort
        return own.at[asked].set(new), anchor - update if kind == "pp-sgd" else anchor + update

    def one_noised(t: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        own, anchor = state
        progress = clipped(local_work(own, own, rows, shape.steps, k) - own, k.clip)
        return own + progress + k.noise * jax.random.normal(jax.random.fold_in(key, t), own.shape), anchor

    body = one_noised if kind == "naive-dp" else one_round
    return jax.lax.fori_loop(first, shape.rounds, body, state or (jnp.zeros((n_tasks, width, classes)), blank))


def published(kind: str, own: Any, anchor: Any, k: Knobs) -> Any:
    """The model of every task as the rounds left it."""
    if kind == "pp-sgd":
        return own + anchor
    if kind == "naive-dp":
        return own
    return jnp.where(k.own_start > 0, own, anchor)


def fine_tuned(kind: str, anchor: Any, begin: Any, rows: Rows) -> Any:
    """60 local steps from `begin` (K, d + 1, c) on one of the paper's four objectives around `anchor`."""
    strength, shared = STRENGTHS[kind], rows.X @ anchor
    if kind == "ewc":
        off = jax.nn.softmax(shared) - jax.nn.one_hot(rows.y, anchor.shape[-1])
        pull = strength * jnp.swapaxes(rows.X**2, 1, 2) @ (rows.weight[..., None] * off**2)
    else:
        pull = strength if kind == "mean" else 0.0

    def apart(W: Any) -> Any:
        scores = rows.X @ W
        gap = jnp.sum((jax.nn.softmax(scores) - jax.nn.softmax(shared)) * (scores - shared), axis=-1)
        return 0.5 * strength * jnp.sum(rows.weight * gap)

    def step(_: Any, W: Any) -> Any:
        g = gradient(W, rows)
        if kind == "symmetrised-kl":
            g = g + jax.grad(apart)(W)
        return (W - TUNE_RATE * (g - pull * anchor)) / (1 + TUNE_RATE * pull)

    return jax.lax.fori_loop(0, TUNE_STEPS, step, begin)


def options(anchor: Any, rows: Rows) -> Any:
    """Alone, then the symmetrised KL objective around the shared model stretched by 1, 3, 10, 30: (5, K, d + 1, c)."""
    everyone = (rows.X.shape[0], *anchor.shape)
    zero = jnp.zeros(everyone)
    found = [fine_tuned("vanilla", zero, zero, rows)]
    for stretch in STRETCHES:
        far = jnp.broadcast_to(stretch * anchor, everyone)
        found.append(fine_tuned("symmetrised-kl", far, far, rows))
    return jnp.stack(found)


def choose(anchor: Any, rows: Rows, folds: Any) -> Any:
    """Number of every task's own choice among `options`, by three folds of its rows: the rule of taskveil.engine.personalise.choose."""
    judged = jnp.zeros((1 + len(STRETCHES), *rows.y.shape))
    mass = jnp.maximum(jnp.sum(rows.weight > 0, axis=1), 1.0)
    for fold in range(FOLDS):
        held = (folds == fold) & (rows.weight > 0)
        kept = jnp.where(held, 0.0, rows.weight)
        kept = kept / jnp.maximum(jnp.sum(kept, axis=1, keepdims=True), 1e-30)
        scores = jnp.einsum("knd,okdc->oknc", rows.X, options(anchor, Rows(rows.X, rows.y, kept)))
        losses = -jnp.take_along_axis(jax.nn.log_softmax(scores), rows.y[None, ..., None], axis=-1)[..., 0]
        errors = jnp.argmax(scores, axis=-1) != rows.y
        judged = jnp.where(held, errors + (2 / jnp.maximum(mass, 2.0))[:, None] * losses, judged)
    there = (rows.weight > 0) / mass[:, None]
    difference = judged - judged[0]
    average = jnp.sum(difference * there, axis=-1)
    spread = jnp.sqrt(jnp.maximum(jnp.sum(difference**2 * there, axis=-1) - average**2, 0.0))
    cost = jnp.sum(judged * there, axis=-1) + CAUTION * spread / jnp.sqrt(jnp.maximum(mass - 1, 1.0))
    return jnp.argmin(cost, axis=0)


def accuracy(W: Any, rows: Rows) -> Any:
    """Over all rows of all tasks."""
    there = rows.weight > 0
    return jnp.sum(there & (jnp.argmax(rows.X @ W, axis=-1) == rows.y)) / jnp.sum(there)


def loss(W: Any, rows: Rows) -> Any:
    """Mean over tasks of their mean cross-entropy."""
    chosen = jnp.take_along_axis(jax.nn.log_softmax(rows.X @ W), rows.y[..., None], axis=-1)[..., 0]
    return -jnp.mean(jnp.sum(rows.weight * chosen, axis=1))


def columns(kind: str, own: Any, anchor: Any, rows: Rows, test: Rows, folds: Any, k: Knobs) -> Any:
    """Test accuracy of each of COLUMNS, in that order. A personal method is fine-tuned from its own models, a shared one from the shared."""
    model = published(kind, own, anchor, k)
    model = jnp.broadcast_to(model, (rows.X.shape[0], *anchor.shape))
    around = jnp.broadcast_to(anchor, model.shape)
    found = [accuracy(model, test), *(accuracy(fine_tuned(how, around, model, rows), test) for how in KINDS)]
    best = choose(anchor, rows, folds)
    taken = jnp.take_along_axis(options(anchor, rows), best[None, :, None, None], axis=0)[0]
    return jnp.stack([*found, accuracy(taken, test)])


@partial(jax.jit, static_argnames=("kind", "classes", "cohort", "all_columns"))
def scores(
    kind: str, splits: tuple[Rows, Rows, Any], which: Any, classes: int, cohort: int, rounds: Any, steps: Any, k: Knobs, keys: Any,
    all_columns: bool = True,
) -> Any:  # fmt: skip
    """(runs, columns) accuracies; `splits` are stacked (training rows, rows to judge on, folds), `which` says each run's split.

    Without `all_columns` only the published model is judged.
    """

    def run(which: Any, k: Knobs, key: Any) -> Any:
        rows, test, folds = jax.tree.map(lambda a: jnp.asarray(a)[which], splits)
        own, anchor = train(kind, rows, classes, Shape(rounds, steps, cohort), k, key)
        if all_columns:
            return columns(kind, own, anchor, rows, test, folds, k)
        return accuracy(jnp.broadcast_to(published(kind, own, anchor, k), own.shape), test)[None]

    return jax.vmap(run)(which, k, keys)


@partial(jax.jit, static_argnames=("cohort",))
def onward(rows: Rows, judged: Rows, state: Any, first: Any, last: tuple[Any, Any], cohort: int, k: Knobs, key: Any) -> Any:
    """From round `first` to `last` (rounds, local steps): the state, accuracy on judged rows, training loss. Compiled once for a shape."""
    own, anchor = train("steps", rows, state[1].shape[1], Shape(*last, cohort), k, key, state, first)
    return (own, anchor), accuracy(own, judged), loss(own, rows)
