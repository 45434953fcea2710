"""What every reproduced figure shares: how a result looks, where it is written, how a claim is tested.

An item is a function (quick, seed) -> Result. Its tables and pictures are generated from the JSON it leaves; nothing is typed
by hand. What becomes of a claim is decided in verdicts.py; one that fails is reported as failed.
"""

from __future__ import annotations

import inspect
import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from experiments.verdicts import WORDS, Check, below, complete, computed, document, near, not_above, positive

__all__ = [
    "Check", "Result", "below", "computed", "execute", "near", "not_above", "positive", "summary", "together", "verdict", "versions",
]  # fmt: skip


@dataclass
class Result:
    """One figure or table, reproduced."""

    name: str
    paper: str
    claim: str
    paper_value: str  # what the paper prints there
    as_printed: str = ""
    sound: str = ""
    verdict: str = ""
    checks: list[Check] = field(default_factory=list)
    series: dict[str, Any] = field(default_factory=dict)
    axes: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)


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
    result.checks = [complete(c, place(result.name), result.paper_value, result.axes.get("y", "")) for c in result.checks]
    result.verdict = result.verdict or verdict(result.checks)
    result.run = {
        "seed": seed, "quick": quick, "repeats": repeats, "seconds": round(time.perf_counter() - started, 2),
        "cpu_seconds": round(time.process_time() - busy, 2),
        "date": datetime.now(UTC).date().isoformat(), "versions": versions(),
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{result.name}-quick" if quick else result.name
    kept = asdict(result) | {"checks": [document(c) for c in result.checks]}
    (folder / f"{stem}.json").write_text(json.dumps(kept, indent=1, default=float))
    if result.series:
        write_chart(folder / f"{stem}.svg", f"{result.paper}, {result.name}", result.series, result.axes)
    return kept


WHERE = {  # in its paper an item that is no figure and no table stands
    "headline": "Fig. 6 a", "lemmas": "Lemmas 1 and 2", "prop1": "Prop. 1", "composition": "section 3.4", "har30": "Fig. 5, all participants",
    "light": "Fig. 11 and 12 b", "synthetic": "section 7.3", "time": "section 7.2.1", "masks": "section 6.2", "attack": "section 6.2",
    "equations": "Algorithm 1, eq. 27 to 32", "complexity": "section 4.3", "reconstruction": "section 6.1", "waiting": "section 7.2.2",
}  # fmt: skip


def place(name: str) -> str:
    """Where in the paper an item stands: "fig3" -> "Fig. 3", "table1" -> "Table 1"; others are looked up."""
    kind, number = re.fullmatch(r"(fig|table)?(.*)", name).groups()  # type: ignore[union-attr]
    return f"Fig. {number}" if kind == "fig" else f"Table {number}" if kind else WHERE.get(name, name)


def verdict(checks: list[Check]) -> str:
    """In words: what holds, what fails, what our runs cannot tell."""
    said = []
    for value, word in WORDS.items():
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
