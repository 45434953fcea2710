"""The folders of `serve`, `join` and `status`: damaged, missing or foreign files are one line and exit 2 before anything starts.

Nearly every case was a traceback-like "defect", a raw exception, an endless retry, or was accepted, before there were rules.
A case that is accepted would start Flower: `Started` says so.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support.wrong import one_line

from taskveil.cli.status import words
from taskveil.errors import CheckFailed, InputError
from taskveil.runtime.federation import status
from taskveil.runtime.federation.server import run_folder, serve
from taskveil.runtime.federation.server.watch import Watch
from taskveil.runtime.federation.site import join

ROWS = "x0,x1,x2,y,task\n" + "\n".join(f"{i / 10},{i * 7 % 10 / 10},{i * 3 % 10 / 10},{i / 5},north" for i in range(12)) + "\n"
OWN = "sites/north/site.toml"
NOT_A_TABLE = ("[]", "3", '"x"', "null", "", "\0\1", "[" * 100_000, "{")


class Started(Exception):
    """Flower's processes would run now."""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "trial"
    serve.init(folder, ["north", "south"], ["127.0.0.1"], 9931, "trial")
    (folder / "north.csv").write_text(ROWS)
    return folder


@pytest.fixture
def trial(made, tmp_path, monkeypatch) -> Path:
    def started(*_: object) -> None:
        raise Started

    monkeypatch.setattr(serve, "_superlink", started)
    monkeypatch.setattr(join, "_supernode", started)
    return Path(shutil.copytree(made, tmp_path / "trial"))


def run_server(trial: Path) -> None:
    serve.serve(trial / "federation.toml", lambda words: None)


def run_site(trial: Path) -> None:
    join.join(trial / "sites" / "north" / "site.toml", str(trial / "north.csv"), lambda words: None)


def write(place: str, text: str | bytes):
    def change(trial: Path) -> None:
        path = trial / place
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    return change


def copy(source: str, place: str):
    return lambda trial: shutil.copy(trial / source, trial / place)


def folder(place: str):
    def change(trial: Path) -> None:
        (trial / place).unlink(missing_ok=True)
        (trial / place).mkdir(parents=True)

    return change


def pipe(place: str):
    """Whoever opens it waits for ever."""

    def change(trial: Path) -> None:
        (trial / place).unlink()
        os.mkfifo(trial / place, 0o600)

    return change


def loop(place: str):
    def change(trial: Path) -> None:
        (trial / place).unlink()
        os.symlink(trial / place, trial / place)

    return change


def edit(place: str, old: str, new: str):
    def change(trial: Path) -> None:
        text = (trial / place).read_text()
        assert old in text
        (trial / place).write_text(text.replace(old, new, 1))

    return change


def linked(trial: Path) -> None:
    (trial / "elsewhere").mkdir()
    (trial / "run").symlink_to(trial / "elsewhere")


def wide(trial: Path) -> None:
    edit("federation.toml", '"x2"]', '"x2", ' + ", ".join(f'"z{i}"' for i in range(40)) + "]")(trial)
    edit("federation.toml", "[rules]", "[rules]\nmax_bytes = 6000")(trial)


SERVER = {
    "no room for a message's head": (edit("federation.toml", "[rules]", "[rules]\nmax_bytes = 1024"), "more than"),
    "run is a file": (write("run", "x"), "a link or a file"),
    "run is a link": (linked, "a link or a file"),
    "results is a file": (write("results", "x"), "a link or a file"),
    "key of another certificate": (copy("certificates/ca.key", "certificates/server.key"), "not the private key of server.crt"),
    "an empty key": (write("certificates/server.key", ""), "not the private key of server.crt"),
    "no public key": (lambda trial: (trial / "keys/south.pub").unlink(), "'south' has no public key"),
    "garbage for a public key": (write("keys/south.pub", "ssh-rsa AAAA"), "not the public key of a site"),
    "a private key for a public one": (copy("sites/south/south.key", "keys/south.pub"), "not the public key of a site"),
    "a folder for a public key": (folder("keys/south.pub"), "not the public key of a site"),
    "a pipe for a public key": (pipe("keys/south.pub"), "not the public key of a site"),
    "a pipe for a certificate": (pipe("certificates/server.crt"), "not a certificate"),
    "a pipe for the authority": (pipe("certificates/ca.crt"), "not a certificate"),
    "a pipe for a key": (pipe("certificates/server.key"), "no file"),
    "a pipe for the file itself": (pipe("federation.toml"), "no file"),
    "a loop for the file itself": (loop("federation.toml"), "missing"),
    "run with somebody's files in it": (write("run/thesis.tex", "mine"), "files of something else"),
    "one key for two sites": (copy("keys/north.pub", "keys/south.pub"), "public key of another site too"),
    "one key file for two sites": (edit("federation.toml", "keys/south.pub", "keys/north.pub"), "public key of another site too"),
    "messages beyond the limit on messages": (wide, "max_bytes allows 6000"),
    "messages of gigabytes": (
        edit("federation.toml", '"x2"]', '"x2", ' + ", ".join(f'"z{i}"' for i in range(20_000)) + "]"), "use fewer features"
    ),
    "answers after the deadline": (edit("federation.toml", "[rules]", "[rules]\nanswer_at = 600"), "answer_at must be below"),
}  # fmt: skip
SITE = {
    "key: garbage": (write("sites/north/north.key", "x"), "not a site's private key"),
    "key: empty": (write("sites/north/north.key", ""), "not a site's private key"),
    "key: of a server": (copy("certificates/server.key", "sites/north/north.key"), "not a site's private key"),
    "key: a pipe": (pipe("sites/north/north.key"), "no file"),
    "authority: a pipe": (pipe("sites/north/ca.crt"), "not a certificate"),
    "federation: a pipe": (pipe("federation.toml"), "no file"),
    "federation: a loop": (loop("federation.toml"), "missing"),
    "ledger: in memory": (edit(OWN, "[limit]", '[limit]\nledger = "sqlite:///"'), "forgets"),
    "authority: garbage": (write("sites/north/ca.crt", "x"), "not a certificate"),
    "authority: a folder": (folder("sites/north/ca.crt"), "not a certificate"),
    "target is a feature": (edit(OWN, 'task = "task"', 'task = "task"\ntarget = "x0"'), "neither task nor target"),
    "ledger: a port that is none": (edit(OWN, "[limit]", '[limit]\nledger = "postgresql://u:pw@h:p/d"'), "no database"),
}
AGREED = (*NOT_A_TABLE, "{}", '{"digest": "x", "ledger_run": "y"}', '{"digest": 3, "ledger_run": [], "plan": 4, "messages": 1}')
SITE |= {
    f"state/run.json {i}": (write("sites/north/state/run.json", text), "expected a table|is not|is missing|must be")
    for i, text in enumerate(AGREED)
}


@pytest.mark.parametrize("case", SERVER)
def test_a_server_s_folder_with_this_mistake_is_refused_before_anything_starts(case, trial):
    change, expected = SERVER[case]
    change(trial)
    with pytest.raises(InputError, match=expected) as error:
        run_server(trial)
    one_line(str(error.value))


@pytest.mark.parametrize("case", SITE)
def test_a_site_s_folder_with_this_mistake_is_refused_before_anything_starts(case, trial):
    change, expected = SITE[case]
    change(trial)
    with pytest.raises(InputError, match=expected) as error:
        run_site(trial)
    one_line(str(error.value))
    assert "pw" not in str(error.value), "a password in the address of a ledger"


def test_without_a_mistake_both_start(trial):
    for run in (run_server, run_site):
        with pytest.raises(Started):
            run(trial)


@pytest.mark.parametrize("mark", ['"', "\\", "\n"], ids=["quote", "backslash", "newline"])
def test_a_folder_that_flower_s_command_line_cannot_be_told_is_refused(trial, mark):
    moved = trial.rename(trial.parent / f"tr{mark}ial")
    for run in (run_server, run_site):
        with pytest.raises(InputError, match="quotation mark") as error:
            run(moved)
        one_line(str(error.value))


# ------------------------------------------------------------------------------------------ what a server keeps in run/


@pytest.mark.parametrize("text", [*NOT_A_TABLE, '{"north": "x"}', '{"north": -1}', '{"north": 1.5}', '{"north": null}'])
def test_damaged_node_ids_and_refusals_are_one_line(text, tmp_path):
    path = tmp_path / "file.json"
    path.write_text(text)
    for read in (run_folder.read_nodes, run_folder.refusal):
        with pytest.raises(InputError) as error:
            raise read(path) or AssertionError
        one_line(str(error.value))


def test_why_a_run_ended_for_good_comes_back_as_what_it_was(tmp_path):
    for error in (InputError("too large"), CheckFailed("nothing is released")):
        run_folder.keep_refusal(tmp_path / "refused.json", error)
        again = run_folder.refusal(tmp_path / "refused.json")
        assert str(again) == str(error) and again.exit_code == error.exit_code


GOOD_SITE: dict[str, Any] = {"name": "north", "tasks": 1, "state": "answering", "asked": 1, "reason": "", "heard": None}
GOOD_WATCH: dict[str, Any] = {
    "phase": "running", "connected": [], "round": 1, "rounds": 2, "spent": None, "sites": [GOOD_SITE], "refusals": [],
}  # fmt: skip
WRONG_WATCH = {
    "sites": [3, [3], [{"name": 3}], [{**GOOD_SITE, "asked": "x"}], [{**GOOD_SITE, "heard": []}], [{**GOOD_SITE, "more": 1}]],
    "round": ["x", -1, 1.5, None],
    "refusals": [[3], [{"reason": 3}], {}],
    "spent": ["x"],
    "phase": [3, ""],
}  # fmt: skip


@pytest.mark.parametrize(("part", "value"), [(part, value) for part, values in WRONG_WATCH.items() for value in values])
def test_a_damaged_watch_begins_again_and_the_run_goes_on(part, value, trial):
    """It ended the run at the next question, or the status with it."""
    (trial / "run").mkdir()
    path = trial / "run" / "watch.json"
    path.write_text(json.dumps({**GOOD_WATCH, part: value}))
    watch = Watch(path, ["north", "south"], [1, 1], 10.0, lambda rounds: None)
    watch.question(0), watch.answer(0), watch.refusal(1, "late", "slow"), watch.progress(1, 2)
    path.write_text(json.dumps({**GOOD_WATCH, part: value}))
    federation = serve.load_federation(trial / "federation.toml")
    shown = status.of_server(federation, {"rounds": 2}, "running")
    assert [site["name"] for site in shown["sites"]] == ["north", "south"] or part == "sites"


def test_a_good_watch_is_taken_up(tmp_path):
    (tmp_path / "watch.json").write_text(json.dumps(GOOD_WATCH))
    assert Watch(tmp_path / "watch.json", ["north"], [1], 10.0, lambda rounds: None).sites[0].asked == 1


@pytest.mark.parametrize("text", [*NOT_A_TABLE, '{"answered": "x", "refusals": []}', '{"answered": 1, "refusals": [3]}'])
def test_a_site_whose_own_count_is_damaged_goes_on_counting(text, tmp_path):
    (tmp_path / "answers.json").write_text(text)
    status.note_answer(tmp_path, 2, None)
    assert json.loads((tmp_path / "answers.json").read_text())["answered"] == 3


# ---------------------------------------------------------------------------------------------------------- status.json

STATUS: dict[str, Any] = {
    "role": "server", "name": "t", "phase": "running", "updated": 1.0, "round": 0, "rounds": 3, "sites": [], "accounts": [],
    "refusals": [], "plan": {}, "versions": {}, "reason": None,
}  # fmt: skip
ACCOUNT = {"account": "a", "unit": "task", "observer": "server", "limit": 2.0, "spent": 1.0, "left": 1.0}
PLAN = {"epsilon": 1.0, "delta": 1e-5, "unit": "task", "neighbours": "replace-one", "observer": "server", "rounds": 3}
WRONG_STATUS = {
    "accounts": [[{}], [{"left": 0}], [3], *([{**ACCOUNT, part: wrong}] for part, wrong in (("limit", "2"), ("spent", "q")))],
    "sites": [[{}], [{"name": 3}], [{"name": "n", "asked": "x"}], *([{"name": "n", "state": x}] for x in (["x"], {"a": 1}, 3))],
    "plan": [{"epsilon": "one"}, {"epsilon": 1.0}, {**PLAN, "delta": "x"}, {**PLAN, "rounds": -1}],
    "round": ["x", [], -1, None],
    "rounds": ["x", 1.5],
    "spent": ["x", []],
    "refusals": [[{"time": "x"}], [{"reason": 3}], [3]],
}  # fmt: skip


@pytest.mark.parametrize(("part", "value"), [(part, value) for part, values in WRONG_STATUS.items() for value in values])
def test_a_damaged_status_is_one_line(part, value, tmp_path):
    (tmp_path / "status.json").write_text(json.dumps({**STATUS, part: value}))
    with pytest.raises(InputError, match=f"{part}|expected a table") as error:
        status.read(tmp_path)
    one_line(str(error.value))


def test_a_whole_status_is_read_and_control_characters_never_reach_a_terminal(tmp_path):
    site = {"name": "n\x1b[31m", "state": "lying", "reason": "\x1b]0;title\x07", "asked": 2, "answered": 1}
    content = {**STATUS, "sites": [site], "accounts": [ACCOUNT], "plan": PLAN, "spent": 0.5}
    (tmp_path / "status.json").write_text(json.dumps(content))
    shown = words(status.read(tmp_path))
    assert "1 of 2 answered" in shown and all(c == "\n" or c.isprintable() for c in shown)


def test_locks_never_shorten_the_file_behind_a_link(tmp_path):
    from taskveil.runtime.federation.processes import only_one
    from taskveil.runtime.federation.site.state import SiteState

    for name in ("lock", "answer.lock"):
        (tmp_path / f"behind-{name}").write_text("kept")
        os.symlink(tmp_path / f"behind-{name}", tmp_path / name)
    with only_one(tmp_path, "a test"), SiteState(tmp_path).lock():
        assert all((tmp_path / f"behind-{name}").read_text() == "kept" for name in ("lock", "answer.lock"))
