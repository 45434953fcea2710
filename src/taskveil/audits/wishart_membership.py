"""Is the task there? Membership inference against the one-sided Wishart noise of MP-MTL, next to sound noise.

Score: the smallest eigenvalue of (output - the task's part). Noise that is positive semidefinite cannot make it negative when
the task is there, so a negative one is certainty that it is not. In theory that happens with probability 1 - exp(-epsilon) in
every dimension (docs/theory/model-protected.md#wishart).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.audits.gallery import Attack, beside
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
        scores[name] = {world: score(case.outputs(w, runs, source.at(w, name))) for w, world in enumerate(("absent", "present"))}
    rates = {name: {world: float(np.mean(values < -1e-9)) for world, values in both.items()} for name, both in scores.items()}
    certain = rates["paper-wishart"]["absent"]
    sentence = (
        f"At a claimed epsilon of {epsilon:g} the paper's noise proves a task absent in {100 * certain:.0f} % of runs (theory: "
        f"{100 * -math.expm1(-epsilon):.0f} %) and never errs; for sound noise the same event happens in both worlds."
    )
    data = {"epsilon": epsilon, "dimension": dimension, "runs": runs, "below_zero": rates, "theory": -math.expm1(-epsilon)}
    return Attack("wishart-membership", sentence, data, lambda: _figure(scores, epsilon))


def _figure(scores: dict[str, dict[str, np.ndarray]], epsilon: float) -> dict[str, Any]:
    colours = {"absent": "#c0392b", "present": "#2980b9"}
    panels = {
        name: [_histogram(both[world], f"task {world}", colour, name == next(iter(scores))) for world, colour in colours.items()]
        for name, both in scores.items()
    }
    title = f"Smallest eigenvalue of (output - task's part) at a claimed epsilon of {epsilon:g}: below 0 the task cannot be there"
    figure = beside(panels, title)
    zero = {"type": "line", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "line": {"dash": "dash", "width": 1}}
    lines = [{**zero, "xref": f"x{k or ''}", "yref": f"y{k or ''} domain"} for k in (0, *range(2, len(scores) + 1))]
    figure["layout"].update(barmode="overlay", shapes=lines)
    return figure


def _histogram(values: np.ndarray, name: str, colour: str, legend: bool) -> dict[str, Any]:
    return {
        "type": "histogram", "x": values.tolist(), "name": name, "marker": {"color": colour}, "opacity": 0.6, "nbinsx": 80,
        "showlegend": legend,
    }  # fmt: skip
