"""docs/architecture.md shows the code as it is: its rooms, the walk of a fit, the fields of a certificate."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.walk import LIST, PICTURE, by_stage
from tools.walk_picture import draw

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
MOST = {"fit": 55, "fit --ledger": 81, "one site message": 28, "one neural round": 49}  # files
AGAIN = "the code took another way: run  python -m tools.walk --write"


@pytest.fixture(scope="module")
def trace():
    """The four walks in a fresh process, so that nothing other tests did shows."""
    pytest.importorskip("jax")
    command = [sys.executable, "-m", "tools.walk", "--json"]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_picture_shows_the_files_a_fit_passes(trace):
    assert trace["stages"] == json.loads(LIST.read_text()), AGAIN


def test_the_four_walks_are_counted(trace, capsys):
    """What was reached is a bound; a walk through no file would be a broken trace."""
    with capsys.disabled():
        for name, numbers in trace["counts"].items():
            print(f"\n{name:18} {numbers['files']:4} files {numbers['functions']:5} functions", end="")
    assert {name: numbers["files"] for name, numbers in trace["counts"].items() if not 10 < numbers["files"] <= MOST[name]} == {}
    assert trace["counts"].keys() == MOST.keys()


def test_the_picture_is_drawn_from_its_list():
    assert PICTURE.read_text() == draw(json.loads(LIST.read_text())), AGAIN


def test_a_file_more_or_a_file_less_changes_the_picture():
    """Twin: neither the list nor the drawing can stay the same when the walk does not."""
    stages = json.loads(LIST.read_text())
    fewer = {title: files[1:] for title, files in stages.items()}
    assert draw(fewer) != PICTURE.read_text()


def test_a_stage_that_no_call_begins_is_refused():
    with pytest.raises(SystemExit, match="must follow the code"):
        by_stage([("estimators/base.py", "TaskEstimator.fit")])


def test_the_table_of_rooms_is_the_folder_tree():
    source = ROOT / "src" / "taskveil"
    folders = {p.parent.relative_to(source).as_posix() + "/" for p in source.rglob("__init__.py") if p.parent != source}
    table = PAGE.split("<!-- rooms -->")[1].split("<!-- end of rooms -->")[0]
    assert set(re.findall(r"^\| `([\w/]+/)` \|", table, re.M)) == folders


def test_rooms_stand_in_the_order_of_the_import_layers():
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.findall(r"taskveil\.(\w+)", layer) for layer in next(c for c in contracts if c["type"] == "layers")["layers"]]
    depth = {name: i for i, names in enumerate(layers) for name in names}
    rooms = [room for room in re.findall(r"^\| `(\w+)/` \|", PAGE, re.M) if room in depth]
    assert [depth[r] for r in rooms] == sorted(depth[r] for r in rooms) and len(rooms) > 10


def test_files_named_on_the_page_exist():
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE)
    assert named and not [f for f in named if not (ROOT / "src" / "taskveil" / f).is_file()]


def test_the_fields_of_a_certificate_are_those_of_the_class():
    from dataclasses import fields

    from taskveil.privacy.certificate import Certificate

    table = PAGE.split("{#certificate}")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*) \|", table, re.M)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == {f.name for f in fields(Certificate)}
