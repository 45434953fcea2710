"""Files as programs save them: blanks in the header, a delimiter too many, an index, a folder of parts; all faults at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import DataError
from taskveil.tasks import files

TABLE = pd.DataFrame({"site": list("ab") * 10, "age": np.arange(20) / 4, "days": np.arange(20) * 0.5 + 0.25})
COLUMNS = {"task": "site", "target": "days"}


def same(source) -> tv.tasks.task.TaskSet:
    """The tasks of this file, which are those of TABLE."""
    tasks, plain = tv.load_tasks(source, **COLUMNS), tv.load_tasks(TABLE, **COLUMNS)
    assert tasks.feature_names == plain.feature_names and tasks.task_names == plain.task_names
    assert np.array_equal(tasks.X, plain.X) and np.array_equal(tasks.y, plain.y)
    return tasks


def written(path, *, first="", parting=",", end=""):
    """TABLE as csv, every line with these ends."""
    lines = TABLE.to_csv(index=False).splitlines()
    path.write_text("".join(f"{first}{line.replace(',', parting)}{end}\n" for line in lines))
    return path


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize("ends", [{"parting": ", "}, {"end": ","}, {"first": ",", "end": ","}, {"end": " "}])
def test_blanks_in_the_header_and_a_delimiter_too_many_change_nothing(ends, arrow, tmp_path, monkeypatch):
    """`, ` hid the columns behind names with a blank, a delimiter at the end of every line was refused."""
    monkeypatch.setattr(files, "arrow_is_installed", lambda: arrow)
    tasks = same(written(tmp_path / "table.csv", **ends))
    assert sum("has no name and was left out" in note for note in tasks.notes) == sum("," == v for v in ends.values())


def test_names_that_differ_in_blanks_alone_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("site,days, days\na,1,2\n")
    with pytest.raises(DataError, match="two columns called 'days'"):
        tv.load_tasks(tmp_path / "t.csv", **COLUMNS)


def test_what_pandas_saved_as_the_index_is_a_column_of_a_parquet_file(tmp_path):
    TABLE.set_index("site").to_parquet(tmp_path / "t.parquet")
    same(tmp_path / "t.parquet")
    TABLE.set_index(np.arange(20) * 3).to_parquet(tmp_path / "numbered.parquet")
    same(tmp_path / "numbered.parquet")


@pytest.mark.parametrize("name", ["visits", "visits.parquet"])
def test_a_folder_of_parquet_files_is_one_table(name, tmp_path):
    TABLE.to_parquet(tmp_path / name, partition_cols=["site"])
    same(tmp_path / name)
    assert files.column_names(tmp_path / name) == ["age", "days", "site"]


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(DataError, match="folder without parquet files"):
        tv.load_tasks(tmp_path, **COLUMNS)


def test_a_spreadsheet_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match="save it as 'CSV UTF-8'"):
        tv.load_tasks(tmp_path / "t.xlsx", **COLUMNS)


def test_every_kind_of_bad_line_is_told_however_many_there_are_of_one(tmp_path):
    """Five lines without a target hid a text among numbers and a line that is too long."""
    good = "".join(f"a,{i}.5,{i}.25\n" for i in range(60))
    (tmp_path / "t.csv").write_text("site,age,days\n" + good + "b,1,\n" * 6 + "b,old,2.5\nb,1,2,3\n")
    with pytest.raises(DataError) as refused:
        tv.load_tasks(tmp_path / "t.csv", **COLUMNS)
    assert "lines 62, 63, 64 and more have nothing in the column 'days'; " in str(refused.value)
    assert "line 68 has text in the numeric column 'age'; line 69 has 4 fields instead of 3." in str(refused.value)


def test_what_is_wrong_with_several_columns_is_told_at_once():
    table = TABLE.assign(when=pd.date_range("2020", periods=20), cost="$ 5", seen=[np.nan, *range(19)])
    with pytest.raises(DataError, match="'when' holds dates.*'cost' holds numbers with a currency.*missing.*'seen'"):
        tv.load_tasks(table, **COLUMNS)


NUMBERS = {
    "thousands": ([f"{i},250" for i in range(1, 21)], "separators of thousands"),
    "a printer's minus": ([f"\u2212{i}" for i in range(20)], "other signs"),
    "brackets": ([f"({i})" if i % 2 else f"{i}" for i in range(20)], "other signs"),
}


@pytest.mark.parametrize(("cells", "words"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_as_text_are_asked_about(cells, words):
    with pytest.raises(DataError, match=f"'cost' holds .*{words}"):
        tv.load_tasks(TABLE.assign(cost=cells), **COLUMNS)


@pytest.mark.parametrize("cells", [[f"{i:03d}" for i in range(20)], ["<5", ">=5"] * 10], ids=["codes", "groups"])
def test_codes_and_groups_of_numbers_are_words(cells):
    assert tv.load_tasks(TABLE.assign(group=cells), **COLUMNS).n_features == 17
