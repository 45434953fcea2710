"""LAPACK's reduction of symmetric matrices to tridiagonal ones, without the interpreter lock: tasks of a stack share threads.

SciPy's own wrappers keep the lock, and its eigenvalue routines do what nobody asked for. The functions are those SciPy offers to
compiled code; ctypes calls them with addresses. Arrays are rows first: what is an upper triangle here is a lower one there.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
BLOCK = 32  # columns that LAPACK works on at a time


@lru_cache(maxsize=4)
def _function(name: str, arguments: int) -> Callable[..., None]:
    from scipy.linalg import cython_lapack

    api, python = cython_lapack.__pyx_capi__[name], ctypes.pythonapi
    python.PyCapsule_GetName.restype, python.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = python.PyCapsule_GetPointer(api, python.PyCapsule_GetName(api))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)


def tridiagonalise(A: Array, diagonal: Array, beside: Array) -> Array:
    """As the compiled loop of that name; A's upper triangle is overwritten by reflectors, whose factors (k, p) are returned."""
    k, p = A.shape[:2]
    factors, work = np.zeros((k, p)), np.empty(BLOCK * p)
    triangle, size, space, info = (_whole(v) for v in (ord("L"), p, work.size, 0))
    _for_each(k, "dsytrd", triangle, size, A, size, diagonal, beside, factors, work, space, info)
    return factors


def turn(A: Array, factors: Array, columns: Array, back: bool) -> Array:
    """Q' columns[i] (p, q) for every task, or Q columns[i] where `back`."""
    k, p, q = columns.shape
    out, work = np.array(columns.transpose(0, 2, 1), dtype=float, order="C"), np.empty(BLOCK * max(q, 2 * BLOCK))
    side, triangle, which = (_whole(ord(v)) for v in ("L", "L", "N" if back else "T"))
    rows, wide, space, info = (_whole(v) for v in (p, q, work.size, 0))
    _for_each(k, "dormtr", side, triangle, which, rows, wide, A, rows, factors, out, rows, work, space, info)
    return out.transpose(0, 2, 1)


def _whole(value: int) -> NDArray[Any]:
    """A number or letter (its code) where LAPACK looks for one."""
    return np.array([value], dtype=np.int32)


def _for_each(tasks: int, name: str, *arguments: NDArray[Any]) -> None:
    """One call for each task; arrays with an axis of tasks move on with them."""
    call = _function(name, len(arguments))
    places = [(a.ctypes.data, a.strides[0] if a.ndim > 1 else 0) for a in arguments]
    for i in range(tasks):
        call(*[start + i * stride for start, stride in places])
