"""One round, jitted as a whole: gather rows, E local steps per client, clip, sum over the cohort.

    client k   w <- start;  E times:  w <- (w - eta (grad l_k(w) - lambda a_k)) / (1 + eta lambda)
               message g_k = w - a_k, clipped to the bound by privacy.bounds.clip_rows
    output     every client's new w, and sum_k clip(g_k)

Hu, Wu, Smith 2023 (PMTL), Algorithm 1, lines 4-8 and 11-14. Their step w - eta (grad l_k + lambda (w - a)) diverges for
eta lambda > 2; ours takes the pull implicitly, has the same fixed points and is stable for every lambda. `explicit` is
the paper's step. a_k is what the client sees on the billboard: the mean, or its mixture of the public groups' means.

The round *ends at the clipped sum*. It draws no noise and charges nothing. Clients that only pad the cohort to its fixed
size have `present` 0 and contribute exactly zero. The sum is made on integers (privacy.exact_sum), so it is exact and
does not depend on the order, on the pieces or on the device.

The compiled shape depends on the cohort's capacity, the local steps and the batch size, never on how many rows a client
holds, on who was drawn or on step sizes and bounds, so nothing is compiled again between rounds (`traces` counts).
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from taskveil.engine.models import Model
from taskveil.engine.walk import Walk
from taskveil.privacy.bounds import clip_rows
from taskveil.privacy.partial_sums import grid_of, sum_on_grid

CHUNK_ON_ACCELERATOR = 1024
CHUNK_ON_CPU = 64
OF_ONE_WIDTH_ON_ACCELERATOR = 128  # clients of a piece where each brings all its rows: every width fills up its own last piece
OF_ONE_WIDTH_ON_CPU = 8
MOST_UNROLLED = 8  # local steps written out on an accelerator, where a loop copies the models once more
SPARE_ON_ACCELERATOR = 2  # standard deviations of a cohort's size that its arrays leave room for; one round in 40 takes two
SPARE_ON_CPU = 6
IN_CACHE = 2**20  # numbers of all messages of a piece; fewer are clipped and added up all at once, with fewer calls
AT_ONCE_ON_CPU = 2  # clients whose local steps run together on a CPU: the activations of more do not stay in its cache


@dataclass(frozen=True)
class LocalWork:
    """What a client does between releases."""

    steps: int = 5
    batch_size: int | None = 16  # None: all rows in every step
    learning_rate: float = 0.1
    pull: float = 0.0  # lambda, toward the billboard
    start: str = "own"  # "own": from its last model; "shared": from the billboard, nothing is remembered
    kind: str = "steps"  # "steps": local SGD; "residual": PP-SGD, one gradient at shared + own;
    # "representation": own head solved on all rows, then steps below it (representation.py)
    explicit: bool = False
    bit: float = 0.0  # adaptive clipping: weight of one more coordinate, (message fits - 1/2) * bit * bound

    @property
    def batch_in_a_step(self) -> int | None:
        """Rows a client brings to a step; None: all it has."""
        return self.batch_size if self.kind == "steps" else None

    @property
    def most_in_a_step(self) -> int | None:
        """Rows of a step under a representation, at most: larger clients take turns. A power of two; None: no limit."""
        limited = self.kind == "representation" and self.batch_size is not None
        return 2 ** int(math.log2(self.batch_size or 1)) if limited else None


@dataclass(frozen=True)
class Cohort:
    """The clients of one piece of a round, padded to a fixed number k."""

    anchors: Any  # (groups, p) what the billboard shows
    own: Any  # (k, p) last models; (k, 1) of nothing where clients remember nothing
    started: Any  # (k,) whether the client has a model of its own already
    member: Any  # (k, groups) public mixture of the groups
    present: Any  # (k,) 0 for padding
    index: Any  # (k, steps, batch) or (k, 1, rows) row numbers
    weights: Any  # the same shape

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self.anchors, self.own, self.started, self.member, self.present, self.index, self.weights


def capacity(n_tasks: int, rate: float | None, chunk: int, spare: int = SPARE_ON_CPU) -> int:
    """Size of the arrays a cohort is padded to: its mean and `spare` standard deviations, in equal pieces of at most a chunk.

    Public: computed from (rate, n_tasks). A cohort that is larger is processed in one piece more; nobody is dropped.
    Equal pieces, because a cohort of 513 in chunks of 512 would cost two whole ones.
    """
    q = 1.0 if rate is None else rate
    likely = min(n_tasks, math.ceil(q * n_tasks + spare * math.sqrt(n_tasks * q * (1 - q))))
    if likely <= chunk:
        return max(1, likely)
    pieces = math.ceil(likely / chunk)
    return min(chunk, AT_ONCE_ON_CPU * math.ceil(likely / pieces / AT_ONCE_ON_CPU))


def each_client(function: Any, arguments: tuple[Any, ...], accelerator: bool) -> Any:
    """function over the first axis: all at once on an accelerator, a few at a time on a CPU."""
    count = arguments[0].shape[0]
    if accelerator or count == 1:
        return jax.vmap(function)(*arguments)
    return jax.lax.map(lambda a: function(*a), arguments, batch_size=min(AT_ONCE_ON_CPU, count))


def in_parts(function: Any, arrays: tuple[Any, ...], at_once: bool) -> tuple[Any, Any]:
    """function(a part of the arrays) -> (of each client, to be added up): of all clients, and added up.

    A few clients at a time, unless `at_once`: all that is done with a model is done while it is in the cache of a CPU.
    """
    count = arrays[0].shape[0]
    if at_once or count <= AT_ONCE_ON_CPU:
        return function(arrays)
    whole = count - count % AT_ONCE_ON_CPU
    parts = tuple(a[:whole].reshape(-1, AT_ONCE_ON_CPU, *a.shape[1:]) for a in arrays)

    def one(total: Any, part: tuple[Any, ...]) -> tuple[Any, Any]:
        each, more = function(part)
        return jax.tree.map(jnp.add, total, more), each

    first = jax.eval_shape(function, tuple(a[0] for a in parts))[1]
    total, each = jax.lax.scan(one, jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), first), parts)
    each = each.reshape(whole, *each.shape[2:])
    if whole == count:
        return each, total
    total, others = one(total, tuple(a[whole:] for a in arrays))
    return jnp.concatenate([each, others]), total


@lru_cache(maxsize=64)
def _on_device(*knobs: float) -> Any:
    """Sent once, not in every round."""
    return jnp.asarray(np.asarray(knobs, np.float32))


class Round:
    """The compiled round of one model; call it with arrays of one fixed shape."""

    def __init__(self, model: Model, work: LocalWork, exact_sum: bool = True, accelerator: bool | None = None):
        self.model, self.work, self.exact_sum = model, work, exact_sum
        self.accelerator = jax.default_backend() != "cpu" if accelerator is None else accelerator
        self.walks = jax.default_backend() == "gpu" and bool(model.walked) and not work.explicit
        self._count = {"traces": 0}
        self._compiled = jax.jit(self._trace)
        self._messages = jax.jit(self._each)

    @property
    def chunk(self) -> int:
        if self.work.batch_in_a_step is None:
            return OF_ONE_WIDTH_ON_ACCELERATOR if self.accelerator else OF_ONE_WIDTH_ON_CPU
        return CHUNK_ON_ACCELERATOR if self.accelerator else CHUNK_ON_CPU

    @property
    def spare(self) -> int:
        return SPARE_ON_ACCELERATOR if self.accelerator else SPARE_ON_CPU

    @property
    def traces(self) -> int:
        """How often the round was traced, that is, compiled."""
        return self._count["traces"]

    def with_work(self, work: LocalWork) -> Round:
        """The same compiled round with other step sizes; all else must be equal."""
        twin = copy.copy(self)
        twin.work = work
        return twin

    def __call__(self, cohort: Cohort, pool: tuple[Any, Any], bound: float, scale: float = 1.0) -> tuple[Any, Any]:
        """New client models (k, p) and the clipped sum (groups, p) of `scale * g_k`, in multiples of the public grid.

        `pool` holds the rows (N, d) and their targets. With `exact_sum` off (no privacy) the sum is plain float32.
        """
        return self._compiled(cohort.arrays, *pool, self._knobs(bound, scale))

    def messages(self, cohort: Cohort, pool: tuple[Any, Any], bound: float) -> tuple[Any, Any]:
        """New client models and every client's own message, for aggregations that need them one by one.

        They are clipped and cut to the grid as in the sum, so that both ways give the same total; whoever sends them
        clips again.
        """
        return self._messages(cohort.arrays, *pool, self._knobs(bound, 1.0))

    def _knobs(self, bound: float, scale: float) -> Any:
        single = np.float32(bound)
        below = np.nextafter(single, np.float32(0)) if single > bound else single
        return _on_device(self.work.learning_rate, self.work.pull, scale, float(below), grid_of(bound))

    def _trace(self, cohort: tuple[Any, ...], X: Any, y: Any, knobs: Any) -> tuple[Any, Any]:
        self._count["traces"] += 1  # runs only while tracing

        def some(part: tuple[Any, ...]) -> tuple[Any, Any]:
            new, message = self._raw((cohort[0], *part), X, y, knobs)
            clipped = clip_rows(message, knobs[3], xp=jnp)
            if self.work.bit:
                fits = jnp.linalg.norm(message, axis=1) <= knobs[3]  # a NaN does not fit
                bit = jnp.where(part[3] > 0, jnp.where(fits, 0.5, -0.5), 0.0) * self.work.bit * knobs[3]
                clipped = jnp.concatenate([clipped, bit[:, None]], axis=1)
            return new, self._sum(clipped, part[2], knobs[4], among=cohort[4].shape[0])

        small = cohort[4].shape[0] * self.model.n_parameters <= IN_CACHE
        return in_parts(some, cohort[1:], at_once=self.accelerator or small)

    def _each(self, cohort: tuple[Any, ...], X: Any, y: Any, knobs: Any) -> tuple[Any, Any]:
        new, message = self._raw(cohort, X, y, knobs)
        clipped = clip_rows(message, knobs[3], xp=jnp)
        return new, jnp.trunc(clipped / knobs[4]) * knobs[4] if self.exact_sum else clipped

    def _raw(self, cohort: tuple[Any, ...], X: Any, y: Any, knobs: Any) -> tuple[Any, Any]:
        anchors, own, started, member, present, index, weights = cohort
        one_anchor = anchors.shape[0] == 1  # then it stays one vector: a copy for every client would be read in every step
        anchor = anchors[0] if one_anchor else member @ anchors
        remembers = self.work.start == "own"
        begin = jnp.where((started[:, None] > 0) & remembers, own, anchor)
        if self.work.kind == "residual":
            begin = own

        def client(begin: Any, index: Any, weights: Any, anchor: Any = anchor) -> tuple[Any, Any]:
            return self._client(anchor, begin, index, weights, X, y, knobs)

        per_client = (begin, index, weights) if one_anchor else (begin, index, weights, anchor)
        new, message = each_client(client, per_client, self.accelerator)
        in_cohort = present[:, None] > 0
        kept = jnp.where(in_cohort, new, own) if remembers else new
        if message is None:  # from what is kept, which is then the one array written
            message = kept - anchor
        return (kept if remembers else own), jnp.where(in_cohort, knobs[2] * message, 0.0)

    def _sum(self, clipped: Any, member: Any, grid: Any, among: int) -> Any:
        """sum_k member_kc clip(g_k); |member_k| <= 1 keeps each client's part inside the bound."""
        groups = member.shape[1]
        flat = clipped if groups == 1 else (member[:, :, None] * clipped[:, None, :]).reshape(clipped.shape[0], -1)
        total = sum_on_grid(flat, grid, xp=jnp, among=among) if self.exact_sum else jnp.sum(flat, axis=0)
        return total.reshape(groups, -1)

    def _client(self, anchor: Any, begin: Any, index: Any, weights: Any, X: Any, y: Any, knobs: Any) -> tuple[Any, Any]:
        """The client's new model, and its message where that is not the way from the billboard to the model."""
        if self.work.kind == "residual":
            gradient = self._gradient(anchor + begin, X[index[0]], y[index[0]], weights[0])
            return begin - knobs[0] * gradient, gradient
        unravel = self.model.unravel
        target, params = unravel(anchor), unravel(begin)
        if index.shape[0] == self.work.steps:

            def one(params: Any, batch: tuple[Any, Any]) -> tuple[Any, None]:
                rows, weight = batch
                return self._step(params, target, X[rows], y[rows], weight, knobs), None

            unroll = self.accelerator and self.work.steps <= MOST_UNROLLED
            params, _ = jax.lax.scan(one, params, (index, weights), unroll=unroll)
        else:
            rows, labels = X[index[0]], y[index[0]]

            def same(_: Any, params: Any) -> Any:
                return self._step(params, target, rows, labels, weights[0], knobs)

            params = jax.lax.fori_loop(0, self.work.steps, same, params)
        return ravel_pytree(params)[0], None

    def _step(self, params: Any, target: Any, rows: Any, labels: Any, weight: Any, knobs: Any) -> Any:
        walk = Walk(target, knobs[0], knobs[1])
        gradient = jax.grad(self.model.mean_loss)(params, rows, labels, weight, *([walk] if self.walks else []))
        if self.work.explicit:
            return jax.tree.map(lambda w, g, a: w - walk.eta * (g + walk.pull * (w - a)), params, gradient, target)

        def move(path: Any, w: Any, g: Any, a: Any) -> Any:
            there = self.walks and jax.tree_util.keystr(path) in self.model.walked  # the model has moved these itself
            return g if there else walk.moved(w, g, a)

        return jax.tree_util.tree_map_with_path(move, params, gradient, target)

    def _gradient(self, flat: Any, rows: Any, labels: Any, weight: Any) -> Any:
        return jax.grad(lambda v: self.model.mean_loss(self.model.unravel(v), rows, labels, weight))(flat)
