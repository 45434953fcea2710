"""A finished run in words: what could be expected, what is guaranteed, what was gained, what to know."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.estimators.planning import outlook

__all__ = ["change", "gain_verdict", "summary"]


def summary(estimator: Any, gain: Any = None) -> str:
    """The outlook from public sizes first, then the certificate, the gain (or what is given of it) and the notes."""
    lines = [f"outlook from public sizes, before any row was read: {text}" for text in outlook(estimator.record_)]
    lines.append(str(estimator.certificate_))
    if estimator.method_.linear and not estimator.method_.shares_nothing and _has_gain(estimator):
        gain = estimator.gain_.to_dict() if gain is None else gain
        kept, m = sum(t["kept"] == "shared" for t in gain.values()), len(gain)
        alone = "the others learn alone" if kept < m else "none learns alone"
        said = f"{kept} of {m} tasks keep the shared model, {alone}. " if kept else ""
        gained = gain_verdict(gain)
        lines.append(
            f"{said}{gained[:1].upper()}{gained[1:]} "
            "(Each decided and estimated on its own rows; the counts are for someone entitled to all of them.)"
        )
    lines += [f"note: {text}" for text in estimator.warnings_]
    return "\n".join(lines)


def _has_gain(estimator: Any) -> bool:
    """Whether the gain is known or can still be measured: training rows are never saved."""
    return getattr(estimator, "_gain", None) is not None or getattr(estimator, "_training", None) is not None


def gain_verdict(gain: Any) -> str:
    """How many tasks gain, and how much; each task's own estimate on held-out rows of its own."""
    changes = np.asarray([change(t) for t in gain.values()])
    gaining = int((changes < 0).sum())
    if gaining == 0:
        return f"none of the {len(changes)} tasks gains from sharing at this noise: each keeps the model it learnt alone."
    middle = float(np.median(changes))
    than = f"{abs(middle):.0%} lower than alone" if middle < 0 else "as high as alone"
    return f"{gaining} of {len(changes)} tasks gain; the median estimated error is {than.replace('%', ' %')}."


def change(task: Any) -> float:
    """Relative change of a task's error by sharing; 0 for a task that learns alone."""
    alone, shared = float(task["error_alone"]), float(task["error_shared"])
    if task["kept"] != "shared" or not alone > 0 or not math.isfinite(shared):
        return 0.0
    return shared / alone - 1.0
