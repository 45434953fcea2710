"""Proximal gradient descent over all tasks, plain and accelerated.

    min over W_1..W_k, b of  f(W_1 + .. + W_k, b) + sum_j penalty_j g_j(W_j),      f = sum_i L_i +
    (ridge/2)|W|_F^2

k = 1 is MP-MTL eq. 2 and 3 (trace norm, l2,1); k = 2 is its eq. 23 (W = P + Q, Alg. 4 and Remark 4). Beck &
Teboulle 2009, with the momentum of Nesterov in the paper's two forms (its Theorems 2-5) and the restart of
O'Donoghue & Candes 2015.

Where we differ from Alg. 4: the gradient in (P, Q) has Lipschitz constant 2L, so the step is 1/(2L), and the
start is P = W0, Q = 0 (P = Q = W0 would double the model).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import OptionError
from taskveil.losses.base import Loss
from taskveil.solvers.centred import Evaluation, SmoothPart
from taskveil.structures.base import Structure
from taskveil.tasks.block import TaskBlock
from taskveil.threads import in_parts
from tests.support.conjugates import SEPARABLE, conjugate, dual_norm

Array = NDArray[np.floating]
Part = tuple[Structure, float]
RULES = ("plain", "accelerated", "strongly-convex")
CHECK_EVERY = 10  # rounds between two looks at the duality gap, which costs one more pass


def momentum(rule: str, round: int, strong_convexity: float = 0.0, lipschitz: float = 1.0) -> float:
    """beta_t of MP-MTL Theorems 2-5, rounds counted from 1.

    plain: 0; accelerated: (t - 1)/(t + 2); strongly-convex: (1 - sqrt(mu/L)) / (1 + sqrt(mu/L)).
    """
    if rule == "plain":
        return 0.0
    if rule == "accelerated":
        return (round - 1.0) / (round + 2.0)
    if rule == "strongly-convex":
        q = math.sqrt(min(1.0, strong_convexity / lipschitz)) if lipschitz > 0.0 else 1.0
        return (1.0 - q) / (1.0 + q)
    raise OptionError(f"momentum rule must be one of {', '.join(RULES)}; got {rule!r}.")


@dataclass(frozen=True)
class State:
    """One iterate: parts (k, m, r, d), centred intercepts (m, r), and where both were one round before."""

    parts: Array
    previous: Array
    intercepts: Array
    previous_intercepts: Array
    round: int = 0
    since_restart: int = 0


@dataclass(frozen=True)
class Solution:
    """Models W (m, r, d), the sum of parts (k, m, r, d); `gap` bounds objective - optimum from above."""

    W: Array
    intercepts: Array
    parts: Array
    objective: float
    gap: float
    rounds: int


class Problem:
    """The composite objective and its step sizes, one per task; equal unless every structure is separable."""

    def __init__(self, smooth: SmoothPart, parts: Sequence[Part], lipschitz: Array | float | None = None) -> None:
        self.smooth, self.parts = smooth, tuple(parts)
        separable = all(structure.name in SEPARABLE for structure, _ in self.parts)
        L = smooth.lipschitz() if lipschitz is None else np.asarray(lipschitz, dtype=float)
        L = np.broadcast_to(L, smooth.shape[:1])
        if not separable:  # one proximal map over all tasks needs one metric
            L = np.full(smooth.shape[0], L.max(initial=0.0))
        # A task whose rows are constant has L = 0 and gradient 0: any step will do.
        self.lipschitz = np.where(L > 0.0, L, 1.0)
        self.step = 1.0 / (len(self.parts) * self.lipschitz)  # (m,)

    def start(self, W: Array | None = None, b: Array | None = None) -> State:
        """W0 goes to the first part, zero to the others."""
        parts = np.zeros((len(self.parts), *self.smooth.shape))
        c = self.smooth.first_intercepts
        if W is not None:
            parts[0] = W
            c = self.smooth.centred(parts[0], np.zeros_like(c) if b is None else b)
        return State(parts, parts, c, c)

    def objective(self, state: State, evaluation: Evaluation) -> float:
        """f + penalties at the state's parts, where `evaluation` is f there."""
        return evaluation.value + sum(
            penalty * structure.value(structure.matrix(part))
            for (structure, penalty), part in zip(self.parts, state.parts, strict=True)
            if penalty
        )

    def prox(self, parts: Array) -> Array:
        if len(parts) == 1:
            return self._prox_one(0, parts[0])[None]
        return np.stack([self._prox_one(j, part) for j, part in enumerate(parts)])

    def _prox_one(self, j: int, part: Array) -> Array:
        structure, penalty = self.parts[j]
        if not penalty:
            return part
        if structure.name in SEPARABLE:
            columns = 1 if structure.column == "task" else part.shape[1]
            step: Array | float = np.repeat(self.step, columns) * penalty
        else:
            step = float(self.step[0]) * penalty
        return structure.models(structure.prox(structure.matrix(part), step), part.shape)


def step(problem: Problem, state: State, beta: float, restart: bool = True) -> State:
    """One round: extrapolate by beta, gradient step, proximal map; drop a direction that points uphill."""
    target, c = _forward(problem, state, beta)
    new = problem.prox(target)
    if restart and beta > 0.0 and _uphill(state, beta, new):
        return State(new, new, c, c, state.round + 1, 0)
    return State(new, state.parts, c, state.intercepts, state.round + 1, state.since_restart + 1)


def _forward(problem: Problem, state: State, beta: float) -> tuple[Array, Array]:
    """(parts, intercepts) after extrapolation and gradient step; all parts move along one gradient."""
    smooth, c, c_before = problem.smooth, state.intercepts, state.previous_intercepts
    if len(state.parts) == 1:
        now, before = (state.parts[0], c), (state.previous[0], c_before)
        W, c = smooth.accelerated_step(now, before, beta, problem.step)
        return W[None], c
    z = state.parts + beta * (state.parts - state.previous)
    zc = c + beta * (c - c_before)
    at = smooth.evaluate(z.sum(axis=0), zc)
    return z - problem.step[:, None, None] * at.grad_W, zc - at.grad_c / smooth.loss.smoothness


def _uphill(state: State, beta: float, new: Array) -> bool:
    """<z - new, new - old> > 0: the step undoes part of the momentum (O'Donoghue & Candes 2015)."""
    from taskveil.solvers import kernels_step

    W, before, after = state.parts.ravel(), state.previous.ravel(), new.ravel()
    sums = in_parts(lambda some: kernels_step.uphill(W[some], before[some], beta, after[some]), W.size)
    return sum(sums) > 0.0


def _total(parts: Array) -> Array:
    """The sum of the parts, without a copy where there is one."""
    return parts[0] if len(parts) == 1 else parts.sum(axis=0)


def duality_gap(problem: Problem, state: State, at: Evaluation) -> float:
    """An upper bound on objective - optimum (inf where the structure gives none).

    Fenchel: with G = grad f and a in [0, 1] such that a G lies in every dual ball, the dual value is at least
    -a f*(G) - sum_j penalty_j g_j*(-a G / penalty_j), because f*(0) <= 0 and f* is convex; f*(G) = <G, W> +
    <g, c> - f. Free intercepts ask for g = 0; what is left of g is counted as |g| (1 + |c|), which vanishes
    with it.
    """
    W = _total(state.parts)
    if any(penalty <= 0.0 for _, penalty in problem.parts):
        return float("inf")
    duals = [dual_norm(structure, structure.matrix(at.grad_W)) for structure, _ in problem.parts]
    ratios = [penalty / norm for (_, penalty), norm in zip(problem.parts, duals, strict=True) if norm]
    a = min([1.0, *ratios])
    inner = float(np.sum(at.grad_W * W) + np.sum(at.grad_c * state.intercepts)) - at.value
    dual = -a * inner
    for (structure, penalty), norm in zip(problem.parts, duals, strict=True):
        if norm is None:
            dual -= penalty * conjugate(structure, structure.matrix(at.grad_W) * (-a / penalty))
    slack = float(np.sum(np.abs(at.grad_c) * (1.0 + np.abs(state.intercepts))))
    return problem.objective(state, at) - dual + slack


def minimise(
    block: TaskBlock,
    loss: Loss,
    parts: Sequence[Part],
    *,
    ridge: float = 0.0,
    fit_intercept: bool = True,
    rule: str = "accelerated",
    rounds: int = 5000,
    tol: float = 1e-7,
    restart: bool = True,
    lipschitz: Array | float | None = None,
    start: tuple[Array, Array] | None = None,
) -> Solution:
    """Runs until the duality gap is at most tol times the objective; tol = 0 runs exactly `rounds`.

    `parts` is [(structure, penalty)] or, for W = P + Q, two such pairs.
    """
    problem = Problem(SmoothPart(block, loss, ridge, fit_intercept), parts, lipschitz)
    state = problem.start(*(start or (None, None)))
    return run(problem, state, rule=rule, rounds=rounds, tol=tol, restart=restart)


def run(
    problem: Problem, state: State, *, rule: str = "accelerated", rounds: int = 5000, tol: float = 1e-7, restart: bool = True
) -> Solution:
    """`minimise` from a state of a problem that is already set up."""
    L, smooth, end = float(problem.lipschitz.max(initial=0.0)), problem.smooth, state.round + rounds
    while state.round < end:
        beta = momentum(rule, state.since_restart + 1, smooth.ridge, L)
        before, state = state, step(problem, state, beta, restart)
        if tol > 0.0 and state.round % CHECK_EVERY == 0 and _done(problem, before, state, tol):
            break
    W = _total(state.parts)
    at = smooth.evaluate(W, state.intercepts)
    b = smooth.intercepts(W, state.intercepts)
    gap = duality_gap(problem, state, at)
    return Solution(W, b, state.parts, problem.objective(state, at), gap, state.round)


def _done(problem: Problem, before: State, state: State, tol: float) -> bool:
    at = problem.smooth.evaluate(_total(state.parts), state.intercepts)
    objective = problem.objective(state, at)
    gap = duality_gap(problem, state, at)
    if math.isfinite(gap):
        return gap <= tol * abs(objective)
    # No dual bound: convexity gives gap <= |generalised gradient| * distance; |W| stands for the distance.
    moved = (state.parts - before.parts) / problem.step[:, None, None]
    slopes = math.hypot(float(np.linalg.norm(moved)), float(np.linalg.norm(at.grad_c)))
    return slopes * (1.0 + float(np.linalg.norm(state.parts))) <= tol * abs(objective)


def without_momentum(state: State) -> State:
    """The same point with no direction of travel."""
    return replace(state, previous=state.parts, previous_intercepts=state.intercepts, since_restart=0)
