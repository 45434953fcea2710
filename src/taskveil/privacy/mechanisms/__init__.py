"""The table of mechanisms: one line per mechanism."""

from __future__ import annotations

from typing import Any

from taskveil.errors import DataError
from taskveil.privacy.fields import check_fields
from taskveil.privacy.mechanisms.base import Mechanism
from taskveil.privacy.mechanisms.gaussian import Gaussian, MatrixGaussian
from taskveil.privacy.mechanisms.laplace import L2Laplace, Laplace
from taskveil.privacy.mechanisms.model_laplace import ModelLaplace, PaperModelLaplace
from taskveil.privacy.mechanisms.none import NoNoise
from taskveil.privacy.mechanisms.paper_l2_laplace import PaperL2Laplace
from taskveil.privacy.mechanisms.paper_wishart import PaperWishart
from taskveil.privacy.mechanisms.selection import Selection
from taskveil.privacy.mechanisms.shared import SharedGaussian, SharedSkellam
from taskveil.privacy.mechanisms.wishart import TwoSidedWishart
from taskveil.registry import Table

MECHANISMS: Table[type[Mechanism]] = Table("mechanism")
MECHANISMS.add("gaussian", Gaussian)
MECHANISMS.add("matrix-gaussian", MatrixGaussian)
MECHANISMS.add("two-sided-wishart", TwoSidedWishart)
MECHANISMS.add("paper-wishart", PaperWishart)
MECHANISMS.add("paper-l2-laplace", PaperL2Laplace)
MECHANISMS.add("laplace", Laplace)
MECHANISMS.add("l2-laplace", L2Laplace)
MECHANISMS.add("model-laplace", ModelLaplace)
MECHANISMS.add("paper-model-laplace", PaperModelLaplace)
MECHANISMS.add("shared-gaussian", SharedGaussian)
MECHANISMS.add("shared-skellam", SharedSkellam)
MECHANISMS.add("private-selection", Selection)
MECHANISMS.add("none", NoNoise)


def mechanism_from_dict(data: dict[str, Any]) -> Mechanism:
    """The mechanism written by `Mechanism.to_dict`."""
    fields = dict(data)
    kind = MECHANISMS.get(fields.pop("name", ""))
    check_fields(kind, fields)
    try:
        return kind(**fields)
    except TypeError:
        raise DataError(f"mechanism {kind.name!r} has unexpected or missing fields") from None


__all__ = ["MECHANISMS", "Mechanism", "mechanism_from_dict"]
