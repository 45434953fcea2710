"""Which rows a client uses in each local step, without padding rows and without looking at them.

A client with n rows walks through a random order of its rows, `batch_size` at a time, starting over when it reaches
the end; a client with fewer rows than a batch uses each row once per step and the remaining slots have weight zero. So
every client, large or small, fills the same shape (steps, batch_size), and nothing is compiled again for another size.

The order comes from a hash of (seed, round, position of the row in its task): it does not depend on where the task
stands in the block, so a block of tasks equals its tasks one by one. It needs no secrecy: local work may be anything,
because only the clipped message leaves (docs/theory/index.md#local-work).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rows:
    """The rows of a block that training may use: positions into the block's X, grouped by task."""

    index: np.ndarray  # (N,) row numbers in the block
    offsets: np.ndarray  # (m + 1,)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    @property
    def n_tasks(self) -> int:
        return int(self.offsets.size - 1)


def usable_rows(offsets: np.ndarray, weights: np.ndarray | None) -> Rows:
    """All rows, or those with a positive weight."""
    if weights is None:
        return Rows(np.arange(offsets[-1], dtype=np.int64), np.asarray(offsets, dtype=np.int64))
    keep = weights > 0
    before = np.concatenate([[0], np.cumsum(keep)])
    return Rows(np.flatnonzero(keep), before[offsets].astype(np.int64))


def row_batches(
    rows: Rows, tasks: np.ndarray, steps: int, batch_size: int, seed: int, round_number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers (k, steps, batch_size) and their weights, which sum to one in every step of a non-empty client."""
    sizes = rows.sizes[tasks]
    distinct, which = np.unique(sizes, return_inverse=True)
    order = _orders(distinct, seed, round_number)
    slot = np.arange(steps * batch_size)
    turn = slot[None, :] % np.maximum(distinct, 1)[:, None]
    within = np.take_along_axis(order, turn, axis=1)[which] if order.shape[1] else np.zeros((len(tasks), slot.size), int)
    first = rows.offsets[:-1][tasks]
    last = max(rows.index.size - 1, 0)
    picked = rows.index[np.minimum(first[:, None] + within, last)] if rows.index.size else within * 0
    used = np.minimum(sizes, batch_size)[:, None]
    weight = (np.arange(batch_size)[None, :] < used) / np.maximum(used, 1)
    shape = (len(tasks), steps, batch_size)
    return picked.reshape(shape), np.broadcast_to(weight[:, None, :], shape).astype(np.float32)


def all_rows(rows: Rows, tasks: np.ndarray, width: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows `first` to `first + width` of each client: row numbers (k, width) and weights, 1 / rows of the client."""
    picked, inside = _at(rows, tasks, np.broadcast_to(first + np.arange(width), (len(tasks), width)))
    return picked, (inside / np.maximum(rows.sizes[tasks], 1)[:, None]).astype(np.float32)


def every_so_many(rows: Rows, tasks: np.ndarray, steps: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """All rows of small clients in every step; larger ones take turns, every so-manieth row, so that padding is shared out.

    Row numbers (k, steps, width) and weights, which sum to one in every step of a non-empty client; `width` is a power of two.
    """
    turns = np.maximum(1, padded_sizes(rows.sizes[tasks]) // width)[:, None, None]
    picked, inside = _at(rows, tasks, np.arange(steps)[None, :, None] % turns + turns * np.arange(width))
    return picked, (inside / np.maximum(inside.sum(axis=2, keepdims=True), 1)).astype(np.float32)


def padded_sizes(sizes: np.ndarray) -> np.ndarray:
    """The next powers of two."""
    return np.asarray(2 ** np.frexp(np.maximum(sizes, 1) - 0.5)[1])


def _at(rows: Rows, tasks: np.ndarray, slot: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the slot-th rows of each client, and whether it has so many.

    Beyond the end a client's own last row stands, to be weighed zero: nothing of another client enters its arithmetic.
    """
    shape = (len(tasks), *(1,) * (slot.ndim - 1))
    sizes, first = rows.sizes[tasks].reshape(shape), rows.offsets[:-1][tasks].reshape(shape)
    position = first + np.minimum(slot, np.maximum(sizes - 1, 0))
    picked = rows.index[np.minimum(position, rows.index.size - 1)] if rows.index.size else position * 0
    return picked, slot < sizes


def _orders(sizes: np.ndarray, seed: int, round_number: int) -> np.ndarray:
    """A shuffled order of 0..n-1 for each n in `sizes`, padded with zeros to the largest."""
    widest = int(sizes.max(initial=0))
    keys = _mix(np.arange(widest, dtype=np.uint64), seed, round_number)
    everything = np.argsort(keys, kind="stable")
    orders = np.zeros((sizes.size, widest), dtype=np.int64)
    for i, n in enumerate(sizes):
        orders[i, :n] = everything[everything < n]
    return orders


def _mix(values: np.ndarray, seed: int, round_number: int) -> np.ndarray:
    """A fixed bit mixer (splitmix64 finaliser, Steele, Lea, Flood 2014) of position, seed and round."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(seed % 2**32) * np.uint64(0xD1342543DE82EF95)
        z = (z + np.uint64(round_number)) * np.uint64(0x9E3779B97F4A7C15) + values
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
