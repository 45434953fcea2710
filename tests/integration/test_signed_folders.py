"""Signed folders of a run: one changed byte is found, by the key or by the journal that `fit` keeps."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.support import forged_folders
from tests.support.forged_folders import Folder, call, check, epsilon_a_tenth, release_dropped_everywhere

from taskveil.privacy import signing

place = forged_folders.place


@pytest.fixture
def signed(place, tmp_path):
    shutil.copytree(place / "model", tmp_path / "signed")
    (tmp_path / "signed" / "report.html").write_text("a page")
    signing.sign_folder(tmp_path / "signed", signing.private_key(place / "officer.key"))
    return tmp_path / "signed"


def test_a_signed_folder_holds_under_its_key_and_no_other(place, signed, capsys):
    assert check(signed, "--key", place / "officer.pub") == 0
    assert "as its holder left it" in capsys.readouterr().out
    assert check(signed) == 0 and "anybody may have made" in capsys.readouterr().out
    assert check(signed, "--key", place / "forger.pub") == 1


@pytest.mark.parametrize("name", ["certificate.json", "model.json", "arrays.npz", "report.html", "signature.json"])
def test_one_changed_byte_in_any_signed_file_is_found(place, signed, name):
    """A blank at the end of a JSON file changes nothing it says, and is found all the same."""
    path = signed / name
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    assert check(signed, "--key", place / "officer.pub") == 1
    path.write_bytes(content + b" ")
    assert check(signed, "--key", place / "officer.pub") == (0 if name == "signature.json" else 1)


def test_a_folder_edited_sealed_and_signed_again_by_somebody_else_is_found(place, signed):
    folder = Folder(place, signed.parent / "x")
    epsilon_a_tenth(folder)
    folder.seal("certificate", "model", "arrays")
    signing.sign_folder(folder.path, signing.private_key(place / "forger.key"))
    assert check(folder.path) == 0, "without a key anybody may have signed it"
    assert check(folder.path, "--key", place / "officer.pub") == 1


def test_a_signed_file_that_can_no_longer_be_read_is_an_edit_and_no_slip_of_the_reader(place, signed, capsys):
    for name in ("model.json", "certificate.json"):
        (signed / name).write_bytes((signed / name).read_bytes()[:-1] + b"|")
        assert check(signed, "--key", place / "officer.pub") == 1
        assert "changed" in capsys.readouterr().err
    (signed / "certificate.json").unlink()
    assert check(signed, "--key", place / "officer.pub") == 1


def test_a_removed_signature_or_file_is_found(place, signed):
    (signed / "report.html").unlink()
    assert check(signed, "--key", place / "officer.pub") == 1
    (signed / "signature.json").unlink()
    assert check(signed, "--key", place / "officer.pub") == 1


def test_a_folder_sealed_again_in_all_three_files_does_not_fit_the_journal_of_fit(place, tmp_path):
    assert call("fit", "synthetic:tiny", "--epsilon", 1, "--aggregation", "local", "-o", tmp_path / "m") == 0
    for edit in (epsilon_a_tenth, release_dropped_everywhere):
        shutil.copytree(tmp_path / "m", tmp_path / "again")
        folder = Folder(tmp_path, tmp_path / edit.__name__, "again")
        edit(folder)
        folder.seal("certificate", "model", "arrays")
        assert check(folder.path) == 1
        shutil.rmtree(folder.path / "run")
        assert check(folder.path) == 0, "the twin: nothing else can show it"
        shutil.rmtree(tmp_path / "again")
    assert check(tmp_path / "m") == 0


def test_fit_signs_what_it_wrote(place, tmp_path):
    assert call("fit", "synthetic:tiny", "--epsilon", 1, "-o", tmp_path / "m", "--sign", place / "officer.key") == 0
    assert check(tmp_path / "m", "--key", place / "officer.pub") == 0
    assert "run/plan.json" in json.loads((tmp_path / "m" / "signature.json").read_text())["files"]
