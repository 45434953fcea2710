"""The command a run folder notes: what it lacks has the command's defaults, what it holds is checked."""

from __future__ import annotations

import pytest

from taskveil.cli import command_file, fit
from taskveil.errors import DataError


def test_options_that_are_newer_than_the_note_have_their_defaults(tmp_path):
    """A note of an older version lacks options without a default too; `fit --resume` went wrong on them."""
    given = command_file.as_given(fit.command, {"epsilon": 2.0}, tmp_path)
    assert given["epsilon"] == 2.0 and given["method"] == "together" and given["scaling_share"] == 0.1
    assert given["audit_canaries"] is None and given["engine"] is None and given["no_gain"] is False


@pytest.mark.parametrize("options", [{"no_such": 1}, {"seed": -1}, {"wait_for_workers": "long"}])
def test_a_note_that_was_written_by_hand_is_checked(options, tmp_path):
    with pytest.raises(DataError, match="is damaged"):
        command_file.as_given(fit.command, options, tmp_path / "command.json")


def test_what_belongs_to_one_call_is_not_resumed(tmp_path):
    (tmp_path / "run").mkdir()
    command_file.write(tmp_path / "run" / "command.json", "table.csv", {"task": "ward", "target": "days"})
    data, given = fit.resumed(tmp_path)
    assert data == "table.csv" and given["task"] == "ward"
    assert not set(given) & {"audit_canaries", "out", "overwrite", "resume", "sign", "as_json"}
