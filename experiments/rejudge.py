"""Judges stored numbers again by today's rule, where an item keeps every run's number: nothing is run.

    python -m experiments.rejudge

The numbers, and the version that made them, stay; what older versions judged by p values gets intervals over runs (verdicts.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.common import Check, place, verdict
from experiments.ponomarenko_2023 import claims, figures, stragglers
from experiments.registry import ITEMS, folder_of
from experiments.verdicts import complete, document
from experiments.xie_2017 import items

HERE = Path(__file__).parent
Settings = dict[str, Any]


def waited(name: str) -> Callable[[Settings], list[Check]]:
    """Claims of a straggler figure; Fig. 9 and 10 compare themselves with Fig. 8."""
    beside = stored("svm-fig8")["settings"]["table"] if name in ("fig9", "fig10") else None
    return lambda s: stragglers.claims(name, s["table"], beside)


JUDGES: dict[str, Callable[[Settings], list[Check]]] = {
    "svm-fig5": lambda s: [*figures.har_checks(s["table"]["scores"]), *figures.mixed_checks(s[figures.MIXED])],
    "svm-har30": lambda s: figures.har_checks(s["table"]["scores"]),
    "svm-light": lambda s: [*figures.har_checks(s["table"]["scores"]), figures.light_check(s["table"]["scores"])],
    **{f"svm-fig{n}": lambda s, n=n: waited(f"fig{n}")(s) for n in range(6, 11)},
    "svm-fig11": lambda s: figures.bernoulli_checks(s["table"]),
    "svm-fig12": lambda s: figures.beta_checks(s["table"]),
    "svm-synthetic": lambda s: claims.synthetic_checks(s["table"]),
    "svm-masks": lambda s: claims.mask_checks(s["table"]),
    "async-time": lambda s: items.time_checks(s["summary"]),
}


def file_of(name: str) -> Path:
    return HERE / folder_of(name) / "results" / f"{name.partition('-')[2]}.json"


def stored(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file_of(name).read_text())
    return found


def judged(name: str) -> dict[str, Any]:
    """The stored result with its claims judged again."""
    result = stored(name)
    printed, quantity = result["paper_value"], result["axes"].get("y", "")
    checks = [complete(c, place(result["name"]), printed, quantity) for c in JUDGES[name](result["settings"])]
    return result | {"checks": [document(c) for c in checks], "verdict": verdict(checks)}


def placed(result: dict[str, Any]) -> dict[str, Any]:
    """The stored result whose claims say where in the paper they stand, where they only named the item."""
    checks = [c | {"place": place(result["name"])} if c.get("place") == result["name"] else c for c in result["checks"]]
    return result | {"checks": checks}


def main() -> int:
    for name in (n for n in ITEMS if file_of(n).exists()):
        text = json.dumps(placed(judged(name) if name in JUDGES else stored(name)), indent=1, default=float)
        if text != file_of(name).read_text():
            file_of(name).write_text(text)
            print(f"{name}: judged again")
    return 0


if __name__ == "__main__":
    sys.exit(main())
