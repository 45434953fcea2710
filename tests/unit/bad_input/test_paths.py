"""Paths on the command line, made from the commands themselves, and options that contradict one another: one line, exit 2,
nothing read, written or charged, and nothing ever waited for."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import click
import pytest
from tests.support.wrong import label, one_line

from taskveil.cli import command_file
from taskveil.cli.flags import Given
from taskveil.cli.main import COMMANDS, run
from taskveil.errors import OptionError
from taskveil.privacy.ledger import Book


def commands(command: click.Command, name: str) -> list[tuple[str, click.Parameter]]:
    inside = command.commands.items() if isinstance(command, click.Group) else ()
    found = [(name, parameter) for parameter in command.params]
    return found + [pair for sub, inner in inside for pair in commands(inner, f"{name} {sub}")]


PARAMETERS = [pair for name in COMMANDS for pair in commands(import_module(f"taskveil.cli.{name}").command, name)]
PATHS = [pytest.param(p, id=f"{name} {p.opts[-1]}") for name, p in PARAMETERS if isinstance(p.type, click.Path)]
WRONG = ["", " ", "a\nb", "\x1b[31m", "a\0b", "x" * 20_000]


def test_every_path_is_given_by_the_one_type_that_refuses_pipes():
    assert len(PATHS) > 20
    assert all(isinstance(p.type, Given) for _, p in PARAMETERS if isinstance(p.type, click.Path))


@pytest.mark.parametrize("value", WRONG, ids=label)
@pytest.mark.parametrize("parameter", PATHS)
def test_what_is_no_path_is_refused(parameter, value):
    with pytest.raises(OptionError) as error:
        parameter.type.convert(value, parameter, None)
    one_line(str(error.value))


@pytest.mark.parametrize("parameter", PATHS)
def test_a_pipe_on_the_command_line_is_refused(parameter, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OptionError, match="pipe"):
        parameter.type.convert(str(tmp_path / "pipe"), parameter, None)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as ended:
        run([str(a) for a in arguments])
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    one_line(said.strip().splitlines()[-1])  # progress may stand before it
    return said


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A run that was begun on a table that is gone by now: whatever reads it would say so."""
    (tmp_path / "model" / "run").mkdir(parents=True)
    command_file.write(
        tmp_path / "model" / "run" / "command.json", "gone.csv", {"epsilon": 1.0, "method": "mean", "unit": "task"}
    )
    return tmp_path / "model"


OTHERWISE = [
    ("--epsilon", "3"),
    ("--method", "subspace"),
    ("--unit", "record"),
    ("--set", "rounds=2"),
    ("--secure", "colluders=1"),
    ("--ledger", "sqlite:///other.db"),
    ("-o", "elsewhere"),
    ("--audit-canaries", "20"),
    ("other.csv",),
]


@pytest.mark.parametrize("other", OTHERWISE, ids=lambda other: other[0])
def test_a_resumed_run_that_is_told_something_else_is_refused(other, stopped, capsys):
    """The run's own options won, silently; whoever gave another epsilon read the old one's guarantee."""
    assert "as the run was begun" in refused(capsys, "fit", "--resume", stopped, *other)


@pytest.mark.parametrize(
    "same", [("--epsilon", "1"), ("--method", "mean"), ("gone.csv",), ("--unit", "task")], ids=lambda s: s[0]
)
def test_a_resumed_run_that_is_told_the_same_again_goes_on(same, stopped, capsys):
    assert "gone.csv" in refused(capsys, "fit", "--resume", stopped, *same), "the first thing it lacks is its table"


CONTRADICTIONS = {
    "overwrite what": ["fit", "t.csv", "--task", "a", "--target", "b", "--overwrite"],
    "a key and a check": ["certify", "{}", "--make-key", "{}/k"],
    "a file of no export": ["certify", "{}", "-o", "{}/x.md"],
    "a key without a name": ["certify", "--make-key", ".."],
    "a key in no folder": ["certify", "--make-key", "{}/nowhere/k"],
    "a key with a long name": ["certify", "--make-key", "{}/" + "k" * 300],
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_options_that_contradict_one_another_are_refused(case, tmp_path, capsys):
    refused(capsys, *(a.replace("{}", str(tmp_path)) for a in CONTRADICTIONS[case]))
    assert not list(tmp_path.iterdir())


def test_half_a_pair_of_keys_is_never_written(tmp_path, capsys):
    (tmp_path / "k.pub").write_text("somebody's")
    refused(capsys, "certify", "--make-key", tmp_path / "k")
    assert [path.name for path in tmp_path.iterdir()] == ["k.pub"]


@pytest.mark.parametrize("command", [["ledger", "export"], ["ledger", "report"]], ids=" ".join)
def test_an_export_never_overwrites_the_ledger_it_is_of(command, tmp_path, capsys):
    """The books were gone, and with them everything that had been spent."""
    url, book = f"sqlite:///{tmp_path / 'budget.db'}", tmp_path / "budget.db"
    with pytest.raises(SystemExit):
        run(["ledger", "set", "a", "--epsilon", "1", "--delta", "1e-6", "--ledger", url])
    capsys.readouterr()
    refused(capsys, *command, "--ledger", url, "-o", book)
    assert [row.name for row in Book(url).accounts()] == ["a"]


@pytest.mark.parametrize("written", ["rows.csv", "model/model.json", "model/arrays.npz"])
def test_predictions_never_overwrite_what_they_are_made_from(written, tmp_path, capsys):
    (tmp_path / "model").mkdir()
    for name in ("rows.csv", "model/model.json", "model/arrays.npz"):
        (tmp_path / name).write_text("as it was")
    said = refused(capsys, "predict", tmp_path / "model", tmp_path / "rows.csv", "-o", tmp_path / written)
    assert "reads" in said and (tmp_path / written).read_text() == "as it was"


@pytest.mark.parametrize("name", ["key", "signature"])
def test_a_pipe_for_a_key_or_a_signature_is_never_waited_for(name, tmp_path):
    from taskveil.errors import DataError
    from taskveil.privacy import signing

    os.mkfifo(tmp_path / "signature.json")
    if name == "signature":
        assert signing.signature_problems(tmp_path, None)[0] == ["signature.json is damaged"]
    for read in (signing.private_key, signing.public_key) if name == "key" else ():
        with pytest.raises(DataError) as error:
            read(tmp_path / "signature.json")
        one_line(str(error.value))
