"""FedProx with client-level noise: federated averaging whose local steps are held near the billboard (Li et al. 2020).

    local objective  l_k(w) + (mu/2) |w - wbar|^2,  started at wbar;  mu is `strength`

The local problem looks like mean-regularised MTL, but what is learned is the shared model only.
"""

from __future__ import annotations

from typing import ClassVar

from taskveil.methods.neural import NeuralMethod


class FedProx(NeuralMethod):
    __doc__ = "One shared model from proximal local steps. " + (NeuralMethod.__doc__ or "")

    name = "fedprox"
    forms: ClassVar[dict[str, str]] = {"paper": ".papers.hu_2023:FedProx"}
    work_start = "shared"
    reference = "Li et al. 2020, Federated Optimization in Heterogeneous Networks"
