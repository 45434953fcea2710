"""Bad tables for the engine, on the command line: one line, exit 2 or 4, no traceback, and not a thousandth of the budget."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.partitions import cluster, table, written
from tests.support.require import require
from tests.support.wrong import one_line

from taskveil.cli.main import run
from taskveil.privacy.ledger import Book, Key


@pytest.fixture(scope="module")
def scheduler():
    """The address of a scheduler and two workers, all threads of this process."""
    require("dask")
    with cluster(processes=False, protocol="tcp://") as client:
        yield client.scheduler.address


@pytest.fixture
def book(tmp_path):
    made = Book(f"sqlite:///{tmp_path / 'budget.db'}")
    made.set_limit(Key("wards"), 1.0, 1e-5)
    yield made
    made.close()


def fit(folder, engine, tmp_path, capfd, *more) -> tuple[int, str]:
    """Exit code and words of `taskveil fit`."""
    words = ["fit", str(folder), "--task", "task", "--target", "y", "--method", "mean", "--engine", f"dask:{engine}", *more]
    with pytest.raises(SystemExit) as ended:
        run([*words, "--ledger", f"sqlite:///{tmp_path / 'budget.db'}", "--account", "wards"])
    return int(ended.value.code or 0), capfd.readouterr().err


def nothing_charged(book: Book) -> bool:
    return not [e for row in book.accounts() for e in book.rows(row.id) if e.kind in ("reserve", "commit")]


def rewritten(change):
    def spoil(folder):
        path = folder / "part-1.parquet"
        change(pd.read_parquet(path)).to_parquet(path, index=False)

    return spoil


def corrupt_row_group(folder):
    """Pages of one feature are overwritten: the column of tasks is whole, so only the workers can notice."""
    path = folder / "part-1.parquet"
    group = pq.ParquetFile(path).metadata.row_group(0)
    (column,) = [c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "x1"]
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(bytes(content))


def _with_dates(path):
    pd.read_parquet(path).assign(when=pd.Timestamp("2020-01-01")).to_parquet(path, index=False)


def _made(folder):
    folder.mkdir()
    return folder


BAD = {
    "other columns": (rewritten(lambda f: f.rename(columns={"x1": "z"})), "other columns"),
    "other types": (rewritten(lambda f: f.astype({"x1": str})), "another type"),
    "words in one file": (rewritten(lambda f: f.assign(x1="many")), "another type"),
    "dates": (lambda f: [_with_dates(p) for p in f.glob("*.parquet")], "dates or times"),
    "a file of zero bytes": (lambda f: (f / "part-1.parquet").write_bytes(b""), "is damaged"),
    "tables further down": (lambda f: (f / "part-1.parquet").rename(_made(f / "year=2020") / "part-1.parquet"), "year=2020"),
    "no files": (lambda f: [p.unlink() for p in f.glob("*.parquet")], "no Parquet file"),
    "an empty file": (rewritten(lambda f: f.iloc[:0]), "holds no rows"),
    "a corrupt row group": (corrupt_row_group, "is damaged"),
    "a truncated file": (lambda f: (f / "part-1.parquet").write_bytes(b"PAR1" + bytes(50)), "is damaged"),
    "a missing task": (rewritten(lambda f: f.assign(task=f.task.where(f.index > 0))), "missing values"),
    "a missing value": (rewritten(lambda f: f.assign(x1=f.x1.where(f.index > 0))), "x1"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_table_is_one_line_and_costs_nothing(fault, scheduler, book, tmp_path, capfd):
    spoil, said = BAD[fault]
    spoil(written(table(), tmp_path / "table"))
    code, words = fit(tmp_path / "table", scheduler, tmp_path, capfd)
    last = words.strip().splitlines()[-1]
    assert code == 2 and said in last, words
    one_line(last)
    assert "Traceback" not in words and nothing_charged(book)


@pytest.mark.parametrize("place", ["http://127.0.0.1:1/visits", "s3://me:s3cret@bucket/visits?key=s3cret"])
def test_a_store_that_is_not_there_is_one_line_and_costs_nothing(place, scheduler, book, tmp_path, capfd):
    code, words = fit(place, scheduler, tmp_path, capfd)
    assert code == 4 and "cannot reach" in words and "s3cret" not in words and "Traceback" not in words
    one_line(words.strip().splitlines()[-1])
    assert nothing_charged(book)


def test_a_scheduler_that_is_not_there_is_one_line_and_costs_nothing(book, tmp_path, capfd, monkeypatch):
    require("dask")
    monkeypatch.setattr("taskveil.runtime.dask.cluster.PATIENCE", "1s")
    code, words = fit(written(table(), tmp_path / "table"), "tcp://127.0.0.1:1", tmp_path, capfd)
    assert code == 4 and "no Dask scheduler answers" in words and "Traceback" not in words
    assert nothing_charged(book)


def test_a_task_in_two_unsorted_files_is_brought_together_with_a_note(scheduler, book, tmp_path, capfd):
    """No fault: it costs what the same rows cost sorted, once."""
    folder = written(table(n_tasks=60, shuffled=True), tmp_path / "table", files=4)
    code, words = fit(folder, scheduler, tmp_path, capfd, "--json")
    assert code == 0 and not nothing_charged(book)


def test_an_empty_row_group_is_read_over(scheduler, tmp_path, capfd):
    frame = table()
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    (tmp_path / "table").mkdir()
    with pq.ParquetWriter(tmp_path / "table" / "part-0.parquet", rows.schema) as writer:
        for part in (rows[:100], rows[:0], rows[100:]):
            writer.write_table(part)
    metadata = pq.ParquetFile(tmp_path / "table" / "part-0.parquet").metadata
    assert 0 in [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
    import taskveil as tv

    tasks = tv.load_tasks(tmp_path / "table", task="task", target="y", lazy=True, partitions=3)
    assert tasks.n_rows == len(frame) and all(len(piece.tasks) for piece in tasks.pieces)
    assert np.array_equal(np.sort(tasks.task_names), np.sort(np.unique(frame.task)))
