"""Is the task there? Membership inference against the one-sided Wishart noise of MP-MTL, next to sound noise.

Score: the smallest eigenvalue of (output - the task's part). Noise that is positive semidefinite cannot make it negative when
the task is there, so a negative one is certainty that it is not. In theory that happens with probability 1 - exp(-epsilon) in
every dimension (docs/theory/model-protected.md#wishart).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.audits.gallery import Attack
from taskveil.audits.mechanisms import setting
from taskveil.audits.statistics import support
from taskveil.privacy.randomness import insecure_seeded_noise

NAMES = ("paper-wishart", "two-sided-wishart", "matrix-gaussian")


def wishart_membership(epsilon: float = 1.0, dimension: int = 5, runs: int = 4000, seed: int = 0) -> Attack:
    """How often the output proves that a task is absent, for three kinds of noise sold at the same epsilon."""
    source = insecure_seeded_noise(seed)
    scores: dict[str, dict[str, np.ndarray]] = {}
    for name in NAMES:
        case = setting(name, epsilon, 1e-5, "add-remove", dimension)
        score = support(case.totals[1])
        scores[name] = {
            world: score(case.outputs(w, runs, source.at(w, name))) for w, world in enumerate(("absent", "present"))
        }
    rates = {
        name: {world: float(np.mean(values < -1e-9)) for world, values in both.items()} for name, both in scores.items()
    }
    certain = rates["paper-wishart"]["absent"]
    sentence = (
        f"At a claimed epsilon of {epsilon:g} the paper's noise proves a task absent in {100 * certain:.0f} % of runs (theory: "
        f"{100 * -math.expm1(-epsilon):.0f} %) and never errs; for sound noise the same event happens in both worlds."
    )
    data = {"epsilon": epsilon, "dimension": dimension, "runs": runs, "below_zero": rates, "theory": -math.expm1(-epsilon)}
    return Attack("wishart-membership", sentence, data, lambda: _figure(scores, epsilon))


def _figure(scores: dict[str, dict[str, np.ndarray]], epsilon: float) -> Any:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=len(scores), subplot_titles=list(scores))
    for column, both in enumerate(scores.values(), start=1):
        for world, colour in (("absent", "#c0392b"), ("present", "#2980b9")):
            trace = go.Histogram(
                x=both[world], name=f"task {world}", marker_color=colour, opacity=0.6, nbinsx=80, showlegend=column == 1
            )
            figure.add_trace(trace, 1, column)
        figure.add_vline(x=0, line_dash="dash", row=1, col=column)
    title = f"Smallest eigenvalue of (output - task's part) at a claimed epsilon of {epsilon:g}: below 0 the task cannot be there"
    figure.update_layout(title=title, barmode="overlay", height=380)
    return figure
