"""The comparison with other tools: every row names what was looked at, and when."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "other-tools.md"
ROWS = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| tool")]


@pytest.mark.parametrize("row", ROWS, ids=[r[0][2:30] for r in ROWS])
def test_every_row_has_a_version_or_branch_a_date_and_a_place_to_look(row):
    assert re.search(r"\d+\.\d+(\.\d+)?|main branch", row[0]) and re.search(r"20\d\d-\d\d-\d\d", row[0])
    assert len(row) == 6 and all(cell.strip(" |") for cell in row)
    assert "taskveil" in row[0] or re.search(r"[\w-]+/[\w-]+", row[5])  # owner/repository, or a path in one


@pytest.mark.parametrize("name, package", [("dp-accounting", "dp-accounting"), ("OpenDP", "opendp"), ("Flower", "flwr")])
def test_the_libraries_in_use_stand_there_in_the_installed_version(name, package):
    pytest.importorskip(package.replace("-", "_"))
    (row,) = (r for r in ROWS if r[0].startswith(f"| {name} "))
    assert version(package) in row[0]
