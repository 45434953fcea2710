"""A private counterpart of MOCHA: clipped personal parts, one noisy column per participant, a relationship learnt from them.

Split Sigma = S + I/C2, so that w_t = c_t + v_t with c_t = C2 sum_j S_tj v_j. Given its public centre c_t, task t solves
v_t = argmin (C2/2)|v|^2 + sum c l((c_t + v)'x) to the end and puts clip(v_t, gamma) into row t of an otherwise empty table; the
release is the sum of these tables plus Gaussian noise, and the server moves the centres,

    C <- C - eta (C - C2 S V~),   eta = 1 / (1 + C2 |S|_2),

which for S = 11' is the private step of method `svm`. `learned` takes S from the noisy columns: post-processing.

Theorem      as in methods/svm/private.py: VectorSum of the table, one Gaussian event a round; unit task.
Price        the noise of m columns adds up where `svm` releases one sum: centres carry sqrt(m) times its noise. A baseline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from taskveil.methods.base import ServerSide, State, View
from taskveil.methods.svm.tasks import PERSONAL, SvmTasks
from taskveil.structures.relationship import Relationship

if TYPE_CHECKING:
    from taskveil.methods.mocha import Mocha

RIDGE = 1e-3  # share of the identity in a learnt relationship, so that no task is cut off


class PrivateMochaTasks(SvmTasks):
    """The participant of `svm` with a centre of its own, sending its part in its own row of the table."""

    def _shared(self, view: View, o: int) -> np.ndarray:
        centres = view["models"][:, o]
        if len(centres) != self.block.n_tasks:  # a task nobody has seen starts from the average centre
            centres = np.broadcast_to(centres.mean(axis=0), (self.block.n_tasks, self.size))
        wide = np.zeros((self.block.n_tasks, self.block.n_features + 1))
        wide[:, : self.size] = centres
        return wide

    def _placed(self, personal: np.ndarray, view: View) -> np.ndarray:
        k = self.block.n_tasks
        table = np.zeros((k, self.public.n_tasks, *personal.shape[1:]))
        if len(view["position"]) == k:
            table[np.arange(k), view["position"].astype(int)] = personal
        return table


class PrivateMochaServer(ServerSide):
    """Moves the centres c_t by noisy columns."""

    method: Mocha
    published, per_task = ("models", "position"), frozenset({"models", "position"})

    def first(self) -> State:
        m = self.public.n_tasks
        return {"models": np.zeros((m, self.public.n_outputs, self.method.width(self.public))), "position": np.arange(m)}

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        centres, columns, C2 = state["models"], releases[PERSONAL], self.method.C2
        m = self.public.n_tasks
        S = np.ones((m, m)) if self.method.relationship == "mean" else learned_relationship(centres + columns, C2)
        step = 1.0 / (1.0 + C2 * float(np.linalg.eigvalsh(S)[-1]))
        return {"models": centres - step * (centres - C2 * np.einsum("tj,jrd->trd", S, columns))}


def learned_relationship(models: np.ndarray, C2: float) -> np.ndarray:
    """(W'W)^(1/2) scaled to the trace of 11' + I/C2 (Smith et al. 2017, closed form for Omega given W, of Zhang & Yeung 2010)."""
    m = len(models)
    if not np.any(models):
        return np.ones((m, m)) + np.eye(m) / C2
    rows = models.reshape(m, -1)
    return m * (1.0 + 1.0 / C2) * Relationship().covariance(rows @ rows.T, RIDGE)
