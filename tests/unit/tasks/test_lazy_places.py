"""Where lazy tables are: folders, patterns, files that writers leave beside, places that cannot be reached or read."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.partitions import table, written
from tests.support.require import require
from tests.support.wrong import one_line
from tests.unit.tasks.test_lazy import read_here, same

import taskveil as tv
from taskveil.errors import DataError, EnvironmentMissing, OptionError

COLUMNS = {"task": "task", "target": "y"}


@pytest.fixture(autouse=True)
def dask_is_here():
    require("dask")


def lazy(source, **more):
    return tv.load_tasks(source, **COLUMNS, lazy=True, partitions=3, **more)


@pytest.mark.parametrize("name", ["da[1]ta", "da*ta", "a b#c", "a?x=1", "ü%20", "table.parquet"])
def test_a_folder_of_any_name_is_that_folder(name, tmp_path):
    """The twin: a pattern would also match the neighbour."""
    frame = table()
    folder, _ = written(frame, tmp_path / name), written(frame, tmp_path / "daXta")
    same(lazy(folder), tv.load_tasks(frame, **COLUMNS))
    same(lazy(folder / "part-*.parquet") if not set(name) & set("[*?") else lazy(folder), tv.load_tasks(frame, **COLUMNS))


def test_what_writers_leave_beside_a_table_is_not_the_table(tmp_path):
    frame = table()
    folder = written(frame, tmp_path)
    for name in ("_SUCCESS", "_metadata.parquet", ".part-0.parquet.crc", "._part-0.parquet", ".hidden.parquet", "notes.txt"):
        (folder / name).write_bytes(b"PAR1")
    (folder / "_temporary").mkdir()
    shutil.copy(folder / "part-0.parquet", folder / "_temporary")
    for source in (folder, f"{folder}/*.parquet"):
        same(lazy(source), tv.load_tasks(frame, **COLUMNS))


@pytest.mark.parametrize("also_here", [False, True])
def test_tables_further_down_are_not_left_out_in_silence(also_here, tmp_path):
    """Of folders like year=2020 the names are columns; the twin: a pattern says that they are not."""
    frame = table()
    for year in (2020, 2021):
        written(frame[frame.index % 2 == year % 2], tmp_path / f"year={year}")
    if also_here:
        shutil.copy(tmp_path / "year=2020" / "part-0.parquet", tmp_path / "old.parquet")
    with pytest.raises(DataError, match=r"folders of its own \(year=2020\)") as caught:
        lazy(tmp_path)
    one_line(str(caught.value))
    assert lazy(f"{tmp_path}/*/*.parquet").n_rows == len(frame)


def test_a_folder_that_is_called_like_a_file_is_no_damaged_file(tmp_path):
    frame = table()
    (written(frame, tmp_path) / "empty.parquet").mkdir()
    for source in (tmp_path, f"{tmp_path}/*.parquet"):
        same(lazy(source), tv.load_tasks(frame, **COLUMNS))


def test_a_pattern_that_matches_nothing_and_no_place_at_all_are_refused(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="no Parquet file"):
        lazy(f"{tmp_path}/none-*.parquet")
    monkeypatch.chdir(written(table(), tmp_path / "here"))
    with pytest.raises(OptionError, match="give a folder"):
        lazy("")


def test_a_table_in_memory_is_not_taken_for_an_address():
    """Its words would be its rows."""
    with pytest.raises(OptionError, match="a DataFrame is in memory already") as caught:
        lazy(table())
    one_line(str(caught.value))


def test_columns_are_left_out_as_in_memory(tmp_path):
    frame = table()
    folder, more = written(frame, tmp_path), {"leave_out": ["x0", "x3"]}
    same(lazy(folder, **more), tv.load_tasks(frame, **COLUMNS, **more))
    with pytest.raises(DataError, match="no feature columns are left"):
        lazy(folder, leave_out=[f"x{j}" for j in range(5)])


def test_columns_beside_features_are_refused(tmp_path):
    """An event or an exposure would be left out, and the target be another."""
    frame = table().assign(seen=1, hours=2.0)
    for more in ({"event": "seen"}, {"exposure": "hours"}, {"groups": ["seen"]}, {"person": "seen"}):
        with pytest.raises(OptionError, match="lazy=True reads one target"):
            lazy(written(frame, tmp_path / "-".join(more)), **more)


@contextmanager
def without_rights():
    """A folder under /tmp, and an account that may not read what others closed."""
    place = Path(tempfile.mkdtemp(dir="/tmp"))
    place.chmod(0o755)
    root = os.geteuid() == 0
    try:
        yield place, (lambda: os.seteuid(65534)) if root else (lambda: None)
    finally:
        if root:
            os.seteuid(0)
        place.chmod(0o755)
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights are other things there")
@pytest.mark.parametrize("closed", ["part-1.parquet", "."])
def test_what_may_not_be_read_is_not_called_damaged(closed):
    with without_rights() as (place, become_another):
        (written(table(), place / "table") / closed).chmod(0o000)
        become_another()
        with pytest.raises(DataError, match="may not be read|cannot be read: Permission denied") as caught:
            lazy(place / "table")
        one_line(str(caught.value))
        if os.geteuid() == 65534:
            os.seteuid(0)
        (place / "table").chmod(0o755)


def test_a_file_that_a_worker_does_not_find_is_not_called_damaged(tmp_path):
    tasks = lazy(written(table(), tmp_path))
    (tmp_path / "part-1.parquet").unlink()
    with pytest.raises(DataError, match="part-1.parquet is not there"):
        read_here(tasks)


@pytest.mark.parametrize("failure", [OSError(5, "disk on fire"), RuntimeError("https://me:s3cret@host?key=s3cret")])
def test_a_store_that_fails_is_one_line_without_its_words(failure, monkeypatch):
    """They quote addresses, which hold keys."""
    from fsspec.implementations.memory import MemoryFileSystem

    def fail(*_, **__):
        raise failure

    monkeypatch.setattr(MemoryFileSystem, "isdir", fail)
    with pytest.raises(EnvironmentMissing, match="cannot reach 'memory://host/x'") as caught:
        lazy("memory://me:s3cret@host/x?key=s3cret")
    assert "s3cret" not in str(caught.value) and type(failure).__name__ in str(caught.value)
