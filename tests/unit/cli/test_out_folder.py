"""A folder holds one run: what an older one left there is refused, or cleared on request, never shown beside the new one."""

from __future__ import annotations

import pytest

from taskveil.cli.main import run


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        run([str(a) for a in arguments])
    return int(stopped.value.code or 0)


FIT = ("fit", "synthetic:tiny", "--method", "mean")


def test_a_used_folder_is_refused_and_stays_as_it_was(tmp_path, capsys):
    assert call(*FIT, "--epsilon", 1, "-o", tmp_path / "m") == 0
    before = (tmp_path / "m" / "certificate.json").read_bytes()
    assert call(*FIT, "--epsilon", 4, "-o", tmp_path / "m") == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (tmp_path / "m" / "certificate.json").read_bytes() == before


def test_overwrite_clears_old_pages_and_audits_and_nothing_of_the_users(tmp_path):
    folder = tmp_path / "m"
    assert call(*FIT, "--epsilon", 1, "-o", folder) == 0
    assert call("report", folder, "--for", "public") == 0
    (folder / "audit-old.json").write_text("{}")
    (folder / "notes.txt").write_text("mine")
    assert call(*FIT, "--epsilon", 4, "-o", folder, "--overwrite") == 0
    assert not (folder / "report-public.html").exists() and not (folder / "audit-old.json").exists()
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("name", ["run", "parts"])
@pytest.mark.parametrize("more", [(), ("--overwrite",)], ids=["", "overwrite"])
def test_a_folder_of_the_users_that_has_a_name_of_ours_is_never_cleared(name, more, tmp_path, capsys):
    """`fit -o .` took whatever lay in ./run with it, and was not even asked to overwrite."""
    (tmp_path / name / "deep").mkdir(parents=True)
    (tmp_path / name / "thesis.tex").write_text("mine")
    assert call(*FIT, "--epsilon", 1, "-o", tmp_path, *more) == 2
    assert "not cleared" in capsys.readouterr().err
    assert (tmp_path / name / "thesis.tex").read_text() == "mine" and (tmp_path / name / "deep").is_dir()


def test_a_command_that_was_refused_does_not_use_the_folder_up(tmp_path):
    assert call(*FIT, "--epsilon", 1, "--set", "nosuch=1", "-o", tmp_path / "m") == 2
    assert call(*FIT, "--epsilon", 1, "-o", tmp_path / "m") == 0


def test_compare_refuses_a_used_folder_too(tmp_path):
    again = ("compare", "synthetic:tiny", "--methods", "local", "--epsilons", "1", "--repeats", "1", "-o", tmp_path / "c")
    assert call(*again) == 0
    assert call(*again) == 2
    assert call(*again, "--overwrite") == 0
