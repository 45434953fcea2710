"""The list of planted faults fits the source, and the runner tells caught from survived."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from tools.mutants.generate import edits
from tools.mutants.table import ROOT, OutOfDate, all_mutants

FAST = "tests/unit/privacy/test_contributions.py"


def table(tmp_path, text):
    (tmp_path / "one.toml").write_text(text)
    return tmp_path


def test_the_tables_fit_the_source_and_hold_enough_faults():
    mutants = all_mutants()
    assert len(mutants) >= 150
    assert all((ROOT / test.partition("::")[0]).exists() for mutant in mutants for test in mutant.tests)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("no such text", "x", "occurs 0 times"),
        ("import math", "import math  # changed", "changes nothing"),
        ("import math", "import", "no longer compiles"),
        ("self", "me", "occurs"),
    ],
)
def test_a_fault_that_does_not_fit_the_source_any_more_is_an_error(tmp_path, old, new, words):
    fault = f"[[mutant]]\nfile = 'privacy/bounds.py'\nold = '{old}'\nnew = '{new}'\nwhy = 'w'\n"
    text = f"[tests]\n'privacy/bounds.py' = ['{FAST}']\n{fault}"
    with pytest.raises(OutOfDate, match=words):
        all_mutants(table(tmp_path, text))


def test_an_equivalent_fault_that_is_no_longer_generated_is_an_error(tmp_path):
    text = (
        f"[tests]\n'privacy/release.py' = ['{FAST}']\n[generate]\n'privacy/release.py' = ['guard']\n"
        "[[equivalent]]\nfile = 'privacy/release.py'\nwhat = 'x'\nline = 'y'\nwhy = 'z'\n"
    )
    with pytest.raises(OutOfDate, match="no generated change"):
        all_mutants(table(tmp_path, text))


def test_generated_faults_change_what_they_say():
    source = "def f(a, b):\n    if a < b:\n        raise ValueError\n    return math.sqrt(a + 2 * b)\n"
    found = [edit for kind in ("guard", "order", "formula") for edit in edits(source, kind)]
    made = {edit.what: source[: edit.start] + edit.new + source[edit.end :] for edit in found}
    assert "if False:" in made["the check `a < b` is dropped"]
    assert "a <= b" in made["< becomes <="]
    assert "a - 2 * b" in made["+ becomes -"] and "2 / b" in made["* becomes /"]
    assert "return (a + 2 * b)" in made["sqrt is forgotten"]


def test_the_runner_tells_caught_from_survived(tmp_path):
    """One fault that the named tests see, one they cannot see; run as `make mutants` runs them."""
    program = (
        "import sys\nfrom tools.mutants import run, table\n"
        f"mutants = table.all_mutants(table.Path({str(tmp_path)!r}))\n"
        "run.preload()\n"
        "print(sorted((o.mutant.why, o.caught) for o in run.run_all(mutants, 2)))\n"
    )
    table(
        tmp_path,
        f"[tests]\n'privacy/contributions.py' = ['{FAST}']\n'privacy/calibrate.py' = ['{FAST}']\n"
        "[[mutant]]\nfile = 'privacy/contributions.py'\nwhy = 'seen'\nold = 'math.sqrt(2 * m - 1)'\nnew = 'math.sqrt(2 * m)'\n"
        "[[mutant]]\nfile = 'privacy/calibrate.py'\nwhy = 'unseen'\nold = 'PLD_TOLERANCE = 5e-4'\nnew = 'PLD_TOLERANCE = 6e-4'\n",
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert "[('seen', True), ('unseen', False)]" in done.stdout, done.stdout + done.stderr
