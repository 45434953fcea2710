"""What the papers' theorems say about given sizes: noise, rounds, rates, conditions.

    calculators.mp_mtl.theorem(2, n_tasks=320, n_features=30, epsilon=1.0, delta=1e-3)
    calculators.pmtl.theorem(1, n_tasks=206, n_rounds=50, epsilon=1.0, delta=1e-5, clip_norm=1.0)

These are statements of papers, not guarantees of this program: accountants in `privacy/` give those.
"""

from taskveil.calculators import mp_mtl, pmtl, prox_bounds
from taskveil.calculators.base import Calculation

__all__ = ["Calculation", "mp_mtl", "names", "pmtl", "prox_bounds"]


def names() -> dict[str, str]:
    """Every calculator with its title: 'mp-mtl 2' -> 'Low rank - Convexity', ..."""
    listed = {f"mp-mtl {n}": title for n, title in mp_mtl.names().items()}
    return listed | {f"pmtl {n}": title for n, title in pmtl.names().items()}
