"""Private mean-regularised multi-task learning on the neural engine (Hu, Wu, Smith 2023, Algorithm 1).

    min sum_k [ l_k(w_k) + (lambda/2) |w_k - wbar|^2 ],   wbar the mean of all w_k          (eq. 2, 3)

Task k walks E local steps from its own last w_k, sends g_k = w_k - wbar; see neural.py for release and server.
lambda = 0 is learning alone, lambda to infinity one model for all. Linear models without JAX: methods/mean.py.
"""

from __future__ import annotations

from typing import ClassVar

from taskveil.methods.neural import NeuralMethod


class NeuralMean(NeuralMethod):
    __doc__ = "Mean-regularised personal models. " + (NeuralMethod.__doc__ or "")

    name = "mean"
    forms: ClassVar[dict[str, str]] = {"paper": ".papers.hu_2023:Mean"}
