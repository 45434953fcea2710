"""What a participant does: solve for its own part given the shared one, and send the change of r_k = sum_i b_i x_i.

Given w and the scaling s of the billboard, participant k takes dual coordinate steps on its own rows with the quadratic
form |x|^2 (s + 1/C2), starting from its last *acknowledged* duals:

    s = 0    to the end: v_k = r_k / C2 = argmin (C2/2)|v|^2 + sum c l((w + v)'x), and -r_k is the gradient of the Moreau
             envelope M_k(w) of the loss. This is also all the private version needs.
    s > 0    a few passes; the participant sees its own change of w scaled by s (CoCoA+, Ma et al. 2015: s = K always converges)

A participant whose message did not make it into the sum finds its number missing on the next billboard and restores
(b_k, r_k) to the last acknowledged state; otherwise w = sum r_k would be lost (1.3 % off with half late:
docs/theory/svm.md#late). Eq. 13 is used with its box, eq. 26-27 with the right sign and divisor.

State (first axis: participants): dual (k, outputs, most rows), padded; sums (k, outputs, size); the same twice, new and kept.
Messages: `update` (outputs, size) and, without privacy only, `figures` (outputs, 2): envelope value, change of the dual
terms. The figures are un-noised private numbers: they exist where the certificate says "none".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError
from taskveil.methods.base import Message, Models, PublicInfo, State, TaskSide, View
from taskveil.methods.svm.masks import mask_source
from taskveil.privacy.plan import Plan
from taskveil.solvers.svm_problem import EMPTY, SvmProblem, make_problem
from taskveil.tasks.block import TaskBlock

if TYPE_CHECKING:
    from taskveil.methods.svm.margins import MarginMethod

UPDATE, FIGURES, PERSONAL = "update", "figures", "personal"
REFRESH = 20  # rounds after which sums are added up afresh, so that rounding does not build up
EXACT = {"cycles": 60, "passes": 200, "shrink": 0.1, "precision": 1e-3}


def make_problems(method: MarginMethod, block: TaskBlock, public: PublicInfo) -> list[SvmProblem]:
    """One problem per output. Held-out rows (weight 0) get an empty box and so drop out."""
    if block.kind == "classification" and not np.isin(block.y, (-1.0, 1.0)).all():
        raise DataError("a classification SVM needs labels of two classes, or one column -1/+1 per class")
    problems = []
    for o in range(block.n_outputs):
        y = block.y[:, o]
        factors = np.ones(block.n_rows) if block.weights is None else block.weights.astype(np.float64)
        if block.kind == "classification":
            factors = factors * method.class_factors(y, block.offsets)
        problems.append(
            make_problem(
                block.X, y, block.offsets, method.loss_of(public), method.C1, method.C2, method.has_intercept(public), factors
            )
        )
    return problems


class SvmTasks(TaskSide):
    """A block of participants."""

    merges_inactive = True

    def __init__(self, method: Any, block: TaskBlock, public: PublicInfo, plan: Plan) -> None:
        super().__init__(method, block, public, plan)
        self.private = plan.budget.epsilon is not None
        self.problems = make_problems(method, block, public)
        self.position = np.arange(block.n_rows) - np.repeat(block.offsets[:-1], block.sizes)
        self.size = method.width(public)
        self.mask = None if self.private else method.masks.parsed()
        self.source = mask_source(method.masks.seed) if self.mask is not None else None
        self.work = np.zeros(block.n_tasks, dtype=np.int64)  # rows scored in the last step, for the virtual clock

    def start(self) -> State:
        k, r = self.block.n_tasks, self.block.n_outputs
        most = int(self.block.sizes.max(initial=0))
        dual, sums = np.zeros((k, r, most)), np.zeros((k, r, self.block.n_features + 1))
        return {"dual": dual, "sums": sums, "kept_dual": dual, "kept_sums": sums}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        state = settle(state, view.accepted)
        active = np.ones(self.block.n_tasks, bool) if view.active is None else view.active
        dual, sums = state["dual"].copy(), state["sums"].copy()
        update = np.zeros_like(sums)
        figures = np.zeros((*sums.shape[:2], 2))
        scaling = float(view["scaling"][0]) if "scaling" in view else 0.0
        damping = self._damping(view)
        consistent = damping.size == 0 or self.method.masks.mode == "consistent"
        self.work[:] = 0
        for o, problem in enumerate(self.problems):
            shared = self._shared(view, o)
            before = self._flat(dual, o)
            step_damping = damping if consistent else EMPTY
            after, moved = self._solve(problem, shared, sums[:, o], before, scaling, view, step_damping, active)
            new_sums = problem.sums(after) if view.round % REFRESH == 0 else sums[:, o] + moved
            update[:, o] = new_sums - sums[:, o] if consistent else problem.sums(damping * (after - before))
            if not self.private:
                figures[:, o] = self._figures(problem, shared, before, after, sums[:, o], new_sums)
            sums[:, o] = new_sums
            dual[self.block.task_of_row, o, self.position] = after
        new = {"dual": dual, "sums": sums, "kept_dual": state["kept_dual"], "kept_sums": state["kept_sums"]}
        in_cohort = active[:, None, None]
        if self.private:
            personal = np.where(in_cohort, sums[:, :, : self.size] / self.method.C2, 0.0)
            return acknowledge(new), {PERSONAL: self._placed(personal, view)}
        return new, {UPDATE: np.where(in_cohort, update[:, :, : self.size], 0.0), FIGURES: np.where(in_cohort, figures, 0.0)}

    def finish(self, state: State, view: View) -> Models:
        """w + v_k with v_k solved to the end for the final w: nobody else sees it."""
        state = settle(state, view.accepted)
        coef = np.zeros(state["sums"].shape)
        everyone = np.ones(self.block.n_tasks, bool)
        for o, problem in enumerate(self.problems):
            shared = self._shared(view, o)
            dual = self._flat(state["dual"], o)
            dual, _ = self._solve(problem, shared, state["sums"][:, o], dual, 0.0, view, EMPTY, everyone)
            coef[:, o] = shared + problem.inverse * problem.sums(dual)
        d = self.block.n_features
        return Models(coef[:, :, :d], coef[:, :, d])

    # ------------------------------------------------------------ pieces

    def _solve(
        self,
        problem: SvmProblem,
        shared: np.ndarray,
        sums: np.ndarray,
        dual: np.ndarray,
        scaling: float,
        view: View,
        damping: np.ndarray,
        active: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """New duals (N,) of all active participants and how far their sums moved; `sums` belong to `dual`.

        The steps move a participant's point by scale times the change of its sum, so the sum needs no pass of its own.
        """
        from taskveil.solvers.dual_coordinate import visit_tasks

        points = np.ascontiguousarray(shared + problem.inverse * sums)
        scales = np.full(self.block.n_tasks, scaling + problem.inverse)
        effort = EXACT if scaling == 0.0 else self.method.effort()
        new, before = dual.copy(), points.copy()
        self.work += visit_tasks(  # type: ignore[call-arg]
            *problem.rows, *problem.boxes, damping, problem.offsets, scales, new, points,
            effort["cycles"], effort["passes"], effort["shrink"], effort["precision"],
            limits(view, active), view.round + 1,
        )  # fmt: skip
        return new, (points - before) / scales[:, None]

    def _figures(
        self,
        problem: SvmProblem,
        shared: np.ndarray,
        before: np.ndarray,
        after: np.ndarray,
        old_sums: np.ndarray,
        sums: np.ndarray,
    ) -> np.ndarray:
        """(k, 2): |r|^2/(2 C2) + loss at w + r/C2; and the change of sum (t b - e|b|) - |r|^2/(2 C2)."""
        old = problem.dual_terms(before) - half_squares(problem, old_sums)
        new = problem.dual_terms(after) - half_squares(problem, sums)
        value = half_squares(problem, sums) + problem.losses(shared + problem.inverse * sums)
        return np.stack([value, new - old], axis=1)

    def _damping(self, view: View) -> np.ndarray:
        """A fresh mask per participant and epoch; empty without masks."""
        if self.mask is None:
            return EMPTY
        names = view["position"] if "position" in view else np.arange(self.block.n_tasks)
        parts = [
            self.mask.draw(view.round, int(name), int(size), self.source)  # type: ignore[arg-type]
            for name, size in zip(names, self.block.sizes)
        ]
        return np.concatenate(parts) if parts else EMPTY

    def _placed(self, personal: np.ndarray, view: View) -> np.ndarray:
        """Personal parts (k, outputs, size) as messages."""
        return personal

    def _flat(self, padded: np.ndarray, o: int) -> np.ndarray:
        return padded[self.block.task_of_row, o, self.position]

    def _shared(self, view: View, o: int) -> np.ndarray:
        """w, with the entry of the intercept (zero where there is none); one for all, or one row per participant."""
        w = view["shared"][o]
        return w if self.size == self.block.n_features + 1 else np.append(w, 0.0)


def settle(state: State, accepted: np.ndarray | None) -> State:
    """Take over what was acknowledged; give up what was dropped (docs/theory/svm.md#late). A new task has nothing to settle."""
    if accepted is None or accepted.shape != state["sums"].shape[:1] or accepted.all():
        return acknowledge(state)
    taken = accepted[:, None, None]
    dual = np.where(taken, state["dual"], state["kept_dual"])
    sums = np.where(taken, state["sums"], state["kept_sums"])
    return {"dual": dual, "sums": sums, "kept_dual": dual, "kept_sums": sums}


def half_squares(problem: SvmProblem, sums: np.ndarray) -> np.ndarray:
    """|r_k|^2 / (2 C2)."""
    return 0.5 * problem.inverse * np.einsum("kd,kd->k", sums, sums)


def acknowledge(state: State) -> State:
    """The state after the server took a message: what was sent becomes what is kept."""
    return {**state, "kept_dual": state["dual"], "kept_sums": state["sums"]}


def limits(view: View, active: np.ndarray) -> np.ndarray:
    """Rows each participant may score: -1 for those not asked, 0 for no limit, or what the clock leaves it (`effort`)."""
    allowed = view["effort"].astype(np.int64) if "effort" in view else np.zeros(active.size, dtype=np.int64)
    return np.where(active, allowed, -1)
