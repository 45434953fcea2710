"""Folders written by version 0.1.0 (tests/fixtures, made by its own code): the good ones hold, the false ones say why not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import taskveil as tv
from taskveil.estimators import legacy
from taskveil.estimators.check_folder import check_folder

FIXTURES = Path(__file__).parents[2] / "fixtures" / "version_0_1_0"
GOOD = ("subspace", "subspace_local", "record_declared", "search")
FALSE = {
    "record_own_target": legacy.TARGET,
    "record_impute_own": legacy.FILLED,
    "record_dropped": legacy.FILLED,
    "kept_by_smallest": legacy.KEPT,
    "search_local": legacy.SEARCHED,
}


@pytest.mark.parametrize("name", GOOD)
def test_an_old_certificate_of_a_sound_run_still_holds(name):
    checked = check_folder(FIXTURES / name)
    assert checked.problems == ()
    assert checked.notes == (() if name.startswith("record") else (legacy.GAIN,)), "gain_ was never covered for whole tasks"
    assert len(tv.load(FIXTURES / name).task_names_) == 6


@pytest.mark.parametrize("name", FALSE)
def test_an_old_certificate_of_an_affected_run_does_not_hold_and_says_why(name):
    (problem,) = check_folder(FIXTURES / name).problems
    assert FALSE[name] in problem and "Run it again" in problem
    assert tv.load(FIXTURES / name).certificate_.verify().ok, "by itself it is consistent: that is all version 0.1.0 checked"


def claims_to_be_new(folder):
    """Relabelled as today's, without the seal today's version writes."""
    for name, edit in (("certificate.json", lambda d: d["software"].update(taskveil="0.2.0")), ("model.json", lambda d: None)):
        document = json.loads((folder / name).read_text())
        edit(document)
        (folder / name).write_text(json.dumps(document))


def drops_the_note(folder):
    document = json.loads((folder / "model.json").read_text())
    document["executed"].pop()
    (folder / "model.json").write_text(json.dumps(document))


@pytest.mark.parametrize("edit", [claims_to_be_new, drops_the_note])
def test_an_edited_old_folder_is_found(tmp_path, edit):
    shutil.copytree(FIXTURES / "subspace", tmp_path / "x")
    edit(tmp_path / "x")
    assert check_folder(tmp_path / "x").problems
