"""Solvers as they were when they asked LAPACK for the eigenvalues of a task's rows: numbers that are none made that fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from taskveil.solvers import evidence


def fail_as_lapack(monkeypatch: Any) -> None:
    """`np.linalg.LinAlgError` where weighted rows are not finite."""
    for name in ("reduced", "posterior_mean"):
        monkeypatch.setattr(evidence, name, _decomposing(getattr(evidence, name)))


def _decomposing(solve: Callable[..., Any]) -> Callable[..., Any]:
    def first_decomposed(rows: Any, *rest: Any) -> Any:
        np.linalg.eigh(rows.X.transpose(0, 2, 1) @ rows.X)
        return solve(rows, *rest)

    return first_decomposed
