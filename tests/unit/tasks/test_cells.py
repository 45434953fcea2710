"""Cells: a text, a level, a label or a truth value is read by itself, whatever the cells of other rows look like."""

import numpy as np
import pandas as pd
import pytest

from taskveil.errors import DataError
from taskveil.tasks import files, load, load_rows, load_tasks
from taskveil.tasks.prepare.encode import bucket, encoded_names
from taskveil.tasks.prepare.facts import Fact


def test_undeclared_text_is_hashed_into_sixteen_buckets_and_the_facts_say_so(table):
    table["ward"] = ["icu", "ward", None] * 20
    tasks = load_tasks(table, task="site", target="days")
    assert tasks.feature_names[2:] == tuple(f"ward#{k}/16" for k in range(16))
    np.testing.assert_array_equal(tasks.X[:, 2:].sum(axis=1), tasks.row_index % 3 != 2)
    assert Fact("hashed", "ward") in tasks.facts


def test_the_bucket_of_a_text_is_the_same_everywhere_and_for_ever():
    """Saved models rely on it. The last hexadecimal digit of coreutils' `printf 'ward\\0icu' | b2sum -l 64` is b."""
    assert [bucket("ward", "icu"), bucket("ward", "er"), bucket("floor", "icu")] == [0xB, 0x4, 0x8]


def test_declared_levels_fix_the_columns_whatever_the_data_hold(table):
    table["ward"] = ["icu", None] * 30
    bounds = {"levels": {"ward": ["er", "icu"]}}
    tasks = load_tasks(table, task="site", target="days", bounds=bounds)
    assert tasks.feature_names[2:] == ("ward=er", "ward=icu")
    np.testing.assert_array_equal(tasks.X[:, 2], 0)
    assert not any(f.what == "hashed" for f in tasks.facts)


def test_a_value_outside_the_declared_levels_is_other_or_nothing(table):
    table["ward"] = ["icu", "HIV"] * 30
    for levels, column in ((["icu"], None), (["icu", "(other)"], 3)):
        tasks = load_tasks(table, task="site", target="days", bounds={"levels": {"ward": levels}})
        strange = tasks.X[tasks.row_index % 2 == 1]
        assert not any("HIV" in name for name in tasks.feature_names)
        np.testing.assert_array_equal(strange[:, 2:].sum(axis=1), 0 if column is None else 1)
        assert column is None or (strange[:, column] == 1).all()


def with_cell(folder, cell, name="t.csv"):
    """Levels that look like numbers, two tasks; the first row's is `cell`."""
    rows = [
        f"{'north' if k < 6 else 'south'},{k},{code},{k / 7}" for k, code in enumerate(["02", "1.0", "3", "01", "5", "2"] * 2)
    ]
    path = folder / name
    path.write_text("\n".join(["site,age,code,days", rows[0].replace("02", cell), *rows[1:]]) + "\n")
    return path


def rows_changed_by_a_cell(folder, levels=("01", "2", "3", "True")):
    """Encoded rows that differ where one row has another level, a word, or nothing."""
    read = {"task": "site", "target": "days", "bounds": {"levels": {"code": levels}}}
    plain, *others = (load_tasks(with_cell(folder, cell), **read).X for cell in ("02", "3", "x", "", "true"))
    return [int((plain != other).any(axis=1).sum()) for other in others]


@pytest.mark.parametrize("reader", ["arrow", "python"])
def test_a_declared_level_is_read_as_it_is_written_whatever_other_rows_hold(tmp_path, monkeypatch, reader):
    monkeypatch.setattr(files, "arrow_is_installed", lambda: reader == "arrow")
    assert max(rows_changed_by_a_cell(tmp_path)) == 1
    tasks = load_tasks(with_cell(tmp_path, "02"), task="site", target="days", bounds={"levels": {"code": ["01", "1", "2", "3"]}})
    found = [np.flatnonzero(row).tolist() for row in tasks.X[:6, 1:]]
    assert found == [[2], [1], [3], [0], [], [2]]  # 02, 1.0, 3, 01, 5, 2


def test_levels_read_as_numbers_are_noticed(tmp_path, monkeypatch):
    real, guessed = load.read_table, {"id_columns": ["site"], "text_columns": ["code"]}
    monkeypatch.setattr(load, "read_table", lambda path, **read: real(path, **{**read, **guessed}))
    assert max(rows_changed_by_a_cell(tmp_path)) > 1


def test_a_model_of_hashed_text_reads_text_that_looks_like_numbers_as_it_is_written(tmp_path):
    names = encoded_names(("age", "code"), None, text=("code",))
    X = load_rows(with_cell(tmp_path, "02"), names, task="site").X
    assert X[3, names.index(f"code#{bucket('code', '01')}/16")] == 1.0


def test_numbers_with_declared_levels_are_categories(table):
    table["grade"] = [1, 2, 3] * 20
    tasks = load_tasks(table, task="site", target="days", bounds={"levels": {"grade": [1, 2, 3]}})
    assert tasks.feature_names[2:] == ("grade=1", "grade=2", "grade=3")


def test_booleans_are_numbers(table):
    table["urgent"] = [True, False] * 30
    tasks = load_tasks(table, task="site", target="days")
    assert set(tasks.X[:, tasks.feature_names.index("urgent")]) == {0.0, 1.0}


def test_declared_labels_are_not_cut_to_the_length_of_those_that_occur(table):
    table["out"] = ["no", "yes"] * 30
    classes = {"classes": ["no", "yes", "transferred"]}
    tasks = load_tasks(table, task="site", target="out", bounds=classes)
    assert tasks.classes.tolist() == ["no", "transferred", "yes"]
    assert [str(tasks.classes[c]) for c in tasks.codes()] == tasks.y.tolist()
    with pytest.raises(DataError, match="outside the declared"):
        load_tasks(table, task="site", target="days", kind="classification", bounds=classes)


def test_a_column_with_a_declared_range_stays_a_number_column(table):
    """Otherwise one text among its cells would turn everybody's numbers into buckets."""
    table["dose"] = table["dose"].astype(object).where(table.index != 3, "much")
    with pytest.raises(DataError, match="'dose' has a declared range but holds text"):
        load_tasks(table, task="site", target="days", bounds={"features": {"dose": [0, 1]}})


def test_a_cell_is_written_by_itself_and_not_as_an_equal_cell_of_another_row():
    """True equals 1 and hashes like it: the first of them in the column decided how the other was encoded."""
    from taskveil.tasks.prepare.encode import encode_features

    one, two = (pd.DataFrame({"c": np.array(["a", first, 1, "b", None], dtype=object)}) for first in (True, "q"))
    changed = (encode_features(one, ["c"], None).X != encode_features(two, ["c"], None).X).any(axis=1)
    assert changed.tolist() == [False, True, False, False, False]


@pytest.mark.parametrize("declared", [[0, 1], ["0", "1"], [False, True]])
@pytest.mark.parametrize("cell", ["1", "1.0", "maybe", "0.5", "true"])
def test_declared_labels_decide_how_the_target_of_a_csv_is_read_cell_by_cell(tmp_path, declared, cell):
    """One cell of a task that writes its labels in another way changes no label of the others, nor their type."""
    cells = ["0", "1", "1", "0", cell, "1"]
    (tmp_path / "t.csv").write_text("site,a,out\n" + "".join(f"{'xyz'[i // 2]},{i},{c}\n" for i, c in enumerate(cells)))
    asked = {"task": "site", "target": "out", "bounds": {"classes": declared}}
    tasks = load_tasks(tmp_path / "t.csv", unusable="set-aside", **asked)
    assert tasks.kind == "classification" and tasks.classes.tolist() == declared
    assert [tasks[name].y.tolist() for name in "xy"] == [declared, declared[::-1]]
    assert tasks.set_aside == (("z",) if cell in ("maybe", "0.5") else ())
    assert tasks["z"].y.tolist() == ([] if tasks.set_aside else [declared[1], declared[1]])


@pytest.mark.parametrize("cell", ["unknown", "1", "TRUE", "7"])
def test_one_cell_does_not_turn_a_column_of_true_and_false_into_buckets(tmp_path, table, cell, monkeypatch):
    """A word there is a bad row, as among numbers; what Arrow calls true is, and no other row's cell is read in another way."""
    table["flag"] = ["true", "false"] * 30
    table.to_csv(tmp_path / "good.csv", index=False)
    table.assign(flag=[cell, *table["flag"][1:]]).to_csv(tmp_path / "odd.csv", index=False)
    asked = {"task": "site", "target": "days"}
    for installed in (True, False):
        monkeypatch.setattr(files, "arrow_is_installed", lambda there=installed: there)
        good = load_tasks(tmp_path / "good.csv", **asked)
        if cell in ("unknown", "7"):
            with pytest.raises(DataError, match="line 2 has text in the true/false column 'flag'"):
                load_tasks(tmp_path / "odd.csv", **asked)
        odd = load_tasks(tmp_path / "odd.csv", bad_rows="skip", **asked)
        assert odd.feature_names == good.feature_names == ("age", "dose", "flag")


@pytest.mark.parametrize("cell", ["unknown", 1, 0.5, None])
def test_one_object_does_not_turn_a_column_of_truth_values_into_buckets(table, cell):
    flags = pd.Series([True, False] * 30, dtype=object)
    asked = {"task": "site", "target": "days", "missing": "impute-own"}
    good, flags[0] = load_tasks(table.assign(flag=flags), **asked), cell
    if cell == "unknown":
        with pytest.raises(DataError, match="'flag' holds text among"):
            load_tasks(table.assign(flag=flags), **asked)
    else:
        odd = load_tasks(table.assign(flag=flags), **asked)
        assert odd.feature_names == good.feature_names
        assert (odd.X != good.X).any(axis=1).sum() <= 1


def test_a_task_none_of_whose_rows_can_be_read_keeps_its_place(tmp_path, table):
    """Otherwise one task's cells would decide how many tasks everybody sees."""
    table["age"] = table["age"].astype(object)
    table.loc[:3, ["site", "age"]] = ["middle", "old"]
    table.to_csv(tmp_path / "t.csv", index=False)
    tasks = load_tasks(tmp_path / "t.csv", task="site", target="days", bad_rows="skip")
    assert "middle" in tasks.task_names and tasks["middle"].n_rows == 0
    assert tasks.task_names == tuple(sorted(tasks.task_names)) and tasks.n_rows == len(table) - 4


@pytest.mark.parametrize(
    "codes", [["K", "1", "2", "3"], ["5A", "7B", "12C"], ["1", "2", "APPR"], ["A1", "10", "B2"], ["1 year", "3 years"]]
)
def test_codes_that_hold_digits_stay_words(codes):
    """What is asked about are numbers with something else among them, not codes."""
    table = pd.DataFrame({"site": ["a", "b"] * 30, "x": (codes * 60)[:60], "y": np.arange(60.0)})
    tasks = load_tasks(table, task="site", target="y")
    assert tasks.feature_names[0] == "x#0/16"
