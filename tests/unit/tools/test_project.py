"""pyproject.toml and the Makefile name only what exists, and say why."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "pyproject.toml").read_text()
SETTINGS = tomllib.loads(TEXT)


def without_reason(text: str) -> list[str]:
    """Ignored rules on a line without a comment."""
    lines = text.split("ignore = [", 1)[1].split("\n]", 1)[0].split("\n")[1:]
    return [line.strip() for line in lines if not re.fullmatch(r'\s*"[A-Z]+\d+",\s*# .{10,}', line)]


def test_every_ignored_lint_rule_has_a_reason_of_its_own():
    assert not without_reason(TEXT)


def test_a_rule_without_a_reason_is_found():
    silent, crowded = '"E741",', '"B905", "E501",  # two at once'
    assert without_reason(f"ignore = [\n  {silent}\n  {crowded}\n]\n") == [silent, crowded]


def test_package_data_names_only_files_that_exist():
    (patterns,) = SETTINGS["tool"]["setuptools"]["package-data"].values()
    assert all(any((ROOT / "src" / "taskveil").glob(pattern)) for pattern in patterns)


def test_every_file_that_the_package_reads_is_shipped():
    """Templates, styles and scripts lie beside the code; one that no pattern names is missing in the wheel."""
    (patterns,), package = SETTINGS["tool"]["setuptools"]["package-data"].values(), ROOT / "src" / "taskveil"
    shipped = {path for pattern in patterns for path in package.glob(pattern)}
    beside = {p for p in package.rglob("*") if p.is_file() and p.suffix != ".py" and "__pycache__" not in p.parts}
    assert {str(path.relative_to(package)) for path in beside - shipped} == set()


def test_the_quick_tier_names_tests_that_exist():
    listed = re.search(r"^QUICK := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.M)[1].replace("\\", "").split()
    assert len(listed) > 5 and all((ROOT / path).exists() for path in listed)
