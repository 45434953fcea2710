"""How large a release's noise typically is, from public numbers: for lifting eigenvalues and for `plan`."""

from __future__ import annotations

import math

from taskveil.privacy.plan import PlannedRelease


def noise_level(planned: PlannedRelease) -> float:
    """Spectral norm of matrix noise, largest entry of vector noise; typical size, not a bound.

    Symmetric Gaussian s sqrt(2d); two-sided Wishart about 3.3 c d, one-sided about 3.8 c d
    (docs/theory/model-protected.md#noise-lift); Gaussian entries s sqrt(2 log 2n); Laplace entries b log 2n; l2-Laplace: its
    norm b n.
    """
    scale, name = planned.mechanism.typical_scale, planned.mechanism.name
    if name.startswith("shared"):  # integer shares in a secure sum look like Gaussian noise
        name = "matrix-gaussian" if planned.contribution.symmetric else "gaussian"
    size = math.prod(planned.contribution.total_shape)
    side = planned.contribution.total_shape[0]
    return {
        "none": 0.0,
        "matrix-gaussian": scale * math.sqrt(2 * side),
        "two-sided-wishart": 3.3 * scale * side,
        "paper-wishart": 3.8 * scale * side,
        "gaussian": scale * math.sqrt(2 * math.log(2 * size)),
        "laplace": scale * math.log(2 * size),
        "l2-laplace": scale * size,
    }.get(name, scale * math.sqrt(2 * math.log(2 * size)))
