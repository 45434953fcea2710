"""Local solves, all tasks at once: mean loss plus a quadratic penalty around a centre.

    min over w, b of  L_i(w, b) + (mu_i/2) |w - c_i|^2

mu_i >= 0 is per task; the intercept b is not penalised. Solved by damped Newton; for the squared loss one step is exact.

Always finite: a ridge of 1e-9 times the mean curvature is added, which decides separable data with mu = 0;
a task whose labels are all equal keeps w = c with the smoothed log-odds as intercept (as
solvers/centred.py), and one without rows keeps w = c, b = 0.

Newton works on a stack of tasks: every task its own step length, all of them in stacked matrix products. With fewer rows than
features the unknowns are moved to row space first (w = c + X' a), so that the cost is cubic in the smaller of the two.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Loss
from taskveil.solvers.cox import minimise_cox
from taskveil.solvers.padding import Stack, per_task, stacks
from taskveil.tasks.block import TaskBlock

Index = NDArray[np.int64]
TINY = 1e-9  # ridge relative to the mean curvature
MOST_STEPS = 60
MOST_HALVINGS = 30


class LocalProblem:
    """One output of a stack of tasks, in coordinates v where the penalty is (mu/2) |v|^2 around zero."""

    def __init__(self, stack: Stack, output: int, loss: Loss, centre: Array, *, fit_intercept: bool) -> None:
        self.loss, self.centre, self.fit_intercept = loss, centre, fit_intercept
        self.y = stack.y[:, :, output]
        self.base = per_task("knd,kd->kn", stack.X, centre)
        self.back: Array | None = None
        self.X = stack.X
        n, d = stack.X.shape[1:]
        if n < d:
            self._to_row_space()

    def _to_row_space(self) -> None:
        """XX' = Q diag(e) Q' gives scores Q sqrt(e) v, penalty |v|^2, and w = X' Q v / sqrt(e)."""
        spread = np.ascontiguousarray(self.X.transpose(0, 2, 1))  # (k, d, n)
        e, Q = np.linalg.eigh(self.X @ spread)
        if not np.all(np.isfinite(e)):
            return
        root = np.sqrt(np.maximum(e, 0.0))
        kept = root > 1e-8 * root[:, -1:]
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=kept)
        self.back = spread @ (Q * inverse[:, None, :])
        self.X = Q * np.where(kept, root, 0.0)[:, None, :]

    def solve(self, mu: Array, shares: Array) -> tuple[Array, Array]:
        """(w (k, d), b (k,)) at strengths mu (k,), rows counted by `shares` (k, n)."""
        mean = per_task("kn,knp->kp", shares, self.X)
        X = self.X - mean[:, None, :] if self.fit_intercept else self.X
        v, c = np.zeros(mean.shape), self._first_intercepts(shares)
        live = np.flatnonzero(self._usable(shares))
        v[live], c[live] = NewtonSystem(self, live, X, shares, mu).solve(v[live], c[live])
        b = c - per_task("kp,kp->k", mean, v) if self.fit_intercept else np.zeros_like(c)
        w = v if self.back is None else per_task("kdp,kp->kd", self.back, v)
        return self.centre + w, b

    def _usable(self, shares: Array) -> NDArray[np.bool_]:
        """Tasks with something to fit: rows, and both classes where the intercept would run away."""
        some = shares.sum(axis=1) > 0.0
        if not (self.loss.labels and self.fit_intercept):
            return some
        balance = per_task("kn,kn->k", shares, self.y)
        return some & (np.abs(balance) < 1.0 - 1e-12)

    def _first_intercepts(self, shares: Array) -> Array:
        """Where the loss starts, or for one-class tasks the smoothed log-odds less the mean score of the centre."""
        if not (self.loss.labels and self.fit_intercept):
            return self.loss.first_scores(self.y, shares)
        count = (shares > 0.0).sum(axis=1)
        balance = np.clip(per_task("kn,kn->k", shares, self.y), -1.0, 1.0)
        odds = np.log((count * (1.0 + balance) + 1.0) / (count * (1.0 - balance) + 1.0))
        return odds - per_task("kn,kn->k", shares, self.base)


class NewtonSystem:
    """Objective, gradient and Hessian in u = (v, c), for the tasks `live` of a problem at strengths mu."""

    def __init__(self, local: LocalProblem, live: Index, X: Array, shares: Array, mu: Array) -> None:
        self.loss, self.fit_intercept = local.loss, local.fit_intercept
        self.y, self.base, self.shares = local.y[live], local.base[live], shares[live]
        X = X[live]
        self.p = X.shape[2]
        self.Z = np.concatenate([X, np.ones((*X.shape[:2], 1))], axis=2) if self.fit_intercept else X
        q = self.Z.shape[2]
        smooth = self.loss.smoothness if np.isfinite(self.loss.smoothness) else 1.0
        curvature = smooth * per_task("kn,knp,knp->k", self.shares, X, X) / max(self.p, 1)
        self.R = np.zeros((len(X), q, q))
        self.R[:, np.arange(self.p), np.arange(self.p)] = mu[live, None]
        self.R[:, np.arange(q), np.arange(q)] += TINY * np.where(curvature > 0.0, curvature, 1.0)[:, None]

    def solve(self, v: Array, c: Array) -> tuple[Array, Array]:
        """From (v, c); a task that has converged takes no further part."""
        u = np.concatenate([v, c[:, None]], axis=1) if self.fit_intercept else v.copy()
        live = np.arange(len(u))
        value, scores = self.objective(live, u)
        for _ in range(MOST_STEPS):
            move, decrement = self.newton_step(live, u[live], scores)
            far = decrement > 1e-13 * (1e-3 + np.abs(value))
            live = live[far]
            if live.size == 0:
                break
            u[live], value, scores = self.backtrack(
                live, u[live], move[far], decrement=decrement[far], value=value[far], scores=scores[far]
            )
        return u[:, : self.p], (u[:, self.p] if self.fit_intercept else c)

    def objective(self, tasks: Index, u: Array) -> tuple[Array, Array]:
        """(values (k,), scores (k, n)) of these tasks at u (k, q)."""
        scores = self.base[tasks] + per_task("knq,kq->kn", self.Z[tasks], u)
        fit = per_task("kn,kn->k", self.shares[tasks], self.loss.value(scores, self.y[tasks]))
        return fit + 0.5 * per_task("kq,kqs,ks->k", u, self.R[tasks], u), scores

    def newton_step(self, tasks: Index, u: Array, scores: Array) -> tuple[Array, Array]:
        """(-H^-1 gradient, gradient' H^-1 gradient); the latter is twice what the model promises."""
        Z, y, shares = self.Z[tasks], self.y[tasks], self.shares[tasks]
        slopes = shares * self.loss.derivative(scores, y)
        bends = shares * self.loss.second_derivative(scores, y)
        gradient = per_task("kn,knq->kq", slopes, Z) + per_task("kqs,ks->kq", self.R[tasks], u)
        H = Z.transpose(0, 2, 1) @ (bends[:, :, None] * Z) + self.R[tasks]
        move = -np.linalg.solve(H, gradient[:, :, None])[:, :, 0]
        return move, -per_task("kq,kq->k", gradient, move)

    def backtrack(
        self, tasks: Index, u: Array, move: Array, *, decrement: Array, value: Array, scores: Array
    ) -> tuple[Array, Array, Array]:
        """Halves every task's step until its objective falls by a tenth of the decrement."""
        length = np.ones(len(tasks))
        u, value, scores = u.copy(), value.copy(), scores.copy()
        waiting = np.arange(len(tasks))
        for _ in range(MOST_HALVINGS):
            trial = u[waiting] + length[waiting, None] * move[waiting]
            there, at = self.objective(tasks[waiting], trial)
            fine = there <= value[waiting] * (1.0 + 1e-15) - 0.1 * length[waiting] * decrement[waiting]
            done = waiting[fine]
            u[done], value[done], scores[done] = trial[fine], there[fine], at[fine]
            waiting = waiting[~fine]
            if waiting.size == 0:
                break
            length[waiting] *= 0.5
        return u, value, scores


Array = NDArray[np.floating]


def minimise_local(
    block: TaskBlock, loss: Loss, strengths: Array | float, centre: Array | None = None, fit_intercept: bool = True
) -> tuple[Array, Array]:
    """(W (m, r, d), b (m, r)) for strengths mu: a number, (m,) or (m, r); centres (m, r, d), or zero."""
    m, r, d = block.n_tasks, block.n_outputs, block.n_features
    mu = np.asarray(strengths, dtype=float)
    mu = np.broadcast_to(mu[:, None] if mu.ndim == 1 else mu, (m, r))
    if not loss.rowwise:
        return minimise_cox(block, mu, centre)
    W, b = np.empty((m, r, d)), np.empty((m, r))
    centres = np.zeros((m, r, d)) if centre is None else np.broadcast_to(centre, (m, r, d))
    for stack in stacks(block):
        for o in range(r):
            local = LocalProblem(stack, o, loss, centres[stack.tasks, o], fit_intercept=fit_intercept)
            W[stack.tasks, o], b[stack.tasks, o] = local.solve(mu[stack.tasks, o], stack.shares())
    return W, b
