"""Every Python block and every `taskveil` line of the documentation and the README runs, in order, in an empty folder.

What a console block shows below a command is what the command prints: `...` stands for anything (noise, times), runs of white
space count as one, and what comes before and after the lines shown may be missing.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from taskveil.cli.main import run

pytestmark = pytest.mark.docs
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.S | re.M)
ELSEWHERE = "runbook.md"  # its steps are commands of the shell as well: test_runbook.py runs all of them
TABLES = {"tutorial.md": ("star/star.csv",), "real-tables.md": ("chem97/chem97.csv", "heart/heart.npz")}  # in $TASKVEIL_DATA
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
def test_every_block_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for table in TABLES.get(page.name, ()):
        place = Path(os.environ.get("TASKVEIL_DATA", "")) / table
        if not place.is_file():
            pytest.skip(f"{table} is not in $TASKVEIL_DATA")
        shutil.copy(place, tmp_path)
    names: dict = {"__name__": "page"}
    exec(compile(BEFORE.get(page.name, ""), "before", "exec"), names)  # noqa: S102  our own documentation
    for kind, text in blocks(page):
        if text.startswith("--8<--"):
            assert (ROOT / text.split('"')[1]).is_file()
        elif kind == "python":
            exec(compile(text, f"{page.name}", "exec"), names)  # noqa: S102  our own documentation
        else:
            for line, shown in commands(text):
                screen = io.StringIO()  # as on a terminal: results and words in the order they come
                with pytest.raises(SystemExit) as stopped, redirect_stdout(screen), redirect_stderr(screen):
                    run(line.split("#")[0].split())
                printed = screen.getvalue()
                expected = re.search(r"# exit code (\d)", line)
                assert (stopped.value.code or 0) == (int(expected[1]) if expected else 0), f"{line}\n{printed}"
                assert is_shown(shown, printed), f"{line}\nshown: {shown}\nprinted: {printed}"


def commands(block: str) -> list[tuple[str, str]]:
    """Each `taskveil` line of a console block, and what is shown below it."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.M)
    return [(line[len("taskveil ") :], shown) for line, shown in zip(parts[1::2], parts[2::2]) if line.startswith("taskveil ")]


def is_shown(shown: str, printed: str) -> bool:
    """Whether the words of `shown` stand in `printed`; `...` is a gap."""
    gaps = [r"\s+".join(map(re.escape, piece.split())) for piece in shown.split("...")]
    return re.search(r".*?".join(gaps), printed, re.S) is not None


def test_what_a_page_shows_is_compared_with_what_is_printed():
    block = "$ taskveil plan --tasks 80\nworth it: ...\n  noise 0.233\n$ ls\n$ taskveil demo\n"
    assert commands(block) == [("plan --tasks 80", "worth it: ...\n  noise 0.233\n"), ("demo", "")]
    assert is_shown("worth it: ...\n  noise 0.233\n", "so: worth it: yes (1 s)\nnoise   0.233\nmore") and is_shown("", "x")
    assert not is_shown("noise 0.233", "noise 0.234") and not is_shown("b ... a", "a b")  # twins: a wrong figure, a wrong order


def test_the_pages_build_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, check=False, cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert done.returncode == 0 and "WARNING" not in done.stderr, done.stderr
    assert (tmp_path / "index.html").is_file()


def test_pages_are_grouped_by_what_a_reader_wants_and_none_is_left_out():
    """Fifteen pages stood in one flat list."""
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:")[1]
    assert re.findall(r"^  - ([\w-]+):$", nav, re.M) == ["Tutorial", "How-to", "Reference", "Explanation"]
    listed = set(re.findall(r": ([\w/-]+\.md)$", nav, re.M))
    assert listed == {str(p.relative_to(ROOT / "docs")) for p in (ROOT / "docs").rglob("*.md")}


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_nothing_is_loaded_from_elsewhere():
    """The documentation's pages and styles come from the package; no font or script from a network."""
    settings = (ROOT / "mkdocs.yml").read_text()
    assert "font: false" in settings and "extra_javascript" not in settings
    styles = re.findall(r"extra_css: \[(.*)\]", settings)
    assert settings.count("extra_css") == len(styles)
    for style in ", ".join(styles).split(", "):
        text = (ROOT / "docs" / style).read_text()
        assert "url(" not in text and "@import" not in text
