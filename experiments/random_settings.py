"""Is a printed method starved? Its chosen setting beside the best of fresh random settings of its own grid, on validation rows.

    python -m experiments.random_settings    exit 1 where the best random setting is more than 5 % better

What is read is what a folder's tuning keeps in tuned.json under "random/...": for every epsilon how many settings were tried, the score of
the best of them and of the chosen one, judged again on the same validation rows with the same new noise (hu_2023/tune.py, `check`, and
liang_2020/starved.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ALLOWED = 0.05


@dataclass(frozen=True)
class Row:
    where: str
    epsilon: str
    tried: int
    chosen: float
    best: float
    lower_is_better: bool = False

    @property
    def behind(self) -> float:
        """Share by which the chosen setting is worse than the best random one; negative where it is better."""
        return (self.chosen / self.best - 1) if self.lower_is_better else 1 - self.chosen / self.best


@cache
def tuned(folder: str) -> dict[str, Any]:
    file = HERE / folder / "tuned.json"
    return json.loads(file.read_text()) if file.exists() else {}


def rows(folder: str) -> list[Row]:
    return [
        row(folder, data, name, e)
        for data, known in tuned(folder).items()
        for name, cells in known.items()
        if name.startswith("random/")
        for e in cells
    ]


def row(folder: str, data: str, name: str, epsilon: str) -> Row:
    c = tuned(folder)[data][name][epsilon]
    where = f"{data}, {name.rpartition('/')[2]}"
    return Row(where, epsilon, c["tried"], c["chosen"], c["best of random"], c.get("lower is better", False))


def coverage(folder: str, documents: dict[str, dict[str, Any]]) -> Iterator[tuple[str, int, int, list[Row]]]:
    """Of every item whose printed methods were tuned: its rows, those whose whole grid was tried, those beside fresh random settings.

    A folder's page says which rows an item has (`tuned_rows`); what was checked with other settings than those drawn does not count.
    """
    page = import_module(f"experiments.{folder}.page")
    for item, document in documents.items():
        every = page.tuned_rows(item, document)
        if every:
            yield item, len(every), every.count("whole grid"), [found for found in every if isinstance(found, Row)]


def table(folder: str) -> str:
    """Markdown, worst first."""
    if not rows(folder):
        return "None of them has been checked yet."
    lines = [
        f"| {r.where} | {'none' if r.epsilon == 'None' else r.epsilon} | {r.tried} | {r.chosen:.3f} | {r.best:.3f} | {100 * r.behind:+.1f} % |"
        for r in sorted(rows(folder), key=lambda r: -r.behind)
    ]
    head = "| method as printed | epsilon | random settings | chosen | best random | behind |\n|---|---|---|---|---|---|\n"
    return head + "\n".join(lines)


def main() -> int:
    from experiments.readme import open_rows, results

    starved = 0
    for file in sorted(HERE.glob("*/tuned.json")):
        for row in rows(file.parent.name):
            if row.behind > ALLOWED:
                starved += 1
                print(
                    f"{file.parent.name}: {row.where} at epsilon {row.epsilon}: {row.chosen:.3f}, a random setting {row.best:.3f}"
                )
    print(f"{starved} printed rows are more than {100 * ALLOWED:.0f} % behind" if starved else "no checked row is behind")
    for item, many in open_rows(results()).items():
        print(f"{item}: {many} rows were not checked")
    return bool(starved)


if __name__ == "__main__":
    sys.exit(main())
