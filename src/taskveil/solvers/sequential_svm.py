"""The multi-task SVM in one process, with w updated at once: dual coordinate descent over all participants.

Participants are visited in a fresh random order; each visit is one pass over all its rows and a few passes over those
that can still move (they stay in cache), then w and v_k are brought up to date. This is block Gauss-Seidel on the dual (8)
of Ponomarenko-Timofeev et al. and has no counterpart over a network, where all answer at the same time.
The stopping rule is the relative duality gap, which is computed when the largest step of a sweep has fallen enough to
make it likely, because it costs a pass of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.solvers.svm_problem import EMPTY, SvmProblem

MOST_SWEEPS = 10_000
PASSES, SHRINK = 30, 0.1  # of a visit: at most so many passes, until steps have fallen to this part


@dataclass
class SvmSolution:
    """A primal and dual point, and how it was reached."""

    shared: np.ndarray  # w (size,)
    own: np.ndarray  # v (tasks, size)
    dual: np.ndarray  # b (N,)
    sums: np.ndarray  # r (tasks, size)
    primal: float
    dual_value: float

    @property
    def gap(self) -> float:
        """Relative duality gap."""
        return (self.primal - self.dual_value) / max(abs(self.primal), 1e-300)


def solve_sequential(problem: SvmProblem, tol: float = 1e-4) -> SvmSolution:
    """Sweep until the relative duality gap is at most `tol`."""
    from taskveil.solvers.dual_coordinate import sweep

    b = np.zeros(problem.n_rows)
    sums = problem.sums(b)
    shared = problem.coupling * sums.sum(axis=0)
    best, value, next_check = np.inf, -np.inf, 0.0
    for t in range(1, MOST_SWEEPS + 1):
        violation, _ = sweep(  # type: ignore[call-arg]
            *problem.rows, *problem.boxes, EMPTY, problem.offsets, problem.coupling, problem.inverse, b, shared, sums,
            1, PASSES, SHRINK, 0.0, t,
        )  # fmt: skip
        if t > 1 and violation > next_check and t % 50 and t < MOST_SWEEPS:
            continue
        sums = problem.sums(b)  # afresh, so that rounding does not build up
        shared = problem.coupling * sums.sum(axis=0)
        best, value = problem.gap(b, sums)
        relative = (best - value) / max(abs(best), 1e-300)
        if relative <= tol:
            break
        # the gap is first order in the violations: wait until they have fallen as far as the gap still has to
        next_check = violation * max(min(0.5, 1.5 * tol / relative), 1e-3)
    return SvmSolution(shared, problem.inverse * sums, b, sums, best, value)
