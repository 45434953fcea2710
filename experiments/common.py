"""What every reproduced figure shares: how a result looks, where it is written, how a claim is tested.

An item is a function (quick, seed) -> Result. Its tables and pictures are generated from the JSON it leaves; nothing is typed
by hand. A claim about a shape is an inequality over our numbers with its significance; one that fails is reported as failed.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import ttest_1samp, ttest_rel

ALPHA = 0.05


@dataclass
class Check:
    """One claim of a paper as an inequality: `holds` is None where our repeats cannot decide."""

    claim: str
    left: float
    right: float
    p_value: float
    holds: bool | None
    about: str = "paper"  # or "ours": a claim about what we ship


@dataclass
class Result:
    """One figure or table, reproduced."""

    name: str
    paper: str
    claim: str
    paper_value: str
    as_printed: str = ""
    sound: str = ""
    verdict: str = ""
    checks: list[Check] = field(default_factory=list)
    series: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)


def below(claim: str, left: Any, right: Any, about: str = "paper") -> Check:
    """Is `left` smaller than `right`, repeat by repeat? One-sided paired t test; undecided unless either side is significant."""
    a, b = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
    if a.size < 2 or np.allclose(a, b):
        return Check(claim, float(a.mean()), float(b.mean()), 1.0, bool(a.mean() <= b.mean()) if a.size < 2 else None, about)
    p = float(ttest_rel(a, b, alternative="less").pvalue)
    holds = True if p < ALPHA else False if p > 1 - ALPHA else None
    return Check(claim, float(a.mean()), float(b.mean()), p, holds, about)


def not_above(claim: str, left: Any, right: Any, margin: float = 0.0, about: str = "paper") -> Check:
    """Is `left` at most `right` (1 + margin)? False only where it is significantly above."""
    a, b = np.asarray(left, dtype=float), (1 + margin) * np.asarray(right, dtype=float)
    if a.size < 2 or np.allclose(a, b):
        return Check(claim, float(a.mean()), float(b.mean()), 1.0, bool(a.mean() <= b.mean() + 1e-9 * abs(b.mean())), about)
    p = float(ttest_rel(a, b, alternative="greater").pvalue)
    return Check(claim, float(a.mean()), float(b.mean()), p, not p < ALPHA, about)


def positive(claim: str, values: Any, about: str = "paper") -> Check:
    """Is the mean of `values` above zero?"""
    v = np.asarray(values, dtype=float)
    if v.size < 2 or np.ptp(v) == 0:
        return Check(claim, float(v.mean()), 0.0, 1.0, bool(v.mean() > 0), about)
    p = float(ttest_1samp(v, 0.0, alternative="greater").pvalue)
    return Check(claim, float(v.mean()), 0.0, p, True if p < ALPHA else False if p > 1 - ALPHA else None, about)


def summary(scores: list[float]) -> dict[str, Any]:
    values = np.asarray(scores, dtype=float)
    return {"mean": float(values.mean()), "std": float(values.std(ddof=1)) if values.size > 1 else 0.0, "scores": scores}


def execute(item: Callable[..., Result], quick: bool, seed: int, folder: Path, repeats: int | None = None) -> dict[str, Any]:
    """Run one item; write its JSON and its picture. `repeats` overrides the number of replications of items that have one."""
    from experiments.svg import write_chart

    started, busy = time.perf_counter(), time.process_time()
    if repeats is not None and "repeats" not in inspect.signature(item).parameters:
        raise ValueError(f"{item.__name__} has no number of replications to set")
    result = item(quick=quick, seed=seed, **({} if repeats is None else {"repeats": repeats}))
    result.verdict = result.verdict or verdict(result.checks)
    result.run = {
        "seed": seed, "quick": quick, "repeats": repeats, "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - busy, 2),
        "date": datetime.now(UTC).date().isoformat(), "versions": versions(),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{result.name}-quick" if quick else result.name
    document = asdict(result)
    (folder / f"{stem}.json").write_text(json.dumps(document, indent=1, default=float))
    if result.series:
        write_chart(folder / f"{stem}.svg", f"{result.paper}, {result.name}", result.series, result.axes)
    return document


def verdict(checks: list[Check]) -> str:
    """In words: what holds, what does not, what our repeats cannot decide."""
    said = []
    for word, value in (("holds", True), ("FAILS", False), ("undecided", None)):
        claims = together([c.claim for c in checks if c.holds is value])
        if claims:
            said.append(f"{word}: " + "; ".join(claims))
    return ". ".join(said) or "a picture, no claim"


def together(claims: list[str]) -> list[str]:
    """Claims that differ in epsilon only are said once: "a at epsilon 1", "a at epsilon 3" -> "a at epsilon 1, 3"."""
    said: dict[str, list[str]] = {}
    for claim in claims:
        start, found, value = claim.partition(" at epsilon ")
        said.setdefault(start, []).extend([value] if found else [])
    return [f"{start} at epsilon {', '.join(values)}" if values else start for start, values in said.items()]


def versions() -> dict[str, str]:
    from taskveil.privacy.certificate import software_versions

    return software_versions()
