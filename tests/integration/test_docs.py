"""Every Python block and every `taskveil` line of the documentation and the README runs, in order, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from taskveil.cli.main import run

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.S | re.M)
ELSEWHERE = "runbook.md"  # its steps are commands of the shell as well: test_runbook.py runs all of them
BEFORE = {  # what a page that is part of a longer story takes for granted
    "README.md": """
import pandas as pd, taskveil as tv
made_up = tv.get_synthetic("hospitals", seed=1).train
table = pd.DataFrame(made_up.X, columns=made_up.feature_names)
table["hospital"] = [made_up.task_names[i] for i in made_up.task_of_row()]
table["days"] = made_up.y
table.to_csv("visits.csv", index=False)
""",
    "federation.md": """
import taskveil as tv
tasks = tv.get_synthetic("hospitals", n_tasks=3, seed=0).train
bounds = tasks.bounds
""",
}


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(kind, text) for kind, text in BLOCK.findall(page.read_text()) if kind in ("python", "console")]


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != ELSEWHERE], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_block_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "page"}
    exec(compile(BEFORE.get(page.name, ""), "before", "exec"), names)  # noqa: S102  our own documentation
    for kind, text in blocks(page):
        if text.startswith("--8<--"):
            assert (ROOT / text.split('"')[1]).is_file()
        elif kind == "python":
            exec(compile(text, f"{page.name}", "exec"), names)  # noqa: S102  our own documentation
        else:
            for line in re.findall(r"^\$ taskveil (.*)$", text, re.M):
                with pytest.raises(SystemExit) as stopped:
                    run(line.split("#")[0].split())
                expected = (1,) if "# exit code 1" in line else (0, None)
                assert stopped.value.code in expected, f"{line}\n{capsys.readouterr().err}"


def test_the_pages_build_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, check=False, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    assert (tmp_path / "index.html").is_file()


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_nothing_is_loaded_from_elsewhere():
    """The documentation's pages and styles come from the package; no font or script from a network."""
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings and "extra_javascript" not in settings and "extra_css" not in settings
