"""All rows in one process: `sequential` joint training, and the baselines `local` (w = 0) and `pooled` (v = 0).

No message is sent because nothing is distributed. `local` really shares nothing; the other two put the rows of all tasks
into one solver, which is what a federation avoids: they exist without privacy only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from taskveil.errors import OptionError
from taskveil.methods.base import Message, Models, PublicInfo, State, TaskSide, View
from taskveil.methods.svm.tasks import make_problems
from taskveil.privacy.plan import Plan
from taskveil.solvers.sequential_svm import SvmSolution, solve_sequential
from taskveil.solvers.svm_problem import SvmProblem
from taskveil.tasks.block import TaskBlock

if TYPE_CHECKING:
    from taskveil.methods.svm.method import Svm


class CentralTasks(TaskSide):
    """Solves when asked for models."""

    def __init__(self, method: Svm, block: TaskBlock, public: PublicInfo, plan: Plan) -> None:
        super().__init__(method, block, public, plan)
        if method.scope != "local" and block.n_tasks != public.n_tasks:
            raise OptionError(
                f"scope {method.scope!r} with mode {method.mode!r} needs the rows of all {public.n_tasks} tasks in one place; "
                f"this block holds {block.n_tasks}. Use mode='federated'."
            )

    def step(self, state: State, view: View) -> tuple[State, Message]:
        return state, {}

    def finish(self, state: State, view: View) -> Models:
        d = self.block.n_features
        points = np.zeros((self.block.n_tasks, self.block.n_outputs, d + 1))
        gaps = np.zeros((self.block.n_tasks, self.block.n_outputs))
        for o, problem in enumerate(make_problems(self.method, self.block, self.public)):
            solution = solve_scope(problem, self.method.scope, self.method.tol)
            points[:, o] = solution.shared + solution.own
            gaps[:, o] = solution.gap
        return Models(points[:, :, :d], points[:, :, d], extra={"gap": gaps})


def solve_scope(problem: SvmProblem, scope: str, tol: float) -> SvmSolution:
    """Joint, alone or pooled to the same relative duality gap.

    Alone is the joint problem with w forced to zero, hence single SVMs with cost C1/C2. Pooled rows are one participant.
    """
    if scope == "pooled":
        whole = replace(problem, offsets=np.array([0, problem.n_rows], dtype=np.int64)).with_scope("pooled")
        solution = solve_sequential(whole, tol)
        own = np.zeros((problem.n_tasks, problem.size))
        return replace(solution, own=own)
    return solve_sequential(problem.with_scope(scope), tol)
