"""A csv file gives the same table and the same errors with Arrow and without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import DataError
from taskveil.tasks import files

TABLES = {
    "numbers": "task,x,n\na,1.5,3\nb,-2e-3,4\na,.1,5\n",
    "gaps": "task,x,n,t\na,,3,yes\nb,NA,?,\na,2,5,no\n",
    "rounding": "task,x\na,0.1234567890123456789\nb,1e308\na,5e-324\nb,2.2250738585072011e-308\n",
    "types": "task,flag,mixed,day,at,when\na,true,1,2001-02-03,12:30,2001-02-03 12:30:15\n"
    "b,False,true,2001-02-04,08:00,2001-02-03T12:30\n",
    "no dates": "task,day\na,2001-02-30\nb,2001-02-03\n",
    "beyond 64 bits": "task,x\na,123456789012345678901234\nb,1\n",
    "quotes": 'task;x;words\n"a";1;"two; ""words"""\nb;2;"two\nlines"\n',
    "empty column": "task,x,nothing\na,1,\nb,2,NA\n",
    "tabs and marks": "\ufefftask\tx\na\t1\n\nb\t 2 \n",
    "crlf": "task,x\r\na,1\r\nb,2.5\r\n",
    "leading zeros": "task,x\n007,1\n7,2\n",
    "mostly numbers": "task,x\n" + "a,1\n" * 50 + "b,abc\n",
    "ragged": "task,x\na,1\nb\na,2,3\nb,4\n",
    "all ragged": "task,x\na\nb\n",
    "header only": "task,x\n",
    "infinite": "task,x\na,inf\nb,-1\n",
    "decimal commas": "task;x;n;dose;note\na;1,5;3;1,250;x\nb;-2,25;4;2,500;y\nb;3;5;7,125;1,5\n",
    "decimal commas and a word": "task\tx\n" + "a\t1,5\n" * 50 + "b\tabc\n",
    "row numbers": ",task,x\n0,a,1\n1,b,2\n",
    "underscores": "task,x\na,1_000\nb,2\nb,3\nb,4\nb,5\nb,6\nb,7\n",
}


def read(path, monkeypatch, installed: bool, **options):
    monkeypatch.setattr(files, "arrow_is_installed", lambda: installed)
    try:
        return files.read_table(path, id_columns=["task"], filled_columns=["task"], **options)
    except DataError as problem:
        return str(problem)


@pytest.mark.parametrize("bad_rows", ("error", "skip"))
@pytest.mark.parametrize("name", TABLES)
def test_both_readers_give_the_same_table_or_the_same_error(name, bad_rows, tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text(TABLES[name], encoding="utf-8", newline="")
    fast, plain = (read(path, monkeypatch, installed, bad_rows=bad_rows) for installed in (True, False))
    assert_same(fast, plain)


def assert_same(fast, plain):
    if isinstance(fast, str):
        assert plain == fast
        return
    assert plain.notes == fast.notes and np.array_equal(plain.rows, fast.rows)
    kinds = lambda frame: [pd.api.types.infer_dtype(frame[c]) for c in frame]  # noqa: E731
    assert list(plain.frame) == list(fast.frame) and kinds(plain.frame) == kinds(fast.frame)
    pd.testing.assert_frame_equal(plain.frame, fast.frame, check_exact=True, check_dtype="when" not in plain.frame)


def test_the_comparison_tells_a_reader_that_rounds(tmp_path, monkeypatch):
    """Twin: the last digit of one number is lost."""
    path = tmp_path / "table.csv"
    path.write_text(TABLES["rounding"])
    fast, plain = (read(path, monkeypatch, installed) for installed in (True, False))
    plain.frame["x"] = np.nextafter(plain.frame["x"], np.inf)
    with pytest.raises(AssertionError):
        assert_same(fast, plain)


@pytest.mark.parametrize("name", ["star", "chem97", "tcga_brca"])
def test_real_tables_are_read_alike(name, monkeypatch):
    found = sorted((Path(os.environ.get("TASKVEIL_DATA", "")) / name).glob("*.csv"))
    if not found:
        pytest.skip(f"{name} is not in $TASKVEIL_DATA")
    for file in found:
        tables = []
        for installed in (True, False):
            monkeypatch.setattr(files, "arrow_is_installed", lambda installed=installed: installed)
            tables.append(files.read_table(file, bad_rows="skip"))
        assert_same(*tables)


@pytest.mark.parametrize("installed", [True, False])
def test_text_in_another_encoding_is_an_error_with_both(tmp_path, monkeypatch, installed):
    path = tmp_path / "table.csv"
    path.write_bytes("task,x\nM\u00fcnchen,1\n".encode("latin-1"))
    assert "UTF-8" in read(path, monkeypatch, installed)


@pytest.mark.parametrize("installed", [True, False])
def test_utf_16_with_its_mark_is_read_with_both(tmp_path, monkeypatch, installed):
    """What Excel writes as Unicode text."""
    path, cut = tmp_path / "table.txt", tmp_path / "cut.txt"
    path.write_bytes("task\tx\nM\u00fcnchen\t1,5\nK\u00f6ln\t2\n".encode("utf-16"))
    cut.write_bytes(path.read_bytes()[:-1])
    table = read(path, monkeypatch, installed)
    assert table.frame.to_dict("list") == {"task": ["M\u00fcnchen", "K\u00f6ln"], "x": [1.5, 2.0]}
    assert table.notes == ("table.txt: decimal commas were read in 'x'",)
    assert "save it as UTF-8" in read(cut, monkeypatch, installed)


def test_row_numbers_that_pandas_and_r_write_are_no_feature(tmp_path):
    frame = pd.DataFrame({"task": ["a", "b", "b"], "x": [1.5, 2.0, 3.0], "y": [0.5, 1.0, 2.0]})
    frame.to_csv(tmp_path / "t.csv")
    tasks = tv.load_tasks(tmp_path / "t.csv")
    assert tasks.feature_names == ("x",) and "the first column has no name and was left out" in tasks.notes[0]
    assert files.column_names(tmp_path / "t.csv") == ["task", "x", "y"]


def test_a_column_of_thousands_or_of_both_marks_is_not_taken_for_decimals(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text("task;people;price;share\na;1,250;1.250,5;1,5\nb;12,500;3,75;1,25\n")
    frame = read(path, monkeypatch, True).frame
    assert frame["share"].tolist() == [1.5, 1.25]
    assert frame["people"].tolist() == ["1,250", "12,500"] and frame["price"].tolist() == ["1.250,5", "3,75"]


WITHOUT = """
import sys
for name in ("pyarrow", "opendp", "plotly", "polars", "dask"):
    sys.modules[name] = None  # as if it were not installed
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if sys.modules.get(name, 0) is None else found(name, *more)
from taskveil.cli.main import run
run(sys.argv[1:])
"""


def without_extras(*words, folder):
    command = [sys.executable, "-c", WITHOUT, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_core_fits_from_csv_and_writes_pages_without_arrow_opendp_and_plotly(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"ward": np.repeat([f"w{i}" for i in range(40)], 12), "age": rng.uniform(20, 90, 480).round(1)})
    table["sex"] = rng.choice(["f", "m"], 480)
    table["days"] = (table["age"] / 10 + rng.normal(size=480)).round(3)
    table.to_csv(tmp_path / "visits.csv", index=False)
    done = without_extras("fit", "visits.csv", "--task", "ward", "--target", "days", "-o", "model", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Plotly" in (tmp_path / "model" / "report.html").read_text()
    certificate = (tmp_path / "model" / "certificate.json").read_text()
    assert "ours over ChaCha20" in certificate and "OpenDP" not in certificate
    table.to_parquet(tmp_path / "visits.parquet")
    refused = without_extras("fit", "visits.parquet", "--task", "ward", "--target", "days", folder=tmp_path)
    assert refused.returncode == 4 and "taskveil[parquet]" in refused.stderr
