"""benchmarks/neural_table.md from benchmarks/neural_figures.json: the part of the documentation that holds numbers.

    python -m benchmarks.neural_table [RESULTS.json ...]   takes over results of `benchmarks.run neural` and of
                                                           `benchmarks.neural_gpu`, then writes the table

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
ON_ACCELERATOR = "accelerator"


def take_over(paths: list[str]) -> dict:
    figures = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for path in paths:
        document = json.loads(Path(path).read_text())
        today = datetime.now(UTC).date().isoformat()
        if "results" not in document:
            figures[ON_ACCELERATOR] = {**document, "date": today}
            continue
        for name, result in document["results"].items():
            if result["value"] is not None:
                figures[name] = {**result, "load": document["machine"]["load"], "date": today}
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
    return "\n".join([*lines, *on_accelerator(figures.get(ON_ACCELERATOR))]) + "\n"


def on_accelerator(f: dict | None) -> list[str]:
    """The rows of `benchmarks.neural_gpu`; what failed there or was not run is "not measured"."""
    ours, loop, many = ((f or {}).get(name, {}) for name in ("round-512", "torch-loop-512", "ten-thousand"))
    where = f"on {f['device_name']}" if f else "on an accelerator"
    rows = []
    if "median_ms" in ours:
        text = f"{where}: a round of 512 clients takes {ours['median_ms']:.1f} ms ({ours['min_ms']:.1f} to {ours['max_ms']:.1f})"
        rows.append((text, "under 30 ms", ours["max_ms"] < 30))
    if "median_ms" in ours and "median_ms" in loop:
        ratio = loop["median_ms"] / ours["median_ms"]
        rows.append((f"{where}: a torch loop over 512 clients takes {ratio:.0f} times as long", "at least 100", ratio >= 100))
    if "rounds" in many:
        text = (
            f"{where}: {many['clients']:,} clients, {many['rounds']} private rounds of about 512 in {many['seconds']:.0f} s, "
            f"{many['median_round_ms']:.0f} ms a round with sampling, noise and charging; {many['device_peak_gib']:.1f} GiB"
        )
        rows.append((text, "200 rounds", many["rounds"] == 200))
    if not rows:
        return [f"| {where} | | not measured | | |"]
    return [f"| {text} | {promise} | {'yes' if held else 'NO'} | | {f['date']} |" for text, promise, held in rows]


if __name__ == "__main__":
    (HERE / "neural_table.md").write_text(table(take_over(sys.argv[1:])))
