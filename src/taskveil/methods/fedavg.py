"""Federated averaging with client-level noise: one model for all (McMahan et al. 2017, 2018; the paper's "global").

Clients start from the billboard, walk E local steps on l_k, send w - wbar and remember nothing. The model of every task is
the billboard itself unless it is fine-tuned locally afterwards (`personalise`).
"""

from __future__ import annotations

from taskveil.methods.neural import NeuralMethod


class FedAvg(NeuralMethod):
    __doc__ = "One shared model, averaged from clipped local updates. " + (NeuralMethod.__doc__ or "")

    name = "fedavg"
    work_start = "shared"
    uses_strength = False
    reference = "McMahan, Ramage, Talwar, Zhang 2018, Learning Differentially Private Recurrent Language Models"
