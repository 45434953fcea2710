"""The table of speed in the README, from results of this machine: python -m benchmarks.readme (after benchmarks.run).

What was not measured, or does not hold, is shown as such.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.run import asked

HERE = Path(__file__).parent
BEGIN, END = "<!-- speed: begin -->", "<!-- speed: end -->"
SHOWN = {
    "low-rank-fit": "`low-rank` fit, 3000 tasks x 100 x 100, 50 rounds: times Octave",
    "together-100000": "private fit of the default, 100,000 tasks x 20 x 30: seconds",
    "subspace-against-ridgecv": "`subspace` per task: times scikit-learn's RidgeCV",
    "memory-100000": "peak memory of that fit above the caller's arrays: times them",
    "compare-har": "`taskveil compare har`, three methods: seconds",
    "csv-fit-seconds": "`taskveil fit` on a csv of 1 million rows x 50: seconds",
    "plan-seconds": "`taskveil plan`: seconds",
    "fit-school": "`taskveil fit school` above importing scikit-learn and Numba: seconds",
}


def table(results: dict[str, dict]) -> str:
    lines = ["| | asked for | measured | beside |", "|---|---|---|---|"]
    for name, words in SHOWN.items():
        found = results.get(name, {"value": None})
        if found["value"] is None:
            lines.append(f"| {words} | | not measured | |")
            continue
        missed = "" if found["holds"] else " (does not hold)"
        lines.append(f"| {words} | {asked(found)} | {found['value']:.3g}{missed} | {found.get('peer', '')} |")
    return "\n".join(lines)


def main() -> None:
    found = [json.loads(path.read_text()) for path in sorted((HERE / "results").glob("*.json"))]
    results = {name: result for one in found for name, result in one["results"].items()}
    cores = {one["machine"]["cores"] for one in found}
    readme = HERE.parent / "README.md"
    head, begin, rest = readme.read_text().partition(BEGIN)
    end, tail = rest.partition(END)[1:]
    if not (begin and end):
        raise SystemExit(f"README.md has no place for the table: expected {BEGIN} and {END}; put both lines where it shall stand")
    made = f"Made by `make bench` and `python -m benchmarks.readme`; cores: {', '.join(map(str, sorted(cores)))}."
    readme.write_text(f"{head}{BEGIN}\n{table(results)}\n\n{made}\n{END}{tail}")


if __name__ == "__main__":
    main()
