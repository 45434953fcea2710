"""benchmarks/neural_table.md from benchmarks/neural_figures.json: the part of the documentation that holds numbers.

    python -m benchmarks.neural_table [RESULTS.json ...]   takes over results of `benchmarks.run neural`, then writes the table

Figures of a machine and a moment; each row keeps its own load and date, because they were not all measured in one run.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).parent
FIGURES = HERE / "neural_figures.json"
WORDS = {
    "neural-against-torch": "a torch loop over 64 clients takes {value:.2f} times as long as our round (clock, 2 threads)",
    "neural-against-pfl": "a central iteration of pfl 0.6 takes {value:.2f} times as long as our round (clock, 2 threads)",
    "neural-one-thread": "processor seconds on one thread: torch loop {torch:.2f} times ours, pfl {pfl:.2f} times ours",
    "neural-compile-time": "first round, compiling included: {value:.1f} s",
    "neural-memory-10000": "10,000 CNN clients on the CPU, three private rounds, all models touched: peak {value:.1f} GiB",
}

HEAD = "| what (CNN of 213,630 parameters, 5 steps, batch 16) | promise | held | load of the machine | date |"
ACCELERATOR = (
    "| on an H200: a round of 512 clients; the torch loop against it; 10,000 clients over 200 rounds "
    "| under 30 ms; at least 100 times; to the end | not measured | | |"
)


def take_over(paths: list[str]) -> dict:
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for path in paths:
        document = json.loads(Path(path).read_text())
        for name, result in document["results"].items():
            if result["value"] is not None:
                figures[name] = {**result, "load": document["machine"]["load"], "date": datetime.now(UTC).date().isoformat()}
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    return figures


def table(figures: dict) -> str:
    lines = [HEAD, "|---|---|---|---|---|"]
    for name, words in WORDS.items():
        if name not in figures:
            lines.append(f"| {name} | | not measured | | |")
            continue
        f = figures[name]
        text = words.format(value=f["value"], **f.get("times_ours", {}))
        promise = " and ".join(f"{k.replace('_', ' ')} {v:g}" for k, v in f["promise"].items())
        held = "yes" if f["holds"] else "NO"
        lines.append(f"| {text} | {promise} | {held} | {f['load']:.1f} | {f['date']} |")
    return "\n".join([*lines, ACCELERATOR]) + "\n"


if __name__ == "__main__":
    (HERE / "neural_table.md").write_text(table(take_over(sys.argv[1:])))
