"""What the papers' theorems say about given sizes: noise, rounds, rates, conditions.

    calculators.mp_mtl.theorem(2, n_tasks=320, n_features=30, epsilon=1.0, delta=1e-3)
    calculators.pmtl.privacy(n_tasks=206, n_rounds=50, epsilon=1.0, delta=1e-5)
    calculators.evaluate(["2", "pmtl-1", "prop-3"], n_tasks=320, n_features=30, epsilon=1.0, delta=1e-3)

These are statements of papers, not guarantees of this program: accountants in `privacy/` give those.
"""

from taskveil.calculators import mp_mtl, pmtl
from taskveil.calculators.base import Calculation
from taskveil.calculators.evaluate import evaluate, names

__all__ = ["Calculation", "evaluate", "mp_mtl", "names", "pmtl"]
