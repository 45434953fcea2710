"""What stands at the head of this paper's page, and the tables made from its results."""

from __future__ import annotations

from typing import Any

import numpy as np

PREFIX = "async"
OLDER = {"time": "nothing: a run without noise or tuning, whose rounds have not changed"}

HEAD = """
# Asynchronous private multi-task learning (Xie et al. 2017)

Written by `python -m experiments.paper_page xie_2017` from `results/`; do not edit.

ADNI is not public. The ADNI-like set has its sizes (20 tasks of 15-27 rows, 248 features), five common factors and made-up models of rank 3. Real regions of
interest may be more alike. The paper does not say how its synthetic set is made, nor how long its rows are. Ours have length one at most, and the noise is
drawn for that. As in the paper, 30 % of the rows are for training, and the figures of errors show the first five tasks.

"As printed" is Algorithm 1 with the constants of section 4.1. mu is the threshold of the proximal map (eq. 5), which gives P the paper's rank 3 without noise
in classification. (In regression P stays at zero, because q already fits.) q takes the printed gradient step. The epsilon is that of one message. Its
sensitivity does not hold, because a node's own part is private state, and nothing is composed. Section 3.4 itself says that the cumulative loss can become
meaningless, and proposes to draw rows (`composition`). Full runs send 300 messages for each node; the paper sends 10,000. With noise, more messages do not
help, because noise keeps adding up. Without noise the objective falls slowly: on the first draw from 6.42 to 5.88 over 1,000 messages, 6.1 at 300. "Tuned"
takes the best of 40 random steps, penalties and numbers of messages, or of 200 if 200 fresh ones did better (see the end of this paper's page). "Sound"
spends the same stated epsilon on all messages of a node together, per record, one record replaced, against everybody, delta 1e-6, with its defaults.

Three models are compared, each with its own kind. The *published* model is p + q at the end of a run. The printed one contains a q that was never noised; ours
does not, and is therefore worse at the same number. The *refined* model is fitted again on the owner's rows. The *chosen* one is kept only if held-out rows
prefer it to learning alone. With 5 to 60 training rows, record privacy leaves little to share, and most owners do well to keep their own model.
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
