"""The built wheel, in an environment of its own: small, complete, and enough for `demo`, `fit`, `report` (make wheel)."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
MOST_MEGABYTES = 700


def ran(*command, cwd: Path | None = None) -> str:
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    ran(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(place, with_pip=True)
    wheel = next(built.glob("*.whl"))
    ran(place / "bin" / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", f"{wheel}[report]")
    return place


def test_a_registry_would_take_both_archives(built):
    archives = sorted(built.iterdir())
    assert [a.suffix for a in archives] == [".whl", ".gz"]
    ran(sys.executable, "-m", "twine", "check", "--strict", *archives)


def test_the_archives_hold_templates_and_licences_and_no_tests_or_data(built):
    names = zipfile.ZipFile(next(built.glob("*.whl"))).namelist()
    for needed in ("page.html.j2", "plotly-cartesian.min.js", "LICENSE.plotly", "py.typed"):
        assert any(n.endswith(needed) for n in names), needed
    assert not [n for n in names if n.startswith(("tests/", "experiments/", "benchmarks/")) or n.endswith((".csv", ".npz"))]
    with tarfile.open(next(built.glob("*.tar.gz"))) as source:
        assert any(n.endswith("report/vendor/plotly-cartesian.min.js") for n in source.getnames())


def test_core_and_report_stay_below_700_megabytes(installed):
    kilobytes = int(ran("du", "-sk", installed).split()[0])
    assert kilobytes / 1024 <= MOST_MEGABYTES, f"{kilobytes / 1024:.0f} MB"
    packages = ran(installed / "bin" / "pip", "list", "--format", "freeze").lower()
    assert not any(heavy in packages for heavy in ("opendp=", "pyarrow=", "plotly=", "jax=", "flwr="))


def test_demo_fit_and_report_run_from_the_wheel_alone(installed, tmp_path):
    taskveil = installed / "bin" / "taskveil"
    ran(taskveil, "demo", "--out", "demo", cwd=tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"ward": np.repeat([f"w{i:02d}" for i in range(40)], 15), "age": rng.uniform(20, 90, 600).round(1)})
    table["days"] = (table["age"] / 10 + rng.normal(size=600)).round(3)
    table.to_csv(tmp_path / "visits.csv", index=False)
    ran(taskveil, "fit", "visits.csv", "--task", "ward", "--target", "days", "-o", "model", cwd=tmp_path)
    ran(taskveil, "report", "model", "--for", "owner", "w03", cwd=tmp_path)
    ran(taskveil, "certify", "model", cwd=tmp_path)
    ran(taskveil, "predict", "model", "visits.csv", "-o", "predictions.csv", cwd=tmp_path)
    assert len(pd.read_csv(tmp_path / "predictions.csv")) == len(table)
    assert (tmp_path / "demo" / "report.html").is_file() and list((tmp_path / "model").glob("report*owner*.html"))
