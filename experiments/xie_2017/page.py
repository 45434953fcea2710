"""What stands at the head of this paper's page, and the tables made from its results."""

from __future__ import annotations

from typing import Any

PREFIX = "async"

HEAD = """
# Asynchronous private multi-task learning (Xie et al. 2017)

Written by `python -m experiments.paper_page xie_2017` from `results/`; do not edit.

ADNI is not public: the ADNI-like set has its sizes (20 tasks of 15-27 rows, 248 features). As in the paper 30 % of the rows
train. "As printed" is `variant="paper"`, whose epsilon is that of one message and whose sensitivity does not hold (the node's own
part is private state); "sound" spends the same stated epsilon on all messages of a node together, per record, against everybody,
delta 1e-6. Where its objective (Fig. 2, 7) ends above the printed one at the same number, the printed run has paid that number
again with every message. The owner's model (Fig. 3-6) is refined on its own rows and kept only where held-out rows prefer it to
learning alone: with 5 to 60 training rows a record's privacy leaves little to share, and most owners do well to keep their own.
Alg. 1 starts at each node's own model, so without noise its objective has little left to fall.
"""


def speed(document: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    ways = ("asynchronous", "asynchronous, proved steps", "synchronous")
    rows = [
        [r["preset"], r["delays"], *(f"{r['seconds'][w]:.3g} s" if w in r["seconds"] else "" for w in ways),
         ", ".join(f"{v:.1f}" for v in r["ratios"])]
        for r in document["settings"]["summary"]
    ]  # fmt: skip
    return ["preset", "delays", *ways, "times sooner, seed by seed"], rows


TABLES = {"time": speed}
