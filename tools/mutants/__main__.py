"""python -m tools.mutants [--only TEXT] [--jobs N] [--trust] [--list]: plant every fault, expect every one to be caught.

Exit 0: all caught. 1: survivors, listed. 2: a table is out of date, or the tests fail on the unchanged package.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tools.mutants.run import preload, run_all
from tools.mutants.table import ROOT, OutOfDate, all_mutants

DURATIONS = ROOT / "test-artefacts" / "mutants-durations.json"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="only mutants whose name (file:line why) contains this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--trust", action="store_true", help="do not run the tests on the unchanged package first")
    parser.add_argument("--list", action="store_true", help="show the mutants and run nothing")
    options = parser.parse_args(arguments)
    try:
        mutants = [m for m in all_mutants() if options.only is None or options.only in m.name]
    except OutOfDate as problem:
        print(f"the table is out of date: {problem}", file=sys.stderr)
        return 2
    if options.list or not mutants:
        print(*(m.name for m in mutants), f"{len(mutants)} mutants", sep="\n")
        return 0
    started = time.monotonic()
    preload()
    suites = sorted({(test,) for m in mutants for test in m.tests})
    print(f"{len(mutants)} mutants; first their {len(suites)} test files on the unchanged package", flush=True)
    unchanged = [] if options.trust else list(run_all(suites, options.jobs))
    broken = [outcome for outcome in unchanged if outcome.caught]
    known = remembered({name: seconds for outcome in unchanged for name, seconds in outcome.durations.items()})
    if broken:
        print(*(f"{' '.join(o.tests)} fails without any fault:\n{o.log[-2000:]}" for o in broken), sep="\n", file=sys.stderr)
        return 2
    survivors = []
    for number, outcome in enumerate(run_all(mutants, options.jobs, known), start=1):
        word = "caught  " if outcome.caught else "SURVIVED"
        print(f"{number:4d} {word} {outcome.seconds:5.1f} s  {outcome.mutant.name}", flush=True)
        survivors += [] if outcome.caught else [outcome.mutant]
    minutes = (time.monotonic() - started) / 60
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} caught in {minutes:.1f} minutes")
    if survivors:
        print("Survivors: write the missing test, or remove the line.", *(f"  {m.name}" for m in survivors), sep="\n")
    return 1 if survivors else 0


def remembered(new: dict[str, float]) -> dict[str, float]:
    """Seconds of single tests, from this run and earlier ones."""
    known = json.loads(DURATIONS.read_text()) if DURATIONS.exists() else {}
    DURATIONS.parent.mkdir(exist_ok=True)
    DURATIONS.write_text(json.dumps(known | new))
    return known | new


if __name__ == "__main__":
    sys.exit(main())
