"""How long a node takes from receiving its column to delivering a message: the virtual clock's weather.

    uniform   0 to `scale` seconds, as in Xie et al. 2017, section 4.1 (0-15 ms)
    pareto    scale * (1 + Pareto(1.1)): heavy tails, infinite variance; a few messages take hundreds of times the median
    constant  always `scale`

Delays are part of a simulation, not of a guarantee: they come from an ordinary seeded generator keyed by (seed, node), so that a
node's delays do not depend on the order of arrivals.
"""

from __future__ import annotations

import numpy as np

from taskveil.errors import OptionError

KINDS = ("uniform", "pareto", "constant")
PAPER = ("uniform", 0.015)
TAIL = 1.1


class Delays:
    """An endless sequence of delays for every node."""

    def __init__(self, n_nodes: int, kind: str = "uniform", scale: float = 0.015, seed: int = 0) -> None:
        if kind not in KINDS or not scale >= 0:
            raise OptionError(f"delays are ({' | '.join(KINDS)}, seconds >= 0); got {kind!r}, {scale!r}")
        self.kind, self.scale = kind, float(scale)
        self._generators = [np.random.default_rng([seed, node]) for node in range(n_nodes)]

    def next(self, node: int) -> float:
        rng = self._generators[node]
        if self.kind == "uniform":
            return float(rng.uniform(0.0, self.scale))
        if self.kind == "pareto":
            return float(self.scale * (1.0 + rng.pareto(TAIL)))
        return self.scale
