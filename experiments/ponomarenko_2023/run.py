"""Runs the experiments of the federated MTL-SVM and writes results.json, the plots and the tables of README.md.

    python -m experiments.ponomarenko_2023.run [section ...] [--quick] [--tables-only]

HAR must be in $TASKVEIL_DATA. Everything is seeded; times are processor seconds or come from the virtual clock.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.ponomarenko_2023 import accuracy, attack, convergence, private
from experiments.ponomarenko_2023.tables import write_plots, write_readme

HERE = Path(__file__).parent

SECTIONS: dict[str, Callable[[bool], Any]] = {
    "har-20": lambda quick: accuracy.har_table("har-20", 1 if quick else 5),
    "light-20": lambda quick: accuracy.har_table("light-20", 1 if quick else 5),
    "har-30": lambda quick: accuracy.har_table("har-30", 1 if quick else 5),
    "synthetic": lambda quick: accuracy.synthetic_table(1 if quick else 3),
    "rounds": convergence.rounds_table,
    "stragglers": convergence.straggler_curves,
    "masks": convergence.mask_table,
    "paper": lambda quick: convergence.paper_table(),
    "attack": attack.attack_table,
    "private": private.private_table,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", help=f"some of: {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="one split, few rounds")
    parser.add_argument("--tables-only", action="store_true", help="rewrite README.md and plots from results.json")
    parser.add_argument("--out", type=Path, default=HERE)
    options = parser.parse_args(arguments)
    path = options.out / "results.json"
    results = json.loads(path.read_text()) if path.is_file() else {}
    for name in [] if options.tables_only else options.sections or SECTIONS:
        start = time.process_time()
        results[name] = {"quick": options.quick, "result": SECTIONS[name](options.quick)}
        results[name]["processor seconds"] = round(time.process_time() - start, 1)
        path.write_text(json.dumps(results, indent=1) + "\n")
        print(f"{name}: {results[name]['processor seconds']} s", file=sys.stderr, flush=True)
    write_plots(results, options.out)
    write_readme(results, options.out / "README.md")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
