"""The list of mutants: written by hand in tables/*.toml, and generated from the source (generate.py).

A table has `[tests]`, which names the test files (or single tests) that guard each source file, and `[[mutant]]` entries:

    file   path below src/taskveil
    old    text that occurs exactly once in it (or `at`: the text before it, to tell several places apart)
    new    what the fault writes instead
    why    what an observer would gain, or what breaks
    tests  only where other tests than those of the file must catch it

Text that no longer occurs means: the table is out of date, and the run fails before it starts.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.generate import Edit, edits

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "taskveil"
TABLES = Path(__file__).parent / "tables"


class OutOfDate(Exception):
    """A table does not fit the source any more."""


@dataclass(frozen=True)
class Mutant:
    """One changed file, why that is a fault, and who must notice."""

    file: str
    line: int
    why: str
    text: str  # the whole changed file
    tests: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.why}"


def all_mutants(tables: Path = TABLES, source: Path = SOURCE) -> list[Mutant]:
    """Every mutant of every table; OutOfDate where one does not fit."""
    found: list[Mutant] = []
    for path in sorted(tables.glob("*.toml")):
        table = tomllib.loads(path.read_text())
        tests = {name: tuple(files) for name, files in table.get("tests", {}).items()}
        found += [_by_hand(entry, tests, source, path.name) for entry in table.get("mutant", [])]
        for name, kinds in table.get("generate", {}).items():
            found += _generated(name, kinds, tests, source, table.get("equivalent", []), path.name)
    return found


def _by_hand(entry: dict, tests: dict[str, tuple[str, ...]], source: Path, table: str) -> Mutant:
    name, old = entry["file"], entry["old"]
    text = _read(source, name, table)
    start = text.find(entry["at"]) if "at" in entry else 0
    place = text.find(old, start) if start >= 0 else -1
    if place < 0 or ("at" not in entry and text.count(old) != 1):
        raise OutOfDate(f"{table}: {old!r} should occur once in {name}; it occurs {text.count(old)} times ({entry['why']})")
    changed = text[:place] + entry["new"] + text[place + len(old) :]
    own_tests = tuple(entry.get("tests", ())) or _tests_of(tests, name, table)
    return _mutant(name, text, place, changed, entry["why"], own_tests, table)


def _generated(
    name: str, kinds: list[str], tests: dict[str, tuple[str, ...]], source: Path, equivalent: list[dict], table: str
) -> list[Mutant]:
    text = _read(source, name, table)
    skipped = [e for e in equivalent if e["file"] == name]
    made = [edit for kind in kinds for edit in edits(text, kind)]
    for skip in skipped:
        if not any(_matches(skip, edit, text) for edit in made):
            raise OutOfDate(f"{table}: no generated change of {name} is {skip['what']!r} in {skip['line']!r}")
    kept = [edit for edit in made if not any(_matches(skip, edit, text) for skip in skipped)]
    return [
        _mutant(name, text, e.start, text[: e.start] + e.new + text[e.end :], e.what, _tests_of(tests, name, table), table)
        for e in kept
    ]


def _matches(skip: dict, edit: Edit, text: str) -> bool:
    return skip["what"] == edit.what and skip["line"] in line_at(text, edit.start)


def line_at(text: str, place: int) -> str:
    return text[text.rfind("\n", 0, place) + 1 : (text.find("\n", place) + len(text)) % len(text)]


def _mutant(name: str, text: str, place: int, changed: str, why: str, tests: tuple[str, ...], table: str) -> Mutant:
    try:
        same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(text))
    except SyntaxError as error:
        raise OutOfDate(f"{table}: {name} no longer compiles with the fault {why!r}: {error}") from None
    if same:
        raise OutOfDate(f"{table}: the fault {why!r} changes nothing in {name}")
    return Mutant(name, text.count("\n", 0, place) + 1, why, changed, tests)


def _tests_of(tests: dict[str, tuple[str, ...]], name: str, table: str) -> tuple[str, ...]:
    if name not in tests:
        raise OutOfDate(f"{table}: [tests] names no tests for {name}")
    return tests[name]


def _read(source: Path, name: str, table: str) -> str:
    path = source / name
    if not path.exists():
        raise OutOfDate(f"{table}: there is no file {name} any more")
    return path.read_text()
