"""PP-SGD: a shared and a private additive part (Bietti, Wei, Dudik, Langford, Wu 2022), for linear models.

    gradient g of l_i at w + theta_i;  theta_i <- theta_i - eta g  (private);  w <- w - eta_w (mean clip(g) + noise)

One full gradient per round and client, Poisson cohorts and expected cohort size as in neural.py. The model of task i is
w + theta_i. eta is `learning_rate`, eta_w is `server_rate`.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from taskveil.checks import Choice, Rule
from taskveil.methods.base import PublicInfo, ServerSide, State
from taskveil.methods.neural import NeuralMethod
from taskveil.methods.neural_sides import NeuralServer, NeuralTasks
from taskveil.privacy.plan import Plan


class PPSGD(NeuralMethod):
    __doc__ = "Shared plus private part, one clipped gradient per round. " + (NeuralMethod.__doc__ or "")

    name = "pp-sgd"
    rules: ClassVar[dict[str, Rule]] = {"model": Choice("linear", "softmax")}  # it adds two linear models
    variants = ("sound",)
    work_kind = "residual"
    uses_strength = False
    default_personalise = "none"
    reference = "Bietti, Wei, Dudik, Langford, Wu 2022, Personalization Improves Privacy-Accuracy Tradeoffs"

    def task_side(self, block: Any, public: PublicInfo, plan: Plan) -> NeuralTasks:
        return ResidualTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return DescendingServer(self, public, plan)


class ResidualTasks(NeuralTasks):
    def unchanged(self, state: State, anchors: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self._shared(anchors, member) + np.asarray(self._own_models(state))


class DescendingServer(NeuralServer):
    def move(self, mean: np.ndarray, update: np.ndarray) -> np.ndarray:
        return mean - self.method.server_rate * update
