"""A finished run in words: what could be expected, what is guaranteed, what was gained, what to know."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.estimators.planning import outlook


def summary(estimator: Any, gain: Any = None) -> str:
    """The outlook from public sizes first, then the certificate, the gain (or what is given of it) and the notes."""
    lines = [f"outlook from public sizes, before any row was read: {text}" for text in outlook(estimator.record_)]
    lines.append(str(estimator.certificate_))
    counted = getattr(estimator, "_gain_summary", None)  # of models in partitions, once it was measured
    if counted is not None:
        lines.append(_gained(counted["kept"], counted["tasks"], summary_verdict(counted)))
    elif estimator.method_.linear and not estimator.method_.shares_nothing and _has_gain(estimator):
        gain = estimator.gain_.to_dict() if gain is None else gain
        lines.append(_gained(sum(t["kept"] == "shared" for t in gain.values()), len(gain), gain_verdict(gain)))
    lines += [f"note: {text}" for text in estimator.warnings_]
    return "\n".join(lines)


def _gained(kept: int, m: int, verdict: str) -> str:
    alone = "the others learn alone" if kept < m else "none learns alone"
    sentence = f"{kept} of {m} tasks keep the shared model, {alone}. " if kept else ""
    own = "(Each decided and estimated on its own rows; the counts are for someone entitled to all of them.)"
    return f"{sentence}{verdict[:1].upper()}{verdict[1:]} {own}"


def _has_gain(estimator: Any) -> bool:
    """Whether the gain is known or can still be measured in this process: training rows are never saved."""
    if getattr(estimator, "_lazy", None) is not None:
        return False
    return getattr(estimator, "_gain", None) is not None or getattr(estimator, "_training", None) is not None


def gain_verdict(gain: Any) -> str:
    """How many tasks gain, and how much; each task's own estimate on held-out rows of its own."""
    changes = np.asarray([change(t) for t in gain.values()])
    kept = sum(t["kept"] == "shared" for t in gain.values())
    return _verdict(int((changes < 0).sum()), kept, len(changes), float(np.median(changes)))


def summary_verdict(counted: Any) -> str:
    """The same of a summary over partitions."""
    return _verdict(counted["gaining"], counted["kept"], counted["tasks"], counted["median_change"])


def _verdict(gaining: int, kept: int, m: int, middle: float) -> str:
    if m == 1 and not kept:
        return "the only task keeps the model it learnt alone."
    if gaining == 0 and kept:
        return f"none of the {m} task(s) shows a gain from sharing on held-out rows of its own."
    if gaining == 0:
        return f"none of the {m} tasks gains from sharing: each keeps the model it learnt alone."
    than = f"{abs(middle):.0%} lower than alone" if middle <= -0.005 else "as high as alone"
    return f"{gaining} of {m} tasks gain; the median estimated error is {than.replace('%', ' %')}."


def change(task: Any) -> float:
    """Relative change of a task's error by sharing; 0 for a task that learns alone."""
    alone, shared = float(task["error_alone"]), float(task["error_shared"])
    if task["kept"] != "shared" or not alone > 0 or not math.isfinite(shared):
        return 0.0
    return shared / alone - 1.0
