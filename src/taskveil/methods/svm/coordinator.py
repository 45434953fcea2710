"""The coordinator without privacy: rounds until the duality gap is small.

`quasi-newton`  everybody answers. The shared problem  min_w F(w) = |w|^2/2 + sum_k M_k(w)  is smooth: M_k is the Moreau
                envelope of participant k's loss, its gradient -r_k(w), and the answers give F, its gradient w - sum r_k and
                the duality gap exactly. Limited-memory BFGS on the server turns them into the next w. Measured on HAR (20
                participants, gap 1e-3, several constants): 9-25 rounds, where s = K needs 46-150 and more, and an accelerated
                s = K (FISTA with restarts) 24-150; see experiments/ponomarenko_2023.
`safe`          some answers are missing, or steps are masked. w = sum of acknowledged r_k, participants work with scaling s.
                s = (answers) always increases the dual (CoCoA+, Ma et al. 2015); s is lowered while the dual still rises. A round
                in which it fell is refused as a whole (nobody is listed as accepted, all roll back) and s is doubled. Adding up
                the steps with s = 1, as the paper's line 15 does, diverges.

`auto` begins with the first and changes to the second, for good, when an answer is missing.
Line 15 of Algorithm 1 forgets w^(j); here the sum of all acknowledged changes is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from taskveil.methods.base import Billboard, ServerSide, State
from taskveil.methods.svm.tasks import FIGURES, UPDATE
from taskveil.solvers import limited_memory

if TYPE_CHECKING:
    from taskveil.methods.svm.method import Svm

MEMORY = 30
SHRINK, GROW, LEAST = (0.9, 2.0, 0.05)  # of s: after a good round, after a bad one, and its least value as a share of K
PREFIX = "memory_"


class SvmServer(ServerSide):
    """Keeps total = sum of acknowledged r_k (outputs, size) and the dual terms that belong to it."""

    method: Svm

    def start(self) -> tuple[State, Billboard]:
        shape = (self.public.n_outputs, self.method.width(self.public))
        r = shape[0]
        safe = self.method.coordinator == "safe" or self.method.masks.parsed() is not None
        first = 1.0 / (1.0 + self.public.n_tasks * self.method.C2)  # 1/L of F
        memory = limited_memory.start(np.zeros(shape), MEMORY, first)
        state: State = {
            "round": np.zeros(1, dtype=np.int64),
            "total": np.zeros(shape),
            "dual_terms": np.zeros(r),
            "scaling": np.array([float(self.public.n_tasks) if safe else 0.0]),
            "shared": np.zeros(shape),
            "best_shared": np.zeros(shape),
            "best_primal": np.full(r, np.inf),
            "best_dual": np.full(r, -np.inf),
            **{PREFIX + name: array for name, array in memory.items()},
        }
        return state, self._billboard(state, None)

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        state = {**state, "round": state["round"] + 1}
        total = state["total"] + releases[UPDATE]
        terms = state["dual_terms"] + releases[FIGURES][:, 1]
        dual = terms - 0.5 * np.einsum("rd,rd->r", total, total)
        if accepted.all():
            self._note_primal(state, releases[FIGURES][:, 0])
        if state["scaling"][0] == 0.0 and accepted.all():
            state = {**state, "total": total, "dual_terms": terms, "best_dual": np.maximum(state["best_dual"], dual)}
            state["shared"] = self._quasi_newton(state, releases[FIGURES][:, 0], total)
        else:
            state, accepted = self._safe(state, total, terms, dual, accepted)
        done = bool(np.all(self._gaps(state) <= self.method.tol)) and not self._drifting()
        if done or state["round"][0] >= len(self.plan.rounds()):
            state["shared"] = self._last_point(state)
        return state, self._billboard(state, accepted, done)

    def _quasi_newton(self, state: State, values: np.ndarray, total: np.ndarray) -> np.ndarray:
        w = state["shared"]
        memory = {name: state[PREFIX + name] for name in state_names(state)}
        memory = limited_memory.advance(memory, 0.5 * np.einsum("rd,rd->r", w, w) + values, w - total)
        for name, array in memory.items():
            state[PREFIX + name] = array
        return memory["point"]

    def _safe(
        self, state: State, total: np.ndarray, terms: np.ndarray, dual: np.ndarray, accepted: np.ndarray
    ) -> tuple[State, np.ndarray]:
        """Accept the round if the dual rose, else refuse all of it; move s."""
        s = float(state["scaling"][0]) or float(max(accepted.sum(), 1))
        most = float(self.public.n_tasks)
        old = state["dual_terms"] - 0.5 * np.einsum("rd,rd->r", state["total"], state["total"])
        drifting = self._drifting()
        if drifting or dual.sum() >= old.sum():
            state = {**state, "total": total, "dual_terms": terms, "best_dual": np.maximum(state["best_dual"], dual)}
            s = s if drifting else max(SHRINK * s, LEAST * most)
        else:
            accepted, s = np.zeros_like(accepted), min(GROW * s, most)
        state["scaling"] = np.array([s])
        state["shared"] = state["total"].copy()
        return state, accepted

    def _drifting(self) -> bool:
        """With the paper's masks w leaves the dual: no gap is meaningful and no round can be judged by it."""
        return self.method.masks.parsed() is not None and self.method.masks.mode == "paper"

    def _note_primal(self, state: State, values: np.ndarray) -> None:
        """Everybody answered: P at (the w they were sent, the v they have now) bounds the optimum from above."""
        w = state["shared"]
        primal = 0.5 * np.einsum("rd,rd->r", w, w) + values
        better = primal < state["best_primal"]
        state["best_primal"] = np.where(better, primal, state["best_primal"])
        state["best_shared"] = np.where(better[:, None], w, state["best_shared"])

    def _gaps(self, state: State) -> np.ndarray:
        """Relative duality gap per output; infinite until everybody has answered once."""
        primal = state["best_primal"]
        with np.errstate(invalid="ignore"):
            gaps = (primal - state["best_dual"]) / np.maximum(np.abs(primal), 1e-300)
        return np.where(np.isfinite(primal), gaps, np.inf)

    def _last_point(self, state: State) -> np.ndarray:
        """What is published when no further round will evaluate it: the best w seen, or the sum of the acknowledged."""
        return state["best_shared"] if state["scaling"][0] == 0.0 else state["total"]

    def _billboard(self, state: State, accepted: np.ndarray | None, done: bool = False) -> Billboard:
        values = {"shared": state["shared"], "scaling": state["scaling"], "gap": self._gaps(state)}
        per_task: frozenset[str] = frozenset()
        if self.method.masks.parsed() is not None:
            values["position"] = np.arange(self.public.n_tasks)
            per_task = frozenset({"position"})
        missing = accepted is not None and not accepted.all()
        return Billboard(int(state["round"][0]), values, per_task, accepted if missing else None, done)


def state_names(state: State) -> list[str]:
    """Names of the arrays that a state remembers from earlier rounds, without their prefix."""
    return [name.removeprefix(PREFIX) for name in state if name.startswith(PREFIX)]
