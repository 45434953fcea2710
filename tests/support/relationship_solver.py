"""Task relationship learning (Zhang & Yeung 2010): models and the covariance between tasks, together.

    min over W, b, Omega of  sum_i L_i(w_i, b_i) + (penalty/2) tr(W Omega^-1 W'),      Omega >= 0, tr Omega =
    1

`relationship_optimum` minimises over Omega in closed form first, which leaves (penalty/2)|W|_*^2
(structures/relationship.py), and runs proximal gradient on W alone. `alternate` is the published algorithm:
for fixed Omega an accelerated descent on W, for fixed W the closed form Omega = (W'W)^(1/2) / tr. Both stop
at a duality gap of the joint problem.

Where `alternate` differs from the paper: Omega keeps a share of the identity that falls like 1/round. Without
it W'W is singular (always so with more tasks than features), a direction once lost never comes back and the
alternation stalls above the optimum: 0.4 % to 3 % in our checks, where this one is at 0.1 % after 200 rounds
and falling. It is linear only where Omega stays well conditioned, hence `relationship_optimum`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Loss
from taskveil.solvers.centred import SmoothPart
from taskveil.structures.relationship import Relationship
from taskveil.tasks.block import TaskBlock
from tests.support.fixed_relationship import FixedRelationship
from tests.support.proximal_gradient import Problem, duality_gap, run, without_momentum

Array = NDArray[np.floating]
FIRST_SHARE = 0.1  # of the trace, given to every direction of Omega in round 1


@dataclass(frozen=True)
class RelationshipSolution:
    """Models W (m, r, d), intercepts (m, r), task covariance (m, m); `gap` bounds objective - optimum."""

    W: Array
    intercepts: Array
    omega: Array
    objective: float
    gap: float
    rounds: int


def relationship_optimum(
    block: TaskBlock, loss: Loss, penalty: float, *, fit_intercept: bool = True, rounds: int = 5000, tol: float = 1e-7
) -> RelationshipSolution:
    """The joint optimum by proximal gradient on (penalty/2)|W|_*^2; tol relative to the objective."""
    joint = Problem(SmoothPart(block, loss, fit_intercept=fit_intercept), [(Relationship(), penalty)])
    solution = run(joint, joint.start(), rounds=rounds, tol=tol)
    W = Relationship().matrix(solution.W)
    omega = Relationship().covariance(W.T @ W)
    return RelationshipSolution(solution.W, solution.intercepts, omega, solution.objective, solution.gap, solution.rounds)


def alternate(
    block: TaskBlock,
    loss: Loss,
    penalty: float,
    *,
    fit_intercept: bool = True,
    rounds: int = 200,
    inner_rounds: int = 2000,
    tol: float = 1e-7,
) -> RelationshipSolution:
    """Alternates until the joint gap is at most tol times the objective; tol = 0 runs exactly `rounds`."""
    smooth, structure = SmoothPart(block, loss, fit_intercept=fit_intercept), Relationship()
    joint = Problem(smooth, [(structure, penalty)])
    omega: Array = np.eye(block.n_tasks) / block.n_tasks
    state = joint.start()
    for done in range(1, max(rounds, 1) + 1):
        given = Problem(smooth, [(FixedRelationship(omega), penalty)], joint.lipschitz)
        inner = run(given, without_momentum(state), rounds=inner_rounds, tol=0.1 * tol or 1e-9)
        state = joint.start(inner.W, inner.intercepts)
        W = structure.matrix(inner.W)
        omega = structure.covariance(W.T @ W, ridge=min(0.5, FIRST_SHARE * block.n_tasks / done))
        at = smooth.evaluate(inner.W, state.intercepts)
        objective, gap = joint.objective(state, at), duality_gap(joint, state, at)
        if tol > 0.0 and gap <= tol * objective:
            break
    return RelationshipSolution(inner.W, inner.intercepts, omega, objective, gap, done)
