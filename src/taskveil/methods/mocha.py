"""`mocha`: federated multi-task learning with a task relationship (Smith, Chiang, Sanjabi & Talwalkar 2017), hinge or band loss.

    min_W  C1 sum_ik l(w_k'x_ik, y_ik) + 1/2 tr(W Omega W'),   Sigma = Omega^-1
    w_t = sum_j Sigma_tj r_j,   r_j = sum_i b_ij x_ij

The server keeps every participant's r_j (their Delta v), sends participant t its w_t, and each takes dual coordinate steps with
the quadratic form |x|^2 rho Sigma_tt, rho = max_t sum_j |Sigma_tj| / Sigma_tt (their safe choice of sigma';
docs/theory/svm.md#mocha).

relationship="mean"      fixed Sigma = 11' + I/C2: the same optimum as method `svm`, reached by s = K steps
relationship="learned"   Sigma = c (W'W)^(1/2) / tr, c keeps the trace of the fixed one; W and Sigma alternate (their Alg. 1)

Its straggler rule: nobody is dropped, a slow node does less work in a round (their theta_t^h). On the virtual clock the runtime
says how many rows a node has time for (`effort`). The published method has no privacy mechanism: without epsilon the
certificate says "none". With epsilon, private_mocha.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.checks import Choice, Rule
from taskveil.errors import OptionError
from taskveil.methods.base import Billboard, Disclosure, Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.private_mocha import PrivateMochaServer, PrivateMochaTasks, learned_relationship
from taskveil.methods.svm.margins import NO_GUARANTEE, MarginMethod
from taskveil.methods.svm.tasks import EXACT, PERSONAL, limits, make_problems
from taskveil.privacy.contributions import Contribution, VectorSum
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.svm_problem import EMPTY, SvmProblem
from taskveil.tasks.block import TaskBlock

COLUMNS = "columns"
DUAL_TERMS = "dual-terms"


@dataclass(eq=False, repr=False)
class Mocha(MarginMethod):
    """Support vector machines with a relationship between tasks. Options as in `MarginMethod` (svm/margins.py), and

    relationship    "mean" (fixed) or "learned"
    update_every    rounds between two updates of a learned relationship
    local_passes    passes over a participant's rows in one round
    """

    name = "mocha"
    rules: ClassVar[dict[str, Rule]] = {"relationship": Choice("mean", "learned")}
    reference = "Smith, Chiang, Sanjabi, Talwalkar 2017, Federated Multi-Task Learning, Alg. 1"

    tol: float = 1e-3
    relationship: str = "learned"
    update_every: int = 10
    local_passes: int = 1

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        private = budget.epsilon is not None
        rounds = (1 if private else 200) if self.rounds is None else self.rounds
        shape = (public.n_tasks, public.n_outputs, public.n_features + self.has_intercept(public))
        if private:
            return [Request(PERSONAL, t, VectorSum(shape, self.clip)) for t in range(1, rounds + 1)]
        columns, figures = VectorSum(shape, Contribution.unbounded), VectorSum((2,), Contribution.unbounded)
        return [
            Request(name, t, what) for t in range(1, rounds + 1) for name, what in ((COLUMNS, columns), (DUAL_TERMS, figures))
        ]

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        if plan.budget.epsilon is not None:
            return PrivateMochaTasks(self, block, public, plan)
        return MochaTasks(self, block, public)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        if plan.budget.epsilon is not None:
            return PrivateMochaServer(self, public, plan)
        return MochaServer(self, public)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {"position": (0, public.n_tasks - 1)}

    def disclosure(self, public: PublicInfo, plan: Plan) -> Disclosure:
        return Disclosure(not_protected=(NO_GUARANTEE,) if plan.budget.epsilon is None else ())


class MochaTasks(TaskSide):
    """Local dual steps at w_t with curvature rho Sigma_tt; a message is the change of r_t, in row t of an empty table."""

    def __init__(self, method: Mocha, block: TaskBlock, public: PublicInfo) -> None:
        self.method, self.block, self.public = method, block, public
        self.problems = make_problems(method, block, public)
        self.position = np.arange(block.n_rows) - np.repeat(block.offsets[:-1], block.sizes)
        self.size = block.n_features + method.has_intercept(public)
        self.work = np.zeros(block.n_tasks, dtype=np.int64)

    def start(self) -> State:
        most = int(self.block.sizes.max(initial=0))
        return {"dual": np.zeros((self.block.n_tasks, self.block.n_outputs, most))}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        k, r = self.block.n_tasks, self.block.n_outputs
        if len(view["models"]) != k:  # a task the server does not know: nothing to send
            return state, {}
        dual = state["dual"].copy()
        table, figures = np.zeros((k, self.public.n_tasks, r, self.size)), np.zeros((k, 2))
        slots = view["position"].astype(int)
        self.work[:] = 0
        for o, problem in enumerate(self.problems):
            points = np.zeros((k, problem.size))
            points[:, : self.size] = view["models"][:, o]
            figures[:, 0] += problem.losses(points)
            flat = dual[self.block.task_of_row, o, self.position]
            new = flat.copy()
            once = {"cycles": 1, "passes": self.method.local_passes, "shrink": 0.0, "precision": 0.0}
            self._visit(problem, new, points, view["curvature"], view, once)
            table[np.arange(k), slots, o] = problem.sums(new - flat)[:, : self.size]
            figures[:, 1] += problem.dual_terms(new) - problem.dual_terms(flat)
            dual[self.block.task_of_row, o, self.position] = new
        return {"dual": dual}, {COLUMNS: table, DUAL_TERMS: figures}

    def finish(self, state: State, view: View) -> Models:
        """w_t with r_t solved to the end for what the others sent: nobody else sees it, and rows held out have no part in it."""
        w, k = view["models"], self.block.n_tasks
        if len(w) != k:
            raise OptionError("method 'mocha' has no model for a task that did not take part; use method='svm' or 'mean'")
        d, wide = self.block.n_features, np.zeros((*w.shape[:2], self.block.n_features + 1))
        for o, problem in enumerate(self.problems):
            dual, points = state["dual"][self.block.task_of_row, o, self.position], np.zeros((k, problem.size))
            points[:, : self.size] = w[:, o] - view["scale"][:, None] * view["column"][:, o]
            points += view["scale"][:, None] * problem.sums(dual)
            self._visit(problem, dual, points, view["scale"], view, EXACT)
            wide[:, o, : self.size] = points[:, : self.size]
        return Models(wide[:, :, :d], wide[:, :, d])

    def _visit(
        self, problem: SvmProblem, dual: np.ndarray, points: np.ndarray, scales: np.ndarray, view: View, effort: dict[str, float]
    ) -> None:
        """Dual steps of every participant at its point, which moves along; both arrays are changed."""
        from taskveil.solvers.dual_coordinate import visit_tasks

        everyone = np.ones(self.block.n_tasks, dtype=bool)
        self.work += visit_tasks(  # type: ignore[call-arg]
            *problem.rows, *problem.boxes, EMPTY, problem.offsets, scales, dual, points,
            effort["cycles"], effort["passes"], effort["shrink"], effort["precision"], limits(view, everyone), view.round + 1,
        )  # fmt: skip


class MochaServer(ServerSide):
    """Keeps all r_j (tasks, outputs, size), the relationship, and the gap for the relationship at hand."""

    def __init__(self, method: Mocha, public: PublicInfo) -> None:
        self.method, self.public = method, public
        self.size = public.n_features + method.has_intercept(public)

    def start(self) -> tuple[State, Billboard]:
        m = self.public.n_tasks
        state: State = {
            "round": np.zeros(1, dtype=np.int64),
            "columns": np.zeros((m, self.public.n_outputs, self.size)),
            "relationship": np.ones((m, m)) + np.eye(m) / self.method.C2,
            "dual_terms": np.zeros(1),
        }
        return state, self._billboard(state)

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        models = self._models(state)
        quadratic = 0.5 * float(np.sum(models * state["columns"]))  # tr(W Omega W')/2 = tr(R Sigma R')/2
        primal, dual = quadratic + releases[DUAL_TERMS][0], state["dual_terms"][0] - quadratic
        gap = (primal - dual) / max(abs(primal), 1e-300)
        state = {
            "round": state["round"] + 1,
            "columns": state["columns"] + releases[COLUMNS],
            "relationship": state["relationship"],
            "dual_terms": state["dual_terms"] + releases[DUAL_TERMS][1],
        }
        fixed = self.method.relationship == "mean"
        if not fixed and state["round"][0] % self.method.update_every == 0:
            state["relationship"] = learned_relationship(self._models(state), self.method.C2)
        return state, self._billboard(state, gap, fixed and gap <= self.method.tol)

    def _models(self, state: State) -> np.ndarray:
        return np.einsum("tj,jrd->trd", state["relationship"], state["columns"])

    def _billboard(self, state: State, gap: float = np.inf, done: bool = False) -> Billboard:
        sigma = state["relationship"]
        rho = float(np.max(np.abs(sigma).sum(axis=1) / np.diag(sigma)))
        values = {
            "models": self._models(state),
            "curvature": rho * np.diag(sigma),
            "scale": np.diag(sigma).copy(),
            "column": state["columns"],
            "position": np.arange(self.public.n_tasks),
            "gap": np.array([gap]),
        }
        per_task = frozenset({"models", "curvature", "scale", "column", "position"})
        return Billboard(int(state["round"][0]), values, per_task, None, done)
