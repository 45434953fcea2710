"""A block of clients on the engine: what the task sides of the neural methods are made of.

Holds the rows (features applied once, never changed), cuts a cohort into pieces of one fixed shape, runs the compiled
round on each and adds the pieces' sums, which are integers and therefore add exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import chain
from typing import Any

import jax.numpy as jnp
import numpy as np

from taskveil.engine import store
from taskveil.engine.batches import Rows, all_rows, every_so_many, padded_sizes, row_batches, usable_rows
from taskveil.engine.features import FeatureMap
from taskveil.engine.models import Model, build
from taskveil.engine.personalise import Option, Tuner, Tuning, choose
from taskveil.engine.representation import HeadTuner, RepresentationRound, SharedModel, build_shared
from taskveil.engine.rounds import CHUNK_ON_CPU, Cohort, LocalWork, Round, capacity
from taskveil.privacy.bounds import clip_rows
from taskveil.tasks.block import TaskBlock

SCORED_TOGETHER = 32  # rows of a client


def model_of(description: Any, features: FeatureMap | Width, n_outputs: int, kind: str) -> Model:
    """The model behind the feature map; models given by name are built once per process."""
    try:
        return _named_model(_frozen(description), features.n_features, n_outputs, kind)
    except TypeError:
        return build(description, features.n_features, n_outputs, kind)


def shared_model_of(description: Any, features: FeatureMap, n_outputs: int, kind: str) -> SharedModel:
    """The same for a representation below a head of each client's own."""
    try:
        return _named_shared(_frozen(description), features.n_features, n_outputs, kind)
    except TypeError:
        return build_shared(description, features.n_features, n_outputs, kind)


def round_of(model: Model, work: LocalWork, exact_sum: bool) -> Round:
    """The compiled round; shared by all work of one shape, so that a second fit compiles nothing."""
    return _shared_round(model, replace(work, learning_rate=0.0, pull=0.0), exact_sum).with_work(work)


def tuner_of(model: Model, tuning: Tuning) -> Tuner:
    return _shared_tuner(model).with_tuning(tuning)


@lru_cache(maxsize=32)
def _named_model(frozen: Any, n_features: int, n_outputs: int, kind: str) -> Model:
    return build(_thawed(frozen), n_features, n_outputs, kind)


@lru_cache(maxsize=32)
def _named_shared(frozen: Any, n_features: int, n_outputs: int, kind: str) -> SharedModel:
    return build_shared(_thawed(frozen), n_features, n_outputs, kind)


@lru_cache(maxsize=64)
def _shared_round(model: Model, work: LocalWork, exact_sum: bool) -> Round:
    return (RepresentationRound if work.kind == "representation" else Round)(model, work, exact_sum)


@lru_cache(maxsize=64)
def _shared_tuner(model: Model) -> Tuner:
    return Tuner(model, Tuning())


@lru_cache(maxsize=64)
def _head_tuner(model: Model, n_inputs: int, n_public: int) -> HeadTuner:
    return HeadTuner(model, Tuning(batch_size=None), n_inputs, n_public)


def _frozen(description: Any) -> Any:
    if isinstance(description, dict):
        return ("options", *((k, tuple(v) if isinstance(v, list) else v) for k, v in sorted(description.items())))
    return description


def _thawed(frozen: Any) -> Any:
    return dict(frozen[1:]) if isinstance(frozen, tuple) and frozen and frozen[0] == "options" else frozen


@dataclass(frozen=True)
class Piece:
    """Some clients of a cohort, padded to a fixed number, with the rows they will use."""

    clients: np.ndarray
    padded: np.ndarray
    pool: tuple[Any, Any]
    member: Any
    present: Any
    index: Any
    weights: Any


@dataclass(frozen=True, eq=False)
class Width:
    """Stands for a feature map whose values are known already."""

    n_features: int
    values: Any = None

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.values)


class Clients:
    """The clients of one block."""

    def __init__(self, block: TaskBlock, features: FeatureMap | Width, model: Model, seed: int):
        self.block, self.features, self.model, self.seed = block, features, model, seed
        self.rows = usable_rows(block.offsets, block.weights)
        self.X = features(block.X)
        self.y = targets_for(model, block.y)
        self._pool = store.rows_on_device(self.X, self.y)
        self._ready: tuple[int, np.ndarray, Iterator[Piece]] | None = None

    @property
    def n_clients(self) -> int:
        return self.block.n_tasks

    def pieces(
        self, clients: np.ndarray, batch_size: int | None, size: int, most: int | None = None
    ) -> Iterator[tuple[np.ndarray, int]]:
        """At most `size` clients at a time, and the rows each of them brings to a step.

        Without batches these are all its rows (`most`: no more than so many), padded to the next power of two, and clients of
        one width stand together: the shape a client is computed in, hence its last bit, depends on its own size and on public
        numbers, not on the largest.
        """
        if batch_size is not None or clients.size == 0:
            yield from ((part, batch_size or 1) for part in pieces(clients, size))
            return
        widths = np.minimum(padded_sizes(self.rows.sizes[clients]), most or np.inf).astype(int)
        for width in np.unique(widths):
            yield from ((part, int(width)) for part in pieces(clients[widths == width], size))

    def batches(
        self, clients: np.ndarray, work: LocalWork, round_number: int, size: int, width: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers and weights of a piece, padded to `size` clients."""
        padded = np.zeros(size, np.int64)
        padded[: clients.size] = clients
        if work.batch_in_a_step is None:
            steps = work.steps if work.kind == "representation" else 1  # the others walk on the same rows in every step
            index, weights = every_so_many(self.rows, padded, steps, width)
        else:
            index, weights = row_batches(self.rows, padded, work.steps, width, self.seed, round_number)
        return index.astype(np.int32), weights

    def pool(self, index: np.ndarray) -> tuple[tuple[Any, Any], np.ndarray]:
        """Rows on the device and where a piece finds its own: all of them, or only those it uses."""
        if self._pool is not None:
            return self._pool, index
        X, y, among = store.cohort_rows(self.X, self.y, index)
        return (jnp.asarray(X), jnp.asarray(y)), among

    def begin_sum(
        self,
        compiled: Round,
        models: Any,
        started: np.ndarray,
        anchors: np.ndarray,
        member: np.ndarray,
        clients: np.ndarray,
        rate: float | None,
        round_number: int,
        bound: float,
        scale: float = 1.0,
    ) -> tuple[Any, Callable[[], np.ndarray]]:
        """Sends one round over a cohort off: the new client models, and a function that waits for the clipped sum (groups, p).

        Nothing here waits for the device, so the caller's work and its own overlap. The sum is in whole numbers of
        `grid_of(bound)`; that of a run without privacy in float64.
        """
        sums, shown = [], jnp.asarray(anchors, jnp.float32)
        for piece in self._taken(compiled, member, clients, rate, round_number):
            new, summed = compiled(self._cohort(compiled.work, models, started, shown, piece), piece.pool, bound, scale)
            if hasattr(summed, "copy_to_host_async"):
                summed.copy_to_host_async()
            sums.append(summed)
            if compiled.work.start == "own":
                models = store.put(models, piece.clients, new)

        def wait() -> np.ndarray:
            kind: Any = np.int64 if compiled.exact_sum else np.float64
            return np.asarray(reduce(np.add, [np.asarray(s, kind) for s in sums]))

        return models, wait

    def each_message(
        self,
        compiled: Round,
        models: Any,
        started: np.ndarray,
        anchors: np.ndarray,
        member: np.ndarray,
        clients: np.ndarray,
        rate: float | None,
        round_number: int,
        bound: float,
    ) -> tuple[Any, np.ndarray]:
        """The same, but every client's message (clients of the block, p); zero outside the cohort."""
        messages = np.zeros((self.n_clients, self.model.n_shared))
        shown = jnp.asarray(anchors, jnp.float32)
        for piece in self._taken(compiled, member, clients, rate, round_number):
            new, raw = compiled.messages(self._cohort(compiled.work, models, started, shown, piece), piece.pool, bound)
            messages[piece.clients] = np.asarray(raw)[: piece.clients.size]
            if compiled.work.start == "own":
                models = store.put(models, piece.clients, new)
        return models, messages

    def make_ready(self, compiled: Round, member: np.ndarray, clients: np.ndarray, rate: float | None, round_number: int) -> None:
        """Cut the first piece of a later round's cohort and send its rows ahead; the round finds it ready."""
        cut = self._cut(compiled, member, clients, rate, round_number)
        self._ready = round_number, clients, chain([next(cut)], cut)

    def _taken(
        self, compiled: Round, member: np.ndarray, clients: np.ndarray, rate: float | None, round_number: int
    ) -> Iterator[Piece]:
        ready, self._ready = self._ready, None
        if ready is not None and ready[0] == round_number and np.array_equal(ready[1], clients):
            return ready[2]
        return self._cut(compiled, member, clients, rate, round_number)

    def _cut(
        self, compiled: Round, member: np.ndarray, clients: np.ndarray, rate: float | None, round_number: int
    ) -> Iterator[Piece]:
        """The cohort in pieces of one fixed shape: all of a round that does not depend on the billboard."""
        work, size = compiled.work, capacity(self.n_clients, rate, compiled.chunk, compiled.spare)
        for part, width in self.pieces(clients, work.batch_in_a_step, size, work.most_in_a_step):
            index, weights = self.batches(part, work, round_number, size, width)
            pool, index = self.pool(index)
            padded = np.zeros(size, np.int64)
            padded[: part.size] = part
            present = np.zeros(size, np.float32)
            present[: part.size] = self.rows.sizes[part] > 0  # a client that cannot fit sends the zero message
            arrays = (member[padded].astype(np.float32), present, index, weights)
            yield Piece(part, padded, pool, *(jnp.asarray(a) for a in arrays))

    def concatenated(self, changes: np.ndarray, bound: float) -> np.ndarray:
        """Clipped changes, each in its client's own slot of the concatenation of all models, (m, p)."""
        return clip_rows(np.asarray(changes, np.float64), bound)

    def _cohort(self, work: LocalWork, models: Any, started: np.ndarray, anchors: Any, piece: Piece) -> Cohort:
        size = piece.padded.size
        own = store.take(models, piece.clients, size) if work.start == "own" else np.zeros((size, 1), np.float32)
        first = started[piece.padded].astype(np.float32)
        return Cohort(anchors, own, first, piece.member, piece.present, piece.index, piece.weights)

    # ------------------------------------------------------------ after the last release

    def with_heads(self, shared: np.ndarray) -> tuple[Clients, HeadTuner]:
        """The same clients with rows beside their features under a frozen representation, and what solves heads on them."""
        model = self.model
        assert isinstance(model, SharedModel)
        width = (model.n_own // model.n_outputs) - 1  # of rows, features and public scores
        linear = model_of("softmax", Width(width), model.n_outputs, "regression" if model.loss == "squared" else "classification")
        features = np.zeros((self.block.n_rows, width), np.float32)
        size = capacity(self.n_clients, None, CHUNK_ON_CPU)
        for part, rows in self.pieces(np.arange(self.n_clients), None, size):
            index, weights = all_rows(self.rows, np.resize(part, size), rows)
            beside = np.asarray(model.beside(jnp.asarray(shared, jnp.float32), jnp.asarray(self.X[index])))
            inside = weights[: part.size] > 0
            features[index[: part.size][inside]] = beside[: part.size][inside]
        n_public = 0 if model.public is None else model.n_outputs
        return Clients(self.block, Width(width, features), linear, self.seed), _head_tuner(linear, model.n_features, n_public)

    def personalise(
        self,
        tuner: Tuner,
        options: tuple[Option, ...],
        anchors: np.ndarray,
        member: np.ndarray,
        first: np.ndarray,
        folds: int,
        out: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Every client's own choice: its model (m, p), which option, and held-out errors (options, m)."""
        models = np.empty((self.n_clients, self.model.n_parameters), np.float32) if out is None else out
        chosen = np.zeros(self.n_clients, np.int64)
        errors = np.full((len(options), self.n_clients), np.nan)
        alone = [k for k, option in enumerate(options) if option.kind == "alone"]
        size = capacity(self.n_clients, None, tuner.chunk)
        for part, width in self.pieces(np.arange(self.n_clients), tuner.tuning.batch_size, size):
            padded = np.resize(part, size)
            anchor = jnp.asarray(np.einsum("kg,gp->kp", member[padded], anchors), jnp.float32)
            if len(options) > 1:
                if isinstance(tuner, HeadTuner):  # every row judges every head: no margin is needed against few held-out rows
                    judged = tuner.left_out(options, self._whole(), self.rows, padded, width)
                    best, wrong = choose(*judged, alone, caution=0.0, unseen=tuner.unseen)
                else:
                    best, wrong = choose(*self.held_out(tuner, options, anchor, padded, first, folds, width), alone)
                chosen[part], errors[:, part] = best[: part.size], wrong[:, : part.size]
            for k in np.unique(chosen[part]):
                fitted = np.asarray(tuner.fit(options[k], anchor, self._whole(), self.rows, padded, first, self.seed, width))
                models[part[chosen[part] == k]] = fitted[: part.size][chosen[part] == k]
        return models, chosen, errors

    def held_out(
        self,
        tuner: Tuner,
        options: tuple[Option, ...],
        anchor: Any,
        part: np.ndarray,
        first: np.ndarray,
        folds: int,
        width: int | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Losses and errors (options, clients, rows) on rows that a fit did not see, and which of them exist.

        Rows are scored in portions of a fixed number, so that how many rows others have changes no shape.
        """
        fold = self.block.folds(folds, self.seed)
        usable = np.ones(self.block.n_rows, bool) if self.block.weights is None else self.block.weights > 0
        scored, masks = [], []
        for f in range(folds):
            seen = usable_rows(self.block.offsets, (usable & (fold != f)).astype(float))
            held = usable_rows(self.block.offsets, (usable & (fold == f)).astype(float))
            fitted = [tuner.fit(option, anchor, self._whole(), seen, part, first, self.seed, width) for option in options]
            for start in range(0, max(int(held.sizes[part].max(initial=0)), 1), SCORED_TOGETHER):
                portion = [tuner.row_losses(models, self._whole(), held, part, SCORED_TOGETHER, start) for models in fitted]
                scored.append(np.stack([np.asarray(values) for values, _ in portion]))  # (options, clients, 2, rows)
                masks.append(portion[0][1] > 0)
        both = np.concatenate(scored, axis=3)
        return both[:, :, 0], both[:, :, 1], np.concatenate(masks, axis=1).astype(float)

    def _whole(self) -> tuple[Any, Any]:
        return self._pool if self._pool is not None else (self.X, self.y)


def pieces(clients: np.ndarray, size: int) -> list[np.ndarray]:
    """The clients in pieces of at most `size`; an empty cohort is one empty piece, processed like any other."""
    if clients.size == 0:
        return [clients]
    return [clients[i : i + size] for i in range(0, clients.size, size)]


def targets_for(model: Model, y: np.ndarray) -> np.ndarray:
    """What the model's loss expects: class numbers for softmax, else the columns themselves."""
    if model.loss == "softmax":
        return np.argmax(y, axis=1).astype(np.int32)
    return np.asarray(y, dtype=np.float32)


def predict_scores(
    model: Model, features: FeatureMap, tuner: Tuner, params: np.ndarray, X: np.ndarray, task: np.ndarray
) -> np.ndarray:
    """Scores (rows, outputs) of every row under its own client's parameters, a few clients at a time."""
    inputs = features(X)
    scores = np.zeros((inputs.shape[0], model.n_outputs))
    order = np.argsort(task, kind="stable")
    tasks, counts = np.unique(task, return_counts=True)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    grouped = Rows(order, offsets)
    width = int(2 ** np.ceil(np.log2(max(counts.max(initial=1), 1))))
    size = capacity(tasks.size, None, max(1, min(tuner.chunk, 2**20 // width)))
    for part in pieces(np.arange(tasks.size), size):
        if part.size == 0:
            continue
        padded = np.concatenate([part, np.zeros(size - part.size, np.int64)])
        index, weights = all_rows(grouped, padded, width)
        got = np.asarray(tuner.scores(params[tasks[padded]], inputs[index]))
        real = (weights > 0) & (np.arange(size) < part.size)[:, None]
        scores[index[real]] = got[real]
    return scores
