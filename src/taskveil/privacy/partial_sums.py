"""Sums of clipped messages on a public integer grid: partial sums add up exactly, in any order.

Why          A float sum depends on the order and grouping of its terms, and its rounding on all of them: one task could move the
             result by a little more than its own message, and a table cut into other partitions would give another model.
What         An entry is written in whole numbers of a power of two, 2^-32 of the bound, what is left of it in whole numbers of
             2^-64, and so on (`add_up`). Whole numbers are added in int64. Cutting is toward zero, so no norm grows.
             Second moments (`add_up_squares`) are products of such digits, 20 bits each: a product of float64 matrices of whole
             numbers below 2^53 is exact whatever the order in which a library adds.
Precision    2^-56 of the smaller of 1 and the bound, for every message: beyond float64 where noise is added, and enough for
             runs without noise, whose bound of 1e12 only stands for "none".
Limits       2^31 messages of the size of the bound.
On a device  Messages of a jitted round are float32. `sum_on_grid` cuts every entry toward zero to a multiple of the grid
             g = 2^(ceil(log2 bound) - 20) and adds in int32. |entry| <= bound <= 2^20 g, so 2047 messages fit; more are added
             in several pieces. Each entry loses at most bound / 2^20 of its size.

What cannot be added up (one row for each task) stays a stack of messages; partial stacks are joined in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import iadd
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import OptionError
from taskveil.threads import SMALL, in_parts

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Some = TypeVar("Some")
BITS, SQUARE_BITS = 32, 20
PRECISION = 56
ROWS = 2**12  # of messages at once: sums of products of digits stay below 2^53
NUMBERS = 2**17  # of messages at once: temporaries stay in the cache
GRID_BITS = 20
MOST_MESSAGES = 2 ** (31 - GRID_BITS) - 1


@dataclass(frozen=True, eq=False)
class Partial:
    """What some of the tasks add to a total: arrays of whole numbers, or (`stacked`) their messages one by one."""

    parts: tuple[NDArray[Any], ...]
    stacked: bool = False


def joined(partials: Sequence[Partial]) -> Partial:
    """All of them together; the order counts for stacks only."""
    if partials[0].stacked:
        return Partial((np.concatenate([p.parts[0] for p in partials]),), stacked=True)
    return Partial(tuple(np.sum(arrays, axis=0) for arrays in zip(*(p.parts for p in partials), strict=True)))


def _digits(bound: float, bits: int) -> list[float]:
    """The values of one in every digit, the largest first."""
    top = math.ceil(math.log2(bound))
    if top > PRECISION:  # a bound that stands for none: one begins a digit, so that numbers below it need no other
        top = bits * math.ceil(top / bits)
    count = math.ceil((PRECISION + max(0, top)) / bits)
    return [math.ldexp(1.0, top - bits * (k + 1)) for k in range(count)]


def add_up(messages: FloatArray, bound: float, onto: IntArray | None = None) -> IntArray:
    """Sum over the first axis of messages with entries of about `bound` at most: one array of whole numbers for each digit.

    `onto`: what `add_up` said of others before, to which these are added in place.
    """
    ones, width = _digits(bound, BITS), math.prod(messages.shape[1:])
    rows, flat = min(ROWS, max(1, NUMBERS // max(1, width))), messages.reshape(len(messages), width)

    def part(some: slice, total: IntArray | None = None) -> IntArray:
        sums = np.zeros((len(ones), width), dtype=np.int64) if total is None else total.reshape(len(ones), width)
        for first in range(0, width, NUMBERS):
            columns = slice(first, first + NUMBERS)
            for start in range(some.start, some.stop, rows):
                for k, whole in _written(flat[start : min(start + rows, some.stop), columns], ones, BITS):
                    sums[k, columns] += whole.sum(axis=0).astype(np.int64)  # exact: below 2^53
        return sums

    sums = reduce(iadd, _all_parts(part, messages)) if onto is None else part(slice(0, len(messages)), onto)
    return sums.reshape(len(ones), *messages.shape[1:])


def in_digits(total: NDArray[Any], step: float, bound: float) -> IntArray:
    """What `add_up` writes, of a sum that is there in whole numbers of `step`, a power of two of at least the first digit."""
    ones = _digits(bound, BITS)
    sums = np.zeros((len(ones), *total.shape), dtype=np.int64)
    np.left_shift(total, round(math.log2(step / ones[0])), out=sums[0], dtype=np.int64)
    return sums


def added_up(sums: IntArray, bound: float) -> FloatArray:
    """The total that `add_up` wrote."""
    return _read(sums, _digits(bound, BITS))


def add_up_squares(rows: FloatArray, bound: float) -> IntArray:
    """Sum of v v' over rows (k, d) of norm at most `bound`: whole numbers (places, d, d), a place for each product of digits."""
    ones, d = _digits(bound, SQUARE_BITS), rows.shape[1]

    def part(some: slice) -> dict[int, IntArray]:
        found: dict[int, IntArray] = {}
        for start in range(some.start, some.stop, ROWS):
            wholes = list(_written(rows[start : min(start + ROWS, some.stop)], ones, SQUARE_BITS))
            for a, left in wholes:
                for b, right in wholes:
                    if b > a:
                        break
                    product = (left.T @ right).astype(np.int64)
                    found[a + b] = found.get(a + b, 0) + (product if a == b else product + product.T)
        return found

    sums = np.zeros((2 * len(ones) - 1, d, d), dtype=np.int64)  # of a bound that stands for none most places stay untouched
    for found in _all_parts(part, rows):
        for place, whole in found.items():
            sums[place] += whole
    return sums


def _written(messages: FloatArray, ones: list[float], bits: int) -> Iterator[tuple[int, FloatArray]]:
    """The digits of every entry, but for those before and after which all are zero: without a bound the first are."""
    rest = np.asarray(messages, dtype=np.float64) / ones[0]  # by powers of two alone: exact
    size = max(float(rest.max()), -float(rest.min())) if rest.size else 0.0
    first = next((k for k in range(len(ones)) if not size * 2.0 ** (bits * k) < 1.0), len(ones))
    rest *= 2.0 ** (bits * first)
    for k in range(first, len(ones)):
        whole = np.trunc(rest)
        yield k, whole
        rest -= whole
        if not _something(rest):
            return
        rest *= 2.0**bits


def _all_parts(part: Callable[[slice], Some], messages: FloatArray) -> list[Some]:
    """Whole numbers add up to the same on any number of threads."""
    if messages.size < SMALL or len(messages) == 1:
        return [part(slice(0, len(messages)))]
    return in_parts(part, len(messages))


def added_up_squares(sums: IntArray, bound: float) -> FloatArray:
    """The symmetric matrix (d, d) that `add_up_squares` wrote."""
    ones = _digits(bound, SQUARE_BITS)
    values = [ones[0] * ones[0] * 2.0 ** (-SQUARE_BITS * place) for place in range(len(sums))]
    return _read(sums, values)


def _read(sums: IntArray, values: list[float]) -> FloatArray:
    read = [whole * one for whole, one in zip(sums, values, strict=True) if _something(whole)]
    return np.asarray(reduce(np.add, reversed(read)) if read else np.zeros(sums.shape[1:]))  # small ones first


def _something(whole: NDArray[Any]) -> bool:
    """Whether an entry is not zero: NumPy finds the largest in a tenth of the time in which it asks each."""
    return bool(whole.size and (whole.max() != 0 or whole.min() != 0))


def grid_of(bound: float) -> float:
    """The public grid of messages whose norm is at most `bound`: a power of two."""
    return math.ldexp(1.0, math.ceil(math.log2(bound)) - GRID_BITS)


def sum_on_grid(clipped: Any, grid: Any, xp: Any = np, among: int = 0) -> Any:
    """Sum over rows of (k, p) messages that `bounds.clip_rows` has clipped, as int32 multiples of `grid`.

    `among`: how many messages the caller adds up in all, where these are some of them.
    """
    count = max(among, clipped.shape[0])
    if count > MOST_MESSAGES:
        raise OptionError(f"at most {MOST_MESSAGES} messages can be summed at once; got {count}")
    return xp.sum(xp.trunc(clipped / grid).astype(np.int32), axis=0, dtype=np.int32)
