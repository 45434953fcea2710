"""Differentially private MTL-SVM: clipped personal parts, Moreau steps on w (docs/theory/svm.md#private).

    task k     v_k = argmin (C2/2)|v|^2 + sum c l((w + v)'x), solved to the end; sends clip(v_k, gamma)   (tasks.py)
    release    sum_k clip(v_k, gamma) + N(0, s^2 I)                        (VectorSum, one Gaussian event a round)
    server     w <- w - eta (w - C2 * release),   eta = 1 / (1 + K C2)

-C2 v_k is the gradient of the Moreau envelope of task k's loss, so without noise and clipping this is gradient descent on
F(w) = |w|^2/2 + sum_k M_k(w), whose gradient is (1 + K C2)-Lipschitz: it converges to the optimum of the joint SVM.
Noise on dw instead would leave the dual (+333 % in a check); v_k itself stays exact and with its task.

Theorem      Gaussian mechanism per round, composed over the fixed number of rounds by the plan's accountant.
Unit         task: everything task k sends is clipped as a whole, so any local work, class weights and row counts are covered.
Neighbours   add-remove: gamma; replace-one: 2 gamma (VectorSum).
Observer     other tasks (curator), the server too (local, secure).
Dropouts     a missing task sends zero; eta uses the public K and the noise is not lowered.
Not sent     duality gap, objective, counts, norms: nothing but the clipped v_k; the number of rounds is fixed beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from taskveil.methods.base import PublicInfo, ServerSide, State
from taskveil.methods.svm.tasks import PERSONAL
from taskveil.privacy.plan import Budget

if TYPE_CHECKING:
    from taskveil.methods.svm.method import Svm

MOST_ROUNDS = 10


class PrivateServer(ServerSide):
    """Gradient steps on w from noisy sums."""

    method: Svm
    published = ("shared",)

    def first(self) -> State:
        return {"shared": np.zeros((self.public.n_outputs, self.method.width(self.public)))}

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        w = state["shared"]
        step = self.method.step or 1.0 / (1.0 + self.public.n_tasks * self.method.C2)
        return {"shared": w - step * (w - self.method.C2 * releases[PERSONAL])}


def private_rounds(public: PublicInfo, budget: Budget, size: int) -> int:
    """Rounds from public sizes: as many as keep the noise in w below its signal.

    One release at the whole budget has noise multiplier z ~ sqrt(2 log(1.25/delta))/eps; over T rounds w moves by noise of
    norm about gamma z sqrt(T size outputs) f / K per round (f = 2 for replace-one), against a signal of at most gamma.
    """
    z = math.sqrt(2.0 * math.log(1.25 / max(budget.delta, 1e-12))) / (budget.epsilon or math.inf)
    factor = 2.0 if str(budget.neighbours) == "replace-one" else 1.0
    noise = factor * z * math.sqrt(size * public.n_outputs) / public.n_tasks
    return int(min(max(round(0.25 / max(noise, 1e-9) ** 2), 1), MOST_ROUNDS))
