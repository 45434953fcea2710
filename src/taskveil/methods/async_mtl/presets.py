"""Which penalties go on the shared part P and on each task's own part Q (Xie et al. 2017, section 3.1).

preset           P              Q                     who proposed it
dirty            l2,1           l1                    Jalali et al. 2010
aso              trace norm     squared Frobenius     Ando & Zhang 2005 (the convex form)
robust           trace norm     l1,2 (whole tasks)    Chen, Zhou & Ye 2011
robust-feature   l2,1           l1,2 (whole tasks)    Gong, Ye & Zhang 2012
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.registry import Table
from taskveil.solvers.incremental_trace_prox import IncrementalGroupProx, IncrementalTraceProx
from taskveil.structures import STRUCTURES

Array = np.ndarray


@dataclass(frozen=True)
class Penalties:
    """r(P) and g(Q) by the names of the structures table."""

    shared: str  # trace_norm or group_sparse
    own: str  # squared_frobenius, l1 or l12

    def incremental(self, Z: Array, threshold: float) -> IncrementalTraceProx | IncrementalGroupProx:
        """The proximal map of the shared penalty on Z (columns of all tasks as rows), kept up to date."""
        maker = IncrementalTraceProx if self.shared == "trace_norm" else IncrementalGroupProx
        return maker(Z, threshold)

    def shrink_own(self, Q: Array, threshold: float) -> Array:
        """Proximal map of the own penalty on models (tasks, outputs, features); it is separable over tasks."""
        g = STRUCTURES.get(self.own)
        return g.models(g.prox(g.matrix(Q), threshold), Q.shape)


PRESETS: Table[Penalties] = Table("preset of method 'async'")
PRESETS.add("dirty", Penalties("group_sparse", "l1"))
PRESETS.add("aso", Penalties("trace_norm", "squared_frobenius"))
PRESETS.add("robust", Penalties("trace_norm", "l12"))
PRESETS.add("robust-feature", Penalties("group_sparse", "l12"))
