"""Every step of docs/runbook.md runs: shell, taskveil, Python, and (with the network) what is started."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from tests.support.federation import SITES, Trial

from taskveil.cli.main import run
from taskveil.privacy.ledger import Book
from taskveil.runtime.federation.config import load_site

PAGE = Path(__file__).parents[2] / "docs" / "runbook.md"
BLOCKS = re.findall(r"^```(python|console|bash)\n(.*?)^```", PAGE.read_text(), re.S | re.M)


def step(line: str) -> None:
    if line.startswith("taskveil "):
        with pytest.raises(SystemExit) as ended:
            run(shlex.split(line)[1:])
        assert not ended.value.code, line
    else:
        subprocess.run(line, shell=True, check=True, capture_output=True)


def test_every_step_that_needs_no_network_runs_and_does_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    seen = {}
    for kind, text in BLOCKS:
        if kind == "python":
            exec(compile(text, PAGE.name, "exec"), names)  # noqa: S102  our own documentation
        elif kind == "console":
            for line in re.findall(r"^\$ (.*)$", text, re.M):
                step(line)
                if line.startswith("taskveil serve --init trial --site"):
                    seen = {p: (tmp_path / p).read_bytes() for p in ("trial/keys/north.pub", "trial/certificates/server.crt")}
    for path, before in seen.items():
        assert (tmp_path / path).read_bytes() != before, f"{path} was to be rotated"
    for key in ("trial/certificates/server.key", "trial/sites/north/north.key", "drawer/ca.key"):
        assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    assert not Path("trial/certificates/ca.key").exists()
    (account,) = Book(f"sqlite:///{tmp_path}/trial/sites/north/ledger.db").accounts()
    assert account.epsilon == 1.1
    assert load_site("trial/sites/north/site.toml").limit["epsilon"] == 1.5
    assert Path("drawer/ledger-backup.json").exists() and Path("trial/results-1").is_dir()


def test_only_what_must_be_started_is_left_to_the_network_test():
    lines = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]
    assert len(lines) == 6 and all(re.match(r"taskveil (serve --config|join --config|status) ", line) for line in lines)


@pytest.mark.network
@pytest.mark.timeout(900)
def test_what_the_runbook_starts_runs_to_the_end(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    start, look = (text.splitlines() for kind, text in BLOCKS if kind == "bash")
    with Trial(tmp_path, 'method = "mean"\nepsilon = 1.0\naggregation = "local"') as trial:
        for site in SITES:
            shutil.copy(trial.folder / f"{site}.csv", tmp_path / f"{site}.csv")
        for i, line in enumerate(start):
            trial.start(f"terminal-{i}", shlex.split(line)[1:])
        trial.finish(420)
        for line in look:
            step(line)
        assert not trial.left_running()
