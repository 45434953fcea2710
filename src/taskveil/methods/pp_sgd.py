"""PP-SGD: a shared and a private additive part (Bietti, Wei, Dudik, Langford, Wu 2022), for linear models.

    gradient g of l_i at w + theta_i;  theta_i <- theta_i - eta g  (private);  w <- w - eta_w (mean clip(g) + noise)

One full gradient per round and client, Poisson cohorts and expected cohort size as in neural.py. The model of task i is
w + theta_i. eta is `learning_rate`, eta_w is `server_rate`.

In a private run with one score per row (numbers, two classes) a task takes, in the end, its private part from its own rows
instead: it averages over models around w, along w and alone by their evidence, as `mean` does. A walk of few noisy rounds leaves
theta_i unfinished, and nobody would ask whether w helps at all. personalise="none" leaves w + theta_i as it is.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from taskveil.checks import Choice, Rule
from taskveil.methods.base import Models, State, View
from taskveil.methods.mean import personal_models
from taskveil.methods.neural import NeuralMethod
from taskveil.methods.neural_sides import NeuralServer, NeuralTasks
from taskveil.methods.shared_prior import STATED


class ResidualTasks(NeuralTasks):
    """In the end fit what the shared model leaves over."""

    def finish(self, state: State, view: View) -> Models:
        r, as_it_is = self.public.n_outputs, self.method.tune.personalise is not None or self.method.features is not None
        if as_it_is or r > 1 or self.plan.budget.epsilon is None:
            return super().finish(state, view)
        weights = np.asarray(self._anchors(view), dtype=np.float64)[:, r:].reshape(-1, r).T  # after the bias, feature by feature
        heads = personal_models(self.block, self.public, weights, personalise=True, doubt=STATED)  # nobody has tested w
        params = np.hstack([heads.intercept, heads.coef.transpose(0, 2, 1).reshape(self.block.n_tasks, -1)])
        none = np.zeros((*heads.intercept.shape, 0))
        return Models(none, np.zeros_like(heads.intercept), heads.kept, {"params": params.astype(np.float32)})

    def unchanged(self, state: State, anchors: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self._shared(anchors, member) + np.asarray(self._own_models(state))


class DescendingServer(NeuralServer):
    """Steps against the noisy mean gradient."""

    def moved(self, state: State, update: np.ndarray, t: int) -> State:
        """The shared parameters after a step against the mean gradient."""
        return super().moved(state, -update, t)


class PPSGD(NeuralMethod):
    __doc__ = "Shared plus private part, one clipped gradient per round. " + (NeuralMethod.__doc__ or "")

    name = "pp-sgd"
    rules: ClassVar[dict[str, Rule]] = {"model": Choice("linear", "softmax")}  # it adds two linear models
    tasks, server = ResidualTasks, DescendingServer
    work_kind = "residual"
    uses_strength = False
    default_personalise = "none"
    reference = "Bietti, Wei, Dudik, Langford, Wu 2022, Personalization Improves Privacy-Accuracy Tradeoffs"
