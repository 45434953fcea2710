"""python -m benchmarks.field [SETTING ...] [--quick | --page] [--again]: measure settings, then write results.md and field.svg.

Scores that are stored are not measured again unless asked for. --quick runs one seed, prints the figures and writes nothing; --page
measures nothing and writes the page from what is stored.
The data sets must be in $TASKVEIL_DATA.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

from benchmarks.field import page
from benchmarks.field.measure import measure
from benchmarks.field.setting import settings


def main(arguments: list[str] | None = None) -> None:
    known = settings()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.field", description=__doc__)
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=f"one of {', '.join(known)}; none: all")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.settings if name not in known]
    if unknown:
        parser.error(f"unknown setting {unknown[0]!r}; known: {', '.join(known)}")
    warnings.simplefilter("ignore")
    for name in () if given.page else given.settings or known:
        setting = known[name]
        if given.quick:
            setting = replace(setting, seeds=setting.seeds[:1])
            with tempfile.TemporaryDirectory() as folder:
                print(page.section(setting, measure(setting, folder=Path(folder))))
        else:
            print(page.section(setting, measure(setting, given.again)))
    if not given.quick:
        page.write(known)


if __name__ == "__main__":
    main()
