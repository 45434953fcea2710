"""README.md, written from results.json."""

from __future__ import annotations

from pathlib import Path


def write_readme(results: dict, path: Path) -> None:
    lines = [
        "# Asynchronous against synchronous rounds",
        "",
        "Written by `python -m experiments.xie_2017.run`; do not edit.",
        "",
        f"{results['tasks']} tasks, {results['features']} features, {results['rows']} rows (Xie et al. 2017, Table 1), squared "
        f"loss, no noise. Virtual seconds until the objective is within {results['target']:g} of its first gap; medians "
        f"over {results['seeds']} seeds. Heavy tails: 1 ms times a Pareto variable of index 1.1. Speed-up: synchronous time "
        "over asynchronous time on the same seed (in brackets the worst seed).",
        "",
        "| preset | delays | asynchronous | proved steps | synchronous | speed-up | speed-up, proved steps |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["summary"]:
        s, up, worst = row["seconds"], row["speedup"], row["worst"]
        cells = [row["preset"], row["delays"], *(f"{s[w]:.3g} s" for w in s)]
        cells += [f"{up[w]:.1f} ({worst[w]:.1f})" for w in up]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "![objective gap over virtual time](objective.svg)", ""]
    heavy = [r for r in results["summary"] if r["delays"] == "heavy tails"]
    least = min(r["speedup"]["asynchronous"] for r in heavy)
    lines.append(
        f"Under heavy tails asynchronous arrivals are at least {least:.1f} times sooner (promised: 3)."
    )
    path.write_text("\n".join(lines) + "\n")
