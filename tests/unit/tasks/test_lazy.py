"""Lazy task sets: the same tasks as in memory, partition by partition; bad files are refused by name, in one line."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.partitions import FEATURES, table, written
from tests.support.require import require

import taskveil as tv
from taskveil.errors import DataError, EnvironmentMissing, OptionError
from taskveil.runtime.dask import worker
from taskveil.tasks.task import TaskSet

COLUMNS = {"task": "task", "target": "y"}


@pytest.fixture(autouse=True)
def dask_is_here():
    require("dask")


def read_here(lazy) -> list[TaskSet]:
    """What `read_partitions` does on workers, one by one in this process."""
    tables = [[] for _ in range(lazy.n_partitions)]
    for piece, readers in zip(lazy.pieces, lazy.readers, strict=True):
        names, owners = np.asarray(lazy.task_names)[piece.tasks], np.searchsorted(lazy.cuts, piece.tasks, side="right") - 1
        parts = worker.split(piece.read(lazy.layout), lazy.layout.task, names, owners)
        for k in readers:
            tables[k].append(parts[k])
    return [lazy.reader(k).tasks(tables[k]) for k in range(lazy.n_partitions)]


def same(lazy, whole: TaskSet) -> None:
    parts = read_here(lazy)
    assert [n for part in parts for n in part.task_names] == list(whole.task_names) == list(lazy.task_names)
    np.testing.assert_array_equal(np.concatenate([p.X for p in parts]), whole.X)
    np.testing.assert_array_equal(np.concatenate([p.y for p in parts]), whole.y)
    np.testing.assert_array_equal(np.concatenate([p.sizes for p in parts]), whole.sizes)
    assert lazy.shell.feature_names == whole.feature_names and lazy.kind == whole.kind and lazy.facts == whole.facts
    assert all(part.classes is None or part.classes.tolist() == whole.classes.tolist() for part in parts)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize("partitions", [1, 4, 23])
def test_partitions_hold_the_tasks_that_memory_holds(tmp_path, kind, shuffled, partitions):
    frame = table(kind=kind, shuffled=shuffled)
    lazy = tv.load_tasks(written(frame, tmp_path), **COLUMNS, lazy=True, partitions=partitions)
    assert lazy.n_partitions == partitions
    same(lazy, tv.load_tasks(frame, **COLUMNS))


def test_one_label_can_be_named_though_a_partition_lacks_it(tmp_path):
    frame = table(kind="classification", classes=3)
    options = {**COLUMNS, "positive": "class-2"}
    same(tv.load_tasks(written(frame, tmp_path), **options, lazy=True, partitions=23), tv.load_tasks(frame, **options))


def test_text_and_declared_levels_are_encoded_as_in_memory(tmp_path):
    frame = table().assign(colour=lambda f: np.where(f.x0 > 0, "red", "blue"), note="free text")
    bounds = {"features": {c: [-2, 2] for c in FEATURES}, "levels": {"colour": ["red", "green"]}}
    options = {**COLUMNS, "bounds": bounds}
    same(tv.load_tasks(written(frame, tmp_path), **options, lazy=True, partitions=3), tv.load_tasks(frame, **options))


def test_unsorted_files_are_noted_and_sorted_ones_are_not(tmp_path):
    unsorted = tv.load_tasks(written(table(n_tasks=60, shuffled=True), tmp_path / "a"), **COLUMNS, lazy=True, partitions=20)
    assert any("not sorted by task" in note for note in unsorted.shell.notes)
    assert not tv.load_tasks(written(table(n_tasks=60), tmp_path / "b"), **COLUMNS, lazy=True, partitions=20).shell.notes


def test_a_task_whose_neighbours_are_all_unusable_is_set_aside_too(tmp_path):
    """In memory other tasks are there to be hidden among; a partition of its own must not change that."""
    frame = table()
    frame.loc[frame.task == "site-03", "x1"] = np.inf
    options = {**COLUMNS, "unusable": "set-aside", "missing": "impute-own"}
    lazy = tv.load_tasks(written(frame, tmp_path), **options, lazy=True, partitions=23)
    assert [p.set_aside for p in read_here(lazy) if p.set_aside] == [("site-03",)]
    same(lazy, tv.load_tasks(frame, **options))


def test_nothing_but_the_task_column_is_read_to_plan(tmp_path, monkeypatch):
    from taskveil.tasks.lazy import parquet

    read, columns = parquet._read, []
    monkeypatch.setattr(parquet, "_read", lambda *given: columns.extend(given[-1]) or read(*given))
    tv.load_tasks(written(table(), tmp_path), **COLUMNS, lazy=True)
    assert set(columns) == {"task"}


def damaged(folder):
    path = folder / "part-1.parquet"
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    path.write_bytes(bytes(content))


def changed(how):
    def spoil(folder):
        path = folder / "part-1.parquet"
        how(pd.read_parquet(path)).to_parquet(path)

    return spoil


BAD = {
    "other columns": (changed(lambda f: f.rename(columns={"x1": "z"})), "other columns"),
    "other types": (changed(lambda f: f.astype({"x1": str})), "another type"),
    "no rows": (changed(lambda f: f.iloc[:0]), "holds no rows"),
    "cut off": (lambda f: (f / "part-1.parquet").write_bytes((f / "part-1.parquet").read_bytes()[:100]), "damaged"),
    "damaged pages": (damaged, "damaged"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_file_is_refused_by_name_in_one_line(tmp_path, fault):
    spoil, words = BAD[fault]
    spoil(written(table(), tmp_path))
    with pytest.raises(DataError, match=words) as caught:
        read_here(tv.load_tasks(tmp_path, **COLUMNS, lazy=True, partitions=2))
    assert "part-1.parquet" in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_without_tables_and_an_unknown_address_are_refused(tmp_path):
    with pytest.raises(DataError, match="no Parquet file"):
        tv.load_tasks(tmp_path, **COLUMNS, lazy=True)
    with pytest.raises(EnvironmentMissing, match="cannot reach"):
        tv.load_tasks("nowhere://bucket/x", **COLUMNS, lazy=True)


def test_files_that_differ_in_what_may_be_empty_are_alike(tmp_path):
    """Writers disagree about it; the twin of "other types" above."""
    frame = table()
    path = written(frame, tmp_path) / "part-1.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.cast(pa.schema([f.with_nullable(False) for f in rows.schema])), path)
    same(tv.load_tasks(tmp_path, **COLUMNS, lazy=True, partitions=3), tv.load_tasks(frame, **COLUMNS))


TYPES = {
    "texts of another writer": ("task", lambda c: c.cast(pa.string_view())),
    "bytes": ("task", lambda c: c.cast(pa.binary())),
    "days as tasks": ("task", lambda c: pa.array(pd.to_datetime("2020-02-" + c.to_pandas().str[-2:].replace("00", "29")))),
    "categories, some without rows": ("task", lambda c: pa.array(c.to_pandas().astype("category").cat.add_categories("site-99"))),
    "decimals": ("x1", lambda c: c.cast(pa.decimal128(20, 6), safe=False)),
}  # fmt: skip


@pytest.mark.parametrize("what", TYPES)
def test_columns_of_other_types_are_read_as_in_memory(tmp_path, what):
    column, change = TYPES[what]
    rows = pa.Table.from_pandas(table(shuffled=True), preserve_index=False)
    rows = rows.set_column(rows.column_names.index(column), column, change(rows.column(column)))
    for k in (0, 1):
        pq.write_table(rows[k * 100 : None if k else 100], tmp_path / f"part-{k}.parquet", row_group_size=40)
    same(tv.load_tasks(tmp_path, **COLUMNS, lazy=True, partitions=4), tv.load_tasks(rows.to_pandas(), **COLUMNS))


def test_texts_of_two_writers_are_alike(tmp_path):
    frame = table()
    path = written(frame, tmp_path) / "part-1.parquet"
    rows = pq.read_table(path)
    pq.write_table(rows.set_column(rows.column_names.index("task"), "task", rows.column("task").cast(pa.string())), path)
    same(tv.load_tasks(tmp_path, **COLUMNS, lazy=True, partitions=3), tv.load_tasks(frame, **COLUMNS))


@pytest.mark.parametrize("value", [[1.0], {"a": 1.0}, None, datetime.date(2020, 1, 1)])
def test_a_column_that_cannot_be_learned_from_is_refused_as_in_memory(tmp_path, value):
    rows = pa.Table.from_pandas(table(), preserve_index=False)
    rows = rows.append_column("odd", pa.array([value] * len(rows)))
    pq.write_table(rows, tmp_path / "part-0.parquet")
    with pytest.raises(DataError, match="'odd'") as here:
        tv.load_tasks(rows.to_pandas(), **COLUMNS)
    with pytest.raises(DataError) as there:
        tv.load_tasks(tmp_path, **COLUMNS, lazy=True)
    assert str(here.value) == str(there.value)


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("other", [{"x1": 2.0}, {"task": "site-77"}])
def test_a_file_that_was_replaced_after_loading_is_refused(tmp_path, other, partitions):
    """Whether its tasks are the same or not; the twin: the same file written again is read."""
    path = written(table(), tmp_path) / "part-1.parquet"
    lazy = tv.load_tasks(tmp_path, **COLUMNS, lazy=True, partitions=partitions)
    frame = pd.read_parquet(path)
    frame.to_parquet(path, row_group_size=40, index=False)
    read_here(lazy)
    frame.assign(**other).to_parquet(path, row_group_size=40, index=False)
    with pytest.raises(DataError, match=r"part-1.parquet is not the file it was"):
        read_here(lazy)


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_task_that_came_with_an_equal_footer_is_refused(tmp_path, partitions):
    """Neither sizes nor statistics tell such files apart."""
    frame = table().assign(task=lambda f: f.task.str[-2:].astype(int))
    plain = {"compression": "NONE", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "part-0.parquet", **plain)
    lazy = tv.load_tasks(tmp_path, **COLUMNS, lazy=True, partitions=partitions)
    other = frame.assign(task=frame.task.replace(20, 77))
    pq.write_table(pa.Table.from_pandas(other, preserve_index=False), tmp_path / "part-0.parquet", **plain)
    with pytest.raises(DataError, match="changed while it was read"):
        read_here(lazy)


def test_a_column_that_stands_there_twice_is_refused(tmp_path):
    rows = pa.Table.from_pandas(table(), preserve_index=False)
    pq.write_table(rows.append_column("x1", rows.column("x1")), tmp_path / "part-0.parquet")
    with pytest.raises(DataError, match="x1"):
        read_here(tv.load_tasks(tmp_path, **COLUMNS, lazy=True))


def test_an_address_is_read_with_its_question_mark_and_shown_without(tmp_path):
    """What follows it is often a key, and so is what stands before an @."""
    import fsspec

    frame, address = table(), "memory://tables/rows.parquet?key=s3cret"
    with fsspec.open(address, "wb") as file:
        frame.to_parquet(file, index=False)
    same(tv.load_tasks(address, **COLUMNS, lazy=True, partitions=3), tv.load_tasks(frame, **COLUMNS))
    with fsspec.open(address, "wb") as file:
        file.write(b"PAR1")
    for place in (address, "memory://me:s3cret@host/none.parquet?key=s3cret", "nowhere://me:s3cret@host/x?key=s3cret"):
        with pytest.raises((DataError, EnvironmentMissing)) as caught:
            tv.load_tasks(place, **COLUMNS, lazy=True)
        assert "s3cret" not in str(caught.value)


def test_lazy_tasks_are_refused_where_rows_are_needed(tmp_path):
    lazy = tv.load_tasks(written(table(), tmp_path), **COLUMNS, lazy=True)
    with pytest.raises(OptionError, match="runtime='dask'"):
        tv.TaskRegressor().fit(lazy)
    with pytest.raises(OptionError, match="person"):
        tv.load_tasks(tmp_path, **COLUMNS, person="x0", lazy=True)
