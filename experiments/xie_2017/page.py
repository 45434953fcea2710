"""What stands at the head of this paper's page, and the tables made from its results."""

from __future__ import annotations

from typing import Any

import numpy as np

PREFIX = "async"
OLDER = {"time": "nothing: a run without noise or tuning, whose rounds have not changed"}

HEAD = """
# Asynchronous private multi-task learning (Xie et al. 2017)

Written by `python -m experiments.paper_page xie_2017` from `results/`; do not edit.

ADNI is not public: the ADNI-like set has its sizes (20 tasks of 15-27 rows, 248 features), five common factors and made-up models of rank 3; real regions
of interest may be more alike. The paper does not say how its synthetic set is made, nor how long its rows are: ours have length one at most, and the noise
is drawn for that. As in the paper 30 % of the rows train, and the figures of errors show the first five tasks.

"As printed" is Algorithm 1 with the constants of section 4.1: mu is the threshold of the proximal map (eq. 5), which gives P the paper's rank 3 without
noise in classification (in regression P stays at zero: q already fits); q takes the printed gradient step. Its epsilon is that of one message. Its
sensitivity does not hold (a node's own part is private state), and nothing is composed; section 3.4 says itself that the cumulative loss can become
meaningless, and proposes to draw rows (`composition`). Full runs send 300 messages a node where the paper sends 10,000: noise keeps adding up, so more
messages do not help the noisy curves; without noise the objective falls on slowly (over 1,000 messages from 6.42 to 5.88 on the first draw, 6.1 at 300).
"Tuned" takes the best of 40 random steps, penalties and numbers of messages, of 200 where 200 fresh ones did better (the end of this paper's page). "Sound"
spends the same stated epsilon on all messages of a node together, per record, one record replaced, against everybody, delta 1e-6, with its defaults.

Three models are compared, like with like. The *published* one is p + q as a run ends; the printed one contains a q that was never noised, ours does not,
and ours is the worse model for it at the same number. The *refined* one is fitted again on the owner's rows, the *chosen* one is kept only where held-out
rows prefer it to learning alone: with 5 to 60 training rows a record's privacy leaves little to share, and most owners do well to keep their own.
"""


def speed(document: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    ways = ("asynchronous", "asynchronous, proved steps", "synchronous")
    rows = [
        [r["preset"], r["delays"], *(f"{r['seconds'][w]:.3g} s" if w in r["seconds"] else "" for w in ways),
         ", ".join(f"{v:.1f}" for v in r["ratios"])]
        for r in document["settings"]["summary"]
    ]  # fmt: skip
    return ["preset", "delays", *ways, "times sooner, seed by seed"], rows


def forms(document: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Errors of the three models, printed, tuned and sound, side by side."""
    kinds = ("published", "refined", "chosen")
    rows = [
        [epsilon, side, *(f"{np.mean(by[k]):.3g} ± {np.std(np.mean(by[k], axis=1), ddof=1):.2g}" for k in kinds)]
        for epsilon, sides in document["settings"].get("table", {}).items()
        for side, by in sides.items()
        if by
    ]
    return ["epsilon of a message", "side", *kinds], rows


TABLES = {"time": speed, **{f"fig{n}": forms for n in (3, 4, 5, 6)}}


def tuned_rows(item: str, document: dict[str, Any]) -> list[Any]:
    """Every tuned row of an item with its check."""
    from experiments.random_settings import row, tuned
    from experiments.xie_2017.starved import FIGURES

    found, name = [], "random/as printed, tuned"
    for label in document["settings"].get("tuned", {}):
        epsilon = label.removeprefix("epsilon ")
        known = epsilon in tuned("xie_2017").get(FIGURES[item], {}).get(name, {})
        found.append(row("xie_2017", FIGURES[item], name, epsilon) if known else None)
    return found


def tail() -> str:
    from experiments.random_settings import table

    return f"""## Is the printed side starved?

"As printed, tuned" beside the best of fresh random settings, published models, other draws of the data (`python -m experiments.xie_2017.starved`).

{table("xie_2017")}"""
