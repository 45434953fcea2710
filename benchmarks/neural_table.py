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
            figures[ON_ACCELERATOR] = {**figures.get(ON_ACCELERATOR, {}), **document, "date": today}
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


PROMISED_MS = {"round-64-float32": 2.5, "round-64-float16": 2.5, "round-512-float32": 20.0, "round-512-float16": 10.0}


def on_accelerator(f: dict | None) -> list[str]:
    """The rows of `benchmarks.neural_gpu`; what failed there or was not run is "not measured"."""
    where = f"on {f['device_name']}" if f else "on an accelerator"
    got = {name: value for name, value in (f or {}).items() if isinstance(value, dict) and "error" not in value}
    rows = []
    for name, most in PROMISED_MS.items():
        if name in got:
            text = f"a round of {got[name]['clients']} clients, {got[name]['activations']} activations: {span(got[name])}"
            rows.append((text, f"at most {most:g} ms", got[name]["median_ms"] <= most))
    for bits in (32, 16):
        ours, peer = got.get(f"round-512-float{bits}"), got.get(f"torch-compiled-512-{bits}")
        if ours and peer:
            ratio = peer["median_ms"] / ours["median_ms"]
            text = f"torch.compile over vmap, 512 clients, {bits} bits: {span(peer)}, {ratio:.2f} times ours"
            rows.append((text, "at least 3" if bits == 16 else "", bits == 32 or ratio >= 3))
    for many in (got[name] for name in ("ten-thousand-float32", "ten-thousand-float16") if name in got):
        text = (
            f"{many['clients']:,} clients, {many['rounds']} private rounds of about 512 to the end, {many['activations']}: "
            f"{span(many['round'])} a round, exact noise; {many['device_peak_gib']:.1f} GiB"
        )
        rows.append((text, "at most 25 ms", many["round"]["median_ms"] <= 25))
    for kind, most in (("float32", 1e-5), ("float16", 1e-2)) if "accuracy" in got else ():
        d = got["accuracy"][kind]
        judged = "sum" if kind == "float32" else "median"
        far = f"median client {d['median']:.1e}, worst {d['worst']:.1e}, sum of {got['accuracy']['clients']} {d['sum']:.1e}"
        rows.append((f"{kind} against the CPU, {got['accuracy']['data']}: {far}", f"{judged} {most:g}", d[judged] <= most))
    if "cpu" in got.get("accuracy", {}):
        d = got["accuracy"]["cpu"]
        rows.append((f"the CPU's float32 against float64: median client {d['median']:.1e}, sum {d['sum']:.1e}", "", True))
    if not rows:
        return [f"| {where} | | not measured | | |"]
    return [f"| {where}: {text} | {promise} | {'yes' if held else 'NO'} | | {f['date']} |" for text, promise, held in rows]


def span(f: dict) -> str:
    return f"{f['median_ms']:.1f} ms ({f['min_ms']:.1f} to {f['max_ms']:.1f})"


if __name__ == "__main__":
    (HERE / "neural_table.md").write_text(table(take_over(sys.argv[1:])))
