"""What a command imports before it says anything: listing and planning need neither scikit-learn nor tables nor a compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"sklearn", "pandas", "pyarrow", "numba", "matplotlib", "plotly", "jax", "flwr", "sqlalchemy", "dp_accounting"}
PLAN = ["plan", "--tasks", "100", "--features", "12", "--epsilon", "1"]


def imported(*arguments: str) -> set[str]:
    """Names of all packages a fresh interpreter imports for these arguments, by its own trace."""
    done = subprocess.run([sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True)
    traced = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {name.partition(".")[0] for name in traced} | set(traced)


@pytest.mark.parametrize("arguments", [["--help"], PLAN, [*PLAN, "--method", "subspace", "--json"]], ids=["help", "plan", "json"])
def test_help_and_plan_import_nothing_heavy(arguments):
    found = imported("-m", "taskveil.cli", *arguments)
    assert "taskveil.cli.main" in found and not found & HEAVY
    assert not found & {"scipy.optimize", "scipy.linalg"}


def test_drawing_exact_noise_imports_no_library_for_tables_or_models():
    """OpenDP's prelude imports polars and scikit-learn, a second and a half for every first fit."""
    draw = "from taskveil.privacy.randomness import exact_measurement as m; m('gaussian', 1.0, 3)([0.0, 0.0, 0.0])"
    found = imported("-c", draw)
    assert "opendp" in found and not found & (HEAVY | {"polars"})


def test_the_trace_sees_what_is_imported():
    """The twin: an import planted in front of the command is found."""
    planted = f"import sqlalchemy, sys; sys.argv[1:] = {PLAN!r}; from taskveil.cli.main import run; run()"
    assert imported("-c", planted) & HEAVY == {"sqlalchemy"}
