"""Federated multi-task SVM as printed (Ponomarenko-Timofeev et al.): Algorithm 1, to reproduce and to show what it does.

    classification   eq. 32      h = y (1 - y x'(w + v)) / |x|^2 for all rows at once: no box 0 <= a <= C1, no (1 + 1/C2)
    regression       eq. 27      h = -(x'(v - w) - y + e) / (|x|^2 (1/C2 - 1)): wrong sign, divides by zero at C2 = 1
    participant      lines 11-12 sends dw = sum p h x, moves v by sum h x / C2: dw is masked, v is not
    coordinator      line 15     w <- sum_k dw_k: forgets the previous w, and adds K simultaneous steps

This is Algorithm 1 as boxed. Section 4 reads differently (one row after the other, eq. 13-14), and so would a coordinator that
adds dw to its w: `experiments/ponomarenko_2023/readings.py` runs all four readings. A participant whose update was late restarts
from the new w and its own, unrolled v_k (section 3.1).

What is right: methods/svm (docs/theory/svm.md#wrong). Where the iteration diverges a run says so (CheckFailed)
and returns no model: checks gave an objective of 1.6e6 against 28.1 (eq. 27) and a relative error of 2,800 after 60 epochs.
There is no privacy mechanism in the paper; the certificate says "none".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from taskveil.errors import CheckFailed, OptionError
from taskveil.methods.base import Billboard, Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.svm import method
from taskveil.methods.svm.masks import mask_source
from taskveil.methods.svm.tasks import FIGURES, UPDATE, make_problems
from taskveil.privacy.plan import Budget, Plan
from taskveil.solvers.svm_problem import SvmProblem
from taskveil.tasks.block import TaskBlock

ROUNDS = 60
TOO_LARGE = 10.0  # times the objective of the zero model


class Svm(method.Svm):
    """Masks, but no noise."""

    variants = ("paper",)
    central = False  # every scope is Algorithm 1

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        if public.kind == "regression" and self.C2 == 1.0:
            raise OptionError("eq. 27 of the paper divides by 1/C2 - 1: variant='paper' has no regression at C2 = 1")

    def _check_private(self) -> None:
        raise OptionError(
            "the paper's SVM has masks but no noise: variant='paper' needs epsilon=None. Use variant='sound' for a guarantee."
        )

    def n_rounds(self, public: PublicInfo, budget: Budget) -> int:
        """How many rounds there are."""
        return ROUNDS if self.rounds is None else int(self.rounds)

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return PaperTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return PaperServer(self, public, plan)

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        return billboards

    def keeps_history(self, plan: Plan) -> bool:
        return True


class PaperTasks(TaskSide):
    """Algorithm 1, lines 9-14."""

    def __init__(self, method: Svm, block: TaskBlock, public: PublicInfo, plan: Plan) -> None:
        super().__init__(method, block, public, plan)
        self.problems = make_problems(method, block, public)
        self.size = method.width(public)
        self.mask = method.masks.parsed()
        self.source = mask_source(method.masks.seed) if self.mask is not None else None
        self.work = block.sizes.copy()

    def start(self) -> State:
        return {"own": np.zeros((self.block.n_tasks, self.block.n_outputs, self.block.n_features + 1))}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        own = state["own"].copy()
        update, figures = np.zeros_like(own), np.zeros((*own.shape[:2], 2))
        with np.errstate(all="ignore"):
            for o, problem in enumerate(self.problems):
                shared = self._wide(view["shared"][o])
                figures[:, o, 0] = self._values(problem, shared, own[:, o])
                for k in range(self.block.n_tasks):
                    update[k, o] = self._epoch(problem, k, shared, own[k, o], view)
        return {"own": own}, {UPDATE: update[:, :, : self.size], FIGURES: figures}

    def finish(self, state: State, view: View) -> Models:
        if view["diverged"].any():
            raise CheckFailed(
                f"variant='paper' of method 'svm' diverged after {view.round} rounds: the objective passed {TOO_LARGE:g} times "
                "that of the zero model. No model is returned. The printed equations lack the box of the dual (eq. 13), have a "
                "wrong sign (eq. 27) and add simultaneous steps (lines 11, 15); use variant='sound'."
            )
        points = state["own"] + np.stack([self._wide(w) for w in view["shared"]])
        d = self.block.n_features
        return Models(points[:, :, :d], points[:, :, d])

    def _epoch(self, problem: SvmProblem, k: int, w: np.ndarray, v: np.ndarray, view: View) -> np.ndarray:
        """Lines 10-12 of participant k: changes v, returns the (masked) dw of line 11."""
        rows = slice(int(problem.offsets[k]), int(problem.offsets[k + 1]))
        X = np.asarray(self.block.X[rows], dtype=float)
        X = np.concatenate([X, np.full((len(X), 1), problem.constant)], axis=1)
        h = self._weights(problem, rows, X @ w, X @ v)
        v += problem.inverse * (h @ X)
        return (self._mask(k, len(X), view) * h) @ X

    def _weights(self, problem: SvmProblem, rows: slice, shared: np.ndarray, own: np.ndarray) -> np.ndarray:
        """The diagonal of H_k (eq. 32), or eq. 27's step where the target is a number; rows of no length have none."""
        t, squares = problem.target[rows], problem.squares[rows]
        if self.block.kind == "classification":
            step = t * (1.0 - t * (shared + own)) / squares
        else:
            step = -(own - shared - t + problem.band) / (squares * (problem.inverse - 1.0))
        return np.where(squares > 0.0, step, 0.0)

    def _values(self, problem: SvmProblem, shared: np.ndarray, own: np.ndarray) -> np.ndarray:
        """(C2/2)|v|^2 + loss per participant, before this epoch."""
        return 0.5 * self.method.C2 * np.einsum("kd,kd->k", own, own) + problem.losses(shared + own)

    def _mask(self, k: int, size: int, view: View) -> np.ndarray:
        if self.mask is None:
            return np.ones(size)
        name = int(view["position"][k]) if "position" in view else k
        return self.mask.draw(view.round, name, size, self.source)  # type: ignore[arg-type]

    def _wide(self, shared: np.ndarray) -> np.ndarray:
        return shared if shared.size == self.block.n_features + 1 else np.append(shared, 0.0)


class PaperServer(ServerSide):
    """Algorithm 1, lines 15-16, and a watch on the objective."""

    def start(self) -> tuple[State, Billboard]:
        shape = (self.public.n_outputs, self.method.width(self.public))
        state: State = {"round": np.zeros(1, dtype=np.int64), "shared": np.zeros(shape), "zero": np.full(shape[0], np.nan)}
        return state, self._billboard(state, np.zeros(shape[0], bool), np.full(shape[0], np.nan))

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        with np.errstate(all="ignore"):
            w = state["shared"]
            objective = 0.5 * np.einsum("rd,rd->r", w, w) + releases[FIGURES][:, 0]
            zero = np.where(np.isnan(state["zero"]), objective, state["zero"])
            diverged = ~np.isfinite(objective) | (objective > TOO_LARGE * zero)
            new = {"round": state["round"] + 1, "shared": np.nan_to_num(releases[UPDATE]), "zero": zero}
        return new, self._billboard(new, diverged, objective)

    def _billboard(self, state: State, diverged: np.ndarray, objective: np.ndarray) -> Billboard:
        values = {"shared": state["shared"], "diverged": diverged, "objective": objective}
        values["position"] = np.arange(self.public.n_tasks)
        return Billboard(int(state["round"][0]), values, frozenset({"position"}), None, bool(diverged.any()))
