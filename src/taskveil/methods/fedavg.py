"""Federated averaging with client-level noise: one model for all (McMahan et al. 2017, 2018; the paper's "global").

Clients start from the billboard, walk E local steps on l_k, send w - wbar and remember nothing. The model of every task is
the billboard itself unless it is fine-tuned locally afterwards (`personalise`). With unit="record": FedAvgRecords below.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from taskveil.errors import OptionError
from taskveil.methods.mean import Mean
from taskveil.methods.neural import NeuralMethod


class FedAvg(NeuralMethod):
    __doc__ = "One shared model, averaged from clipped local updates. " + (NeuralMethod.__doc__ or "")

    name = "fedavg"
    work_start = "shared"
    uses_strength = False
    units = ("task", "record")
    forms: ClassVar[dict[str, str]] = {"record": ".fedavg:FedAvgRecords", "paper": ".papers.hu_2023:FedAvg"}
    reference = "McMahan, Ramage, Talwar, Zhang 2018, Learning Differentially Private Recurrent Language Models"


class FedAvgRecords(Mean):
    """Federated averaging where single rows are protected: one local step on clipped row gradients (FedSGD), in NumPy.

    More than one local step on a row's influence would need the whole walk clipped, and the noise with it; with one step
    averaging models and averaging gradients are the same, and every row is clipped by itself (mean_records.py).
    """

    name = "fedavg"
    units = ("record",)
    reference = FedAvg.reference

    def __init__(
        self,
        rounds: int | None = None,
        rate: float | None = None,
        clip: float | None = None,
        *,
        personalise: bool = True,
        unit: str = "record",
    ):
        super().__init__(rounds, None, rate, clip, personalise=personalise)
        self.unit = unit

    @classmethod
    def of(cls, method: Any) -> Self:
        if method.model not in ("linear", "softmax") or method.features is not None:
            raise OptionError(
                "fedavg with unit='record' trains a linear model on the columns as they are; "
                f"got model={method.model!r}, features={method.features!r}. Use unit='task' for other models."
            )
        clip = None if method.clip == FedAvg().clip else method.clip
        return cls(method.rounds, method.rate, clip, personalise=method.tune.personalise != "none")
