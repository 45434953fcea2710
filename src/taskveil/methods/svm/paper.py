"""`variant="paper"`: the equations as printed, to reproduce and to show what they do.

    classification   eq. 13-14   a <- a + (1 - y x'(w + v)) / (|x|^2 (1 + 1/C2)), no box 0 <= a <= C1
    regression       eq. 27-28   a <- a - (x'(v - w) - y + e) / (|x|^2 (1/C2 - 1)): wrong sign, divides by zero at C2 = 1
    coordinator      line 15     w <- sum_k dw_k: forgets the previous w, and adds K simultaneous steps
    masks            line 11-12  dw is masked, v is not

Rows are visited one after the other in random order (section 4; eq. 30-33 update all at once). A participant whose update
was late restarts from the new w and its own, unrolled v_k (section 3.1).

The sound variant says what is right (docs/theory/svm.md#wrong). Where the iteration diverges this variant says so (CheckFailed)
and returns no model: checks gave an objective of 1.6e6 against 28.1 (eq. 27) and a relative error of 2,800 after 60 epochs.
There is no privacy mechanism in the paper; the certificate says "none".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from taskveil.errors import CheckFailed
from taskveil.methods.base import Billboard, Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.svm.masks import mask_source
from taskveil.methods.svm.tasks import FIGURES, UPDATE, make_problems
from taskveil.solvers.svm_problem import SvmProblem
from taskveil.tasks.block import TaskBlock

if TYPE_CHECKING:
    from taskveil.methods.svm.method import Svm

TOO_LARGE = 10.0  # times the objective of the zero model


class PaperTasks(TaskSide):
    """Algorithm 1, lines 9-14."""

    def __init__(self, method: Svm, block: TaskBlock, public: PublicInfo) -> None:
        self.method, self.block, self.public = method, block, public
        self.problems = make_problems(method, block, public)
        self.size = block.n_features + method.has_intercept(public)
        self.mask = method.parsed_mask()
        self.source = mask_source(method.mask_seed) if self.mask is not None else None
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
                    update[k, o] = self._epoch(problem, k, shared.copy(), own[k, o], view)
        return {"own": own}, {UPDATE: update[:, :, : self.size], FIGURES: figures}

    def finish(self, state: State, view: View) -> Models:
        if view["diverged"].any():
            raise CheckFailed(
                f"variant='paper' of method 'svm' diverged after {view.round} rounds: the objective passed {TOO_LARGE:g} times "
                "that of the zero model. No model is returned. The printed equations lack the box of the dual (eq. 13), have a "
                "wrong sign (eq. 27) and add simultaneous steps (line 15); use variant='sound'."
            )
        points = state["own"] + np.stack([self._wide(w) for w in view["shared"]])
        d = self.block.n_features
        return Models(points[:, :, :d], points[:, :, d])

    def _epoch(self, problem: SvmProblem, k: int, w: np.ndarray, v: np.ndarray, view: View) -> np.ndarray:
        """One pass over the rows of participant k; changes v, returns the (masked) dw of line 11."""
        rows = range(int(problem.offsets[k]), int(problem.offsets[k + 1]))
        order = np.random.default_rng([view.round, len(rows)]).permutation(len(rows))
        p = self._mask(k, len(rows), view)
        sent = np.zeros_like(w)
        for i in order:
            x, t = self._row(problem, rows[i]), problem.target[rows[i]]
            square = problem.squares[rows[i]]
            if square <= 0.0:
                continue
            if self.block.kind == "classification":
                change = t * (1.0 - t * (x @ (w + v))) / (square * (1.0 + problem.inverse))
            else:
                change = -(x @ (v - w) - t + problem.band) / (square * (problem.inverse - 1.0))
            w += change * x
            v += problem.inverse * change * x
            sent += p[i] * change * x
        return sent

    def _values(self, problem: SvmProblem, shared: np.ndarray, own: np.ndarray) -> np.ndarray:
        """(C2/2)|v|^2 + loss per participant, before this epoch."""
        return 0.5 * self.method.C2 * np.einsum("kd,kd->k", own, own) + problem.losses(shared + own)

    def _row(self, problem: SvmProblem, i: int) -> np.ndarray:
        return np.append(self.block.X[i], problem.constant)

    def _mask(self, k: int, size: int, view: View) -> np.ndarray:
        if self.mask is None:
            return np.ones(size)
        name = int(view["position"][k]) if "position" in view else k
        return self.mask.draw(view.round, name, size, self.source)  # type: ignore[arg-type]

    def _wide(self, shared: np.ndarray) -> np.ndarray:
        return shared if shared.size == self.block.n_features + 1 else np.append(shared, 0.0)


class PaperServer(ServerSide):
    """Algorithm 1, lines 15-16, and a watch on the objective."""

    def __init__(self, method: Svm, public: PublicInfo) -> None:
        self.method, self.public = method, public
        self.size = public.n_features + method.has_intercept(public)

    def start(self) -> tuple[State, Billboard]:
        shape = (self.public.n_outputs, self.size)
        state: State = {
            "round": np.zeros(1, dtype=np.int64),
            "shared": np.zeros(shape),
            "zero": np.full(shape[0], np.nan),
        }
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
