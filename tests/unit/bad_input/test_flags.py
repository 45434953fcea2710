"""Command lines: every flag of every command with every value its rule refuses; exit 2, one line, what came, what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest
from tests.support.wrong import label, one_line, wrong_values

from taskveil.checks import ListOf
from taskveil.cli import audit_fit
from taskveil.cli.flags import FLAGS, Flag
from taskveil.cli.main import COMMANDS, main, run

# what a command needs besides the flag under test, so that nothing else is wrong with the line
REST = {
    "fit": ["synthetic:tiny"],
    "compare": ["synthetic:tiny"],
    "plan": ["--tasks", "10", "--features", "3", "--epsilon", "1"],
    "audit": ["gaussian"],
    "audit fit": ["synthetic:tiny"],
    "predict": [".", "synthetic:tiny"],
    "adapt": [".", __file__],
    "declare": ["rows.csv"],
    "report": ["."],
    "certify": ["."],
    "reproduce": ["list"],
    "ledger set": ["north", "--epsilon", "1", "--delta", "1e-6"],
    "data path": ["school"],
    "data fetch": ["school"],
}


def commands(group: Any, name: str = "") -> Iterator[tuple[str, click.Command]]:
    for part in group.list_commands(None):
        command = group.get_command(None, part)
        if isinstance(command, click.Group):
            yield from commands(command, f"{part} ")
        else:
            yield name + part, command


ALL = dict(commands(main)) | {"audit fit": audit_fit.command}  # the only command that is a word of another


def texts(parameter: click.Parameter) -> list[str]:
    """Words on a command line that the type of a flag must refuse."""
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return ["", "magic", str(kind.choices[0]) + "x", "3"]
    if isinstance(kind, Flag):
        words = dict.fromkeys(str(v) for v in wrong_values(kind.rule) if not isinstance(v, (type(None), bool)) and label(v))
        parsed = {w: kind.rule.parse(w) for w in words if "\0" not in w}
        plain = [w for w, v in parsed.items() if not kind.rule.accepts(v)]
        if isinstance(kind.rule, ListOf):
            return ["", ",", " , "] + (["much", "1,nan", "-1", "0", "inf", "1,,x"] if kind.key == "--epsilons" else [])
        return plain
    if isinstance(kind, click.Path) and kind.exists:
        return ["", "/nowhere/at/all"]
    return []


CASES = [
    pytest.param(name, parameter.opts[-1], words, id=f"{name} {parameter.opts[-1]}")
    for name, command in ALL.items()
    for parameter in (audit_fit.OWN_OPTIONS if name == "audit fit" else command.params)  # the rest are those of fit
    if isinstance(parameter, click.Option) and (words := texts(parameter))
]


@pytest.mark.parametrize("name, flag, words", CASES)
def test_a_value_outside_its_rule_ends_with_exit_2_and_one_line(name, flag, words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TASKVEIL_DEBUG", raising=False)
    for text in words:
        with pytest.raises(SystemExit) as ended:
            run([*name.split(), *REST.get(name, []), f"{flag}={text}"])
        said = capsys.readouterr().err
        assert ended.value.code == 2, f"{label(text)}: {said}"
        one_line(said)
        assert flag in said or flag.lstrip("-") in said, said
        assert not list(tmp_path.iterdir()), "a refused command leaves nothing behind"


LINES = {
    "a number where a name is due": ["fit"],
    "an unknown command": ["fti"],
    "an unknown flag": ["plan", "--task", "3"],
    "three million rounds": ["plan", *REST["plan"], "--rounds", "3000000"],
    "three million rounds, said otherwise": ["plan", *REST["plan"], "--set", "rounds=3000000"],
    "no number of rounds": ["plan", *REST["plan"], "--set", "rounds=nan"],
    "a share that is none": ["plan", *REST["plan"], "--set", "mean_share=NaN"],
    "a share in words": ["plan", *REST["plan"], "--set", "mean_share=half"],
    "deep JSON": ["plan", *REST["plan"], "--set", "mean_share=" + "[" * 50_000],
    "a thousand colluders": ["plan", *REST["plan"], "--aggregation", "secure", "--secure", "colluders=1000"],
    "a cohort of 1.5": ["plan", *REST["plan"], "--aggregation", "secure", "--secure", "min_cohort=1.5"],
    "colluders of a curator": ["plan", *REST["plan"], "--secure", "colluders=1"],
    "an unknown secure option": ["plan", *REST["plan"], "--aggregation", "secure", "--secure", "magic=1"],
    "a secure option that is not for callers": ["plan", *REST["plan"], "--aggregation", "secure", "--secure", "n_tasks=3"],
    "a share of nothing": ["fit", "synthetic:tiny", "--epsilon", "1", "--scaling-share", "0.2"],
    "an unknown mechanism": ["plan", *REST["plan"], "--mechanism", "magic"],
    "a site outside its folder": ["join", "--init", "x", "--name", "../../x"],
    "a server with a site outside its folder": ["serve", "--init", "x", "--site", "../../x"],
    "two sites of one name": ["serve", "--init", "x", "--site", "north", "--site", "North"],
    "a host with a space": ["serve", "--init", "x", "--site", "north", "--host", "a b"],
    "an account without a ledger": ["fit", "synthetic:tiny", "--method", "mean", "--epsilon", "1", "--account", "a"],
    "a folder that is a file": ["fit", "synthetic:tiny", "--method", "mean", "--epsilon", "1", "-o", __file__],
    "a ledger that is not there": ["ledger", "verify", "--ledger", "sqlite:///nothing.db"],
    "an empty list of methods": ["compare", "synthetic:tiny", "--methods", ""],
    "an empty list of commas": ["compare", "synthetic:tiny", "--methods", ",,"],
    "digits of another script": ["plan", *REST["plan"], "--rounds", "\uff11\uff12"],
    "an underscore in a number": ["plan", *REST["plan"], "--rounds", "1_0"],
    "an epsilon in digits of another script": ["plan", "--tasks", "9", "--features", "3", "--epsilon", "\u0663"],
    "a page for a kind": ["plan", *REST["plan"], "--kind", "x" * 9000],
    "a page for a file": ["fit", "synthetic:tiny", "--bounds", "x" * 9000],
    "a page for a table": ["fit", "x" * 9000],
    "a page for a method": ["fit", "synthetic:tiny", "--method", "x" * 9000],
    "a method on two lines": ["fit", "synthetic:tiny", "--method", "a\nb\x1b[31m"],
    "made-up data of fewer tasks than none": ["fit", "synthetic:tiny?n_tasks=-1"],
    "made-up data of words": ["fit", "synthetic:tiny?n_tasks=many"],
    "made-up data of terabytes": ["fit", "synthetic:tiny?n_tasks=1000000,n_train=1000000"],
    "bytes that are no text": ["fit", "synthetic:tiny", "--task", "\udcff"],
    "half a character": ["ledger", "set", "\ud800", "--epsilon", "1", "--delta", "1e-6"],
    "an account that moves the cursor": ["ledger", "set", "a\x1b[2J", "--epsilon", "1", "--delta", "1e-6"],
    "a ledger in memory": ["ledger", "set", "a", "--epsilon", "1", "--delta", "1e-6", "--ledger", "sqlite:///"],
    "a host that is a flag": ["serve", "--init", "x", "--site", "north", "--host", "-1"],
    "an address in place of a csv": ["predict", ".", __file__, "-o", "s3://bucket/rows.csv"],
    "a csv in no folder": ["predict", ".", __file__, "-o", "nowhere/rows.csv"],
    "made-up data of no relation": ["fit", "synthetic:tiny?relation=magic"],
}


@pytest.mark.parametrize("line", LINES)
def test_a_known_mistake_ends_with_exit_2_and_one_line(line, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run(LINES[line])
    said = capsys.readouterr().err
    assert ended.value.code == 2, said
    one_line(said)
    assert not list(tmp_path.iterdir())


def test_no_flag_is_a_bare_number_any_more():
    """A flag of type int or float has no range; write a rule for it in cli/flags.py."""
    bare = [
        f"{name} {p.opts[-1]}"
        for name, command in ALL.items()
        for p in command.params
        if not getattr(p, "is_flag", False) and p.type in (click.INT, click.FLOAT)
    ]
    assert not bare and {name.split()[0] for name in ALL} == set(COMMANDS)


def test_the_collection_is_large_and_every_rule_of_the_table_is_used():
    used = {p.type.key for c in ALL.values() for p in c.params if isinstance(p.type, Flag)}
    assert used == set(FLAGS)
    assert sum(len(words) for _, _, words in (case.values for case in CASES)) >= 150
