"""The one place that clips, and `Bounded`, the only kind of value a mechanism accepts.

Formal guarantee of `clip_rows`: every returned row is finite and its exact l2 norm is at most `norm`,
whatever came in. A row with a NaN or an infinity becomes zero. A row whose norm is clearly below the bound
is returned unchanged, bit for bit. "Exact" holds after floating point: the norm is computed on the row
divided by its largest entry (no overflow, no harmful underflow) by a two-level sum whose rounding error is
at most about 2 sqrt(p) units in the last place in any summation order, and the target is shrunk by more
than that (at least 1e-12 relative).

The later sum over units is exact (partial_sums.py): a curator's total is rounded once, when it is read, which the 1e-9 by which
plans inflate the noise covers many times over.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import DataError, OptionError
from taskveil.threads import in_parts

if TYPE_CHECKING:
    from taskveil.privacy.contributions import Contribution

FloatArray = NDArray[np.float64]

_MAKER = object()  # known to bounds.py and contributions.py only


@dataclass(frozen=True, eq=False)
class Bounded:
    """Clipped messages (one leading entry per task), or their sum, with the contribution that bounds them.

    Made by `Contribution.clip` and the functions of this module; it cannot be constructed elsewhere.
    """

    value: Any
    contribution: Contribution
    summed: bool
    maker: object

    def __post_init__(self) -> None:
        if self.maker is not _MAKER:
            raise TypeError("a Bounded value is made only by clipping: call contribution.clip(raw)")

    def __repr__(self) -> str:  # never shows private values
        return f"Bounded({self.contribution!r}, summed={self.summed})"


def _seal(value: Any, contribution: Contribution, summed: bool = False) -> Bounded:
    if isinstance(value, np.ndarray):
        value = value.view()
        value.flags.writeable = False  # a later in-place change would void the bound
    return Bounded(value, contribution, summed, _MAKER)


def check_norm(norm: float) -> float:
    """A clipping norm as a float; positive, finite, and far from the ends of the number range."""
    value = float(norm)
    if not 1e-100 <= value <= 1e100:
        raise OptionError(f"a clipping norm must be positive and finite (1e-100 to 1e100); got {norm!r}")
    return value


PIECE = 2**17  # numbers


def clip_rows(values: Any, norm: float, xp: Any = np) -> Any:
    """Scale each row of `values` (k, p) to l2 norm at most `norm`; rows with NaN or inf become zero.

    Works on NumPy arrays and, with `xp=jax.numpy`, inside a jitted function.
    """
    if xp is np:
        values = _as_float(values)
        if values.size > PIECE and len(values) > 1:  # rows are clipped one by one: in pieces that stay in the cache
            out, pieces = np.empty_like(values), min(len(values), -(-values.size // PIECE))
            in_parts(lambda rows: np.copyto(out[rows], clip_rows(values[rows], norm)), len(values), pieces)
            return out
    target = norm * (1.0 - _shrink(values.shape[1], values.dtype))
    if xp is np and _clearly_inside(values, target):
        return values.copy()
    if values.shape[1] == 0:
        return values
    here = xp.isfinite(values)
    finite = xp.all(here, axis=1, keepdims=True)
    largest = xp.max(xp.where(here, xp.abs(values), 0), axis=1, keepdims=True)  # beside `finite`: an accelerator reads rows once
    values = xp.where(finite, values, xp.zeros_like(values))
    safe = xp.where(largest > 0, largest, xp.ones_like(largest))
    unit = values / safe
    # `allowed` is the largest entry that keeps the norm at the target.
    with np.errstate(over="ignore", invalid="ignore"):  # a norm beyond float32 allows any float32 row: inf is meant
        allowed = target / xp.sqrt(xp.maximum(_sum_of_squares(unit, xp), 1.0))  # 1: the entry divided by itself
        return xp.where(safe <= allowed, values, unit * allowed)


def clip_factored_rows(X: Any, residuals: Any, norm: float, xp: Any = np) -> Any:
    """Clip the row gradients r_i x_i' of a linear model without forming them.

    `X` (N, d), `residuals` (N, r): row i's gradient is the r x d matrix r_i x_i', of Frobenius norm |r_i|
    |x_i|. Returns residuals c_i r_i such that every |c_i r_i| |x_i| <= norm; a row that is not finite gets
    zero. The caller then sums x_i' (c_i r_i) over rows and seals the sum with `RowSum`.
    """
    if xp is np:
        X, residuals = _as_float(X), _as_float(residuals)
    shrink = _shrink(X.shape[1], X.dtype) + _shrink(residuals.shape[1], residuals.dtype)
    finite = xp.all(xp.isfinite(X), axis=1, keepdims=True) & xp.all(xp.isfinite(residuals), axis=1, keepdims=True)
    scaled, largest = _by_largest(xp.where(finite, X, xp.zeros_like(X)), xp)
    rows = xp.where(finite, residuals, xp.zeros_like(residuals))
    unit, size = _by_largest(rows, xp)
    lengths = xp.sqrt(_sum_of_squares(scaled, xp) * _sum_of_squares(unit, xp))
    with np.errstate(over="ignore", invalid="ignore"):  # a tiny |x| allows any residual: inf is meant
        allowed = norm * (1.0 - shrink) / xp.where(lengths > 0, lengths, xp.ones_like(lengths)) / largest
        # A subnormal factor is rounded coarsely, possibly upwards: such a row (|x| beyond 1e280) is left out.
        allowed = xp.where(allowed < float(np.finfo(residuals.dtype).tiny) * 2.0**40, 0.0, allowed)
        return xp.where(size <= allowed, rows, unit * allowed)


def _by_largest(values: Any, xp: Any) -> tuple[Any, Any]:
    """Rows divided by their largest entry, and that entry (1 for a zero row)."""
    largest = xp.max(xp.abs(values), axis=1, keepdims=True)
    safe = xp.where(largest > 0, largest, xp.ones_like(largest))
    return values / safe, safe


def _as_float(values: Any) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim != 2:
        raise DataError(f"clipping expects rows as a 2-d array; got {array.ndim} dimensions")
    return array


def _shrink(n_columns: int, dtype: Any) -> float:
    """More than the relative rounding error of the computed norm, for any order of summation."""
    unit_roundoff = float(np.finfo(dtype).eps) / 2
    return max(1e-12, (2 * math.isqrt(max(n_columns, 1)) + 16) * unit_roundoff)


def _clearly_inside(rows: NDArray[Any], target: float) -> bool:
    """Whether every row is finite and shorter than the target by a thousandth: one pass instead of six.

    A NaN or an overflow fails the comparison. A plain float64 sum of p squares is wrong by less than p 2^-53 of itself, and
    squares that underflow miss at most p 1e-308, far below the smallest target's square.
    """
    if rows.dtype != np.float64:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        squares = np.einsum("kp,kp->k", rows, rows)
    return bool(np.all(squares <= (0.999 * target) ** 2))


def _sum_of_squares(unit: Any, xp: Any) -> Any:
    """Row sums of squares in two levels of about sqrt(p) terms each, which bounds the rounding error."""
    k, p = unit.shape
    block = math.isqrt(p)
    if p < 64:
        return xp.sum(unit * unit, axis=1, keepdims=True)
    padding = (-p) % block
    squares = unit * unit
    if padding:
        squares = xp.concatenate([squares, xp.zeros((k, padding), dtype=unit.dtype)], axis=1)
    return xp.sum(xp.sum(squares.reshape(k, -1, block), axis=2), axis=1)[:, None]
