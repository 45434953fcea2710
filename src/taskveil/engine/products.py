"""Products on the matrix units that are as precise as they need to be: what kernels for accelerators are made of.

The matrix units multiply numbers of 8 or 11 bits exactly and add in float32. A number is therefore cut into parts that add up
to it, and a product is the sum of the products of parts that matter:

    float32          two parts of 8 bits: three products, about 17 bits
    float32, exact   three parts: six products, as precise as float32 itself
    float16          as it is; a float32 matrix beside it, exact: two parts of 11 bits, two products
"""

from __future__ import annotations

import functools
import operator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

Parts = tuple[Any, ...]


def matrix_sized(size: int) -> bool:
    """Whether the matrix units take a side of this size: a power of two from 16 on."""
    return size >= 16 and size & (size - 1) == 0


def load(ref: Any, index: Any, mask: Any = None) -> Any:
    return triton.load(ref.at[index], mask=mask, other=None if mask is None else 0)


def parts(a: Any, dtype: Any, exact: bool = False) -> Parts:
    """Numbers of 16 bits that add up to `a`, the largest first."""
    if a.dtype == jnp.float16:
        return (a,)
    kind, count = (jnp.bfloat16, 3 if exact else 2) if dtype == jnp.float32 else (jnp.float16, 2 if exact else 1)
    pieces = []
    for _ in range(count):
        pieces.append(a.astype(kind))
        a = a - pieces[-1].astype(jnp.float32)
    return tuple(pieces)


def dot(a: Parts, b: Parts, turn_a: bool = False, turn_b: bool = False) -> Any:
    """a @ b in float32, the smallest products first; those below the last part of either are left out."""
    sides = (((0 if turn_a else 1,), (1 if turn_b else 0,)), ((), ()))
    multiply = functools.partial(jax.lax.dot_general, dimension_numbers=sides, preferred_element_type=jnp.float32)
    pairs = [(i, j) for i in range(len(a)) for j in range(len(b)) if i + j < max(len(a), len(b))]
    return functools.reduce(operator.add, (multiply(a[i], b[j]) for i, j in sorted(pairs, key=sum, reverse=True)))


@dataclass(frozen=True)
class Launch:
    """How a kernel is cut up: rows at a time, warps of a program, programs that the rows of a client are divided among."""

    tile: int
    warps: int
    slices: int
    stages: int = 1  # how many tiles their loads run ahead, and
    ahead: int = 0  # how many loads within one


def each_tile(rows: int, how: Launch, work: Any, carry: Any) -> Any:
    """carry <- work(row numbers of a tile, carry), for the tiles of this program; some may lie beyond the rows."""
    per = -(-rows // (how.tile * how.slices))
    first = pl.program_id(0) * per
    return jax.lax.fori_loop(0, per, lambda t, carry: work((first + t) * how.tile + jnp.arange(how.tile), carry), carry)


def launch(kernel: Any, how: Launch, outs: Any, *arrays: Any) -> Any:
    """The kernel on a GPU; elsewhere (tests) it is interpreted."""
    on_gpu = jax.default_backend() == "gpu"
    settings = triton.CompilerParams(num_warps=how.warps, num_stages=how.stages) if on_gpu else None
    return pl.pallas_call(kernel, (*outs,), grid=(how.slices,), compiler_params=settings, interpret=not on_gpu)(*arrays)
