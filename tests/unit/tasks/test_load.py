"""Loading: every kind of source gives the same tasks; categories, missing cells, wide tables, persons."""

import numpy as np
import pandas as pd
import pytest

from taskveil.errors import DataError
from taskveil.tasks import PublicBounds, TaskSet, files, load, load_rows, load_tasks
from taskveil.tasks.person import limit_tasks_per_person, most_tasks_of_one_person
from taskveil.tasks.prepare.encode import bucket, encoded_names
from taskveil.tasks.prepare.facts import Fact


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    n = 60
    return pd.DataFrame(
        {
            "site": rng.choice(["north", "south", "west"], n),
            "age": rng.integers(20, 90, n),
            "dose": rng.random(n).round(3),
            "days": rng.gamma(3, 2, n).round(3),
        }
    )


def same(a: TaskSet, b: TaskSet):
    assert a.task_names == b.task_names
    assert a.feature_names == b.feature_names
    assert a.kind == b.kind
    np.testing.assert_allclose(a.X, b.X)
    np.testing.assert_array_equal(a.y, b.y)
    np.testing.assert_array_equal(a.row_index, b.row_index)


def test_csv_parquet_npz_frame_dict_and_arrays_give_the_same_tasks(table, tmp_path):
    expected = load_tasks(table, task="site", target="days")
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    table.to_csv(tmp_path / "semicolon.csv", index=False, sep=";")
    table.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.tsv", "semicolon.csv", "t.parquet"):
        same(load_tasks(tmp_path / name, task="site", target="days"), expected)
    X, y, site = table[["age", "dose"]], table["days"].to_numpy(), table["site"].to_numpy()
    same(load_tasks((X, y, site)), expected)
    names, codes = np.unique(site.astype(str), return_inverse=True)
    columns = np.array(["age", "dose"])
    np.savez(tmp_path / "t.npz", X=X.to_numpy(), y=y, task=codes, task_names=names, feature_names=columns)
    same(load_tasks(tmp_path / "t.npz"), expected)
    parts = {s: (X[site == s], y[site == s]) for s in ("north", "south", "west")}
    by_dict = load_tasks(parts)
    np.testing.assert_allclose(by_dict.X, expected.X)
    assert by_dict.task_names == expected.task_names


def test_a_dict_keeps_the_order_of_its_tasks():
    tasks = load_tasks({"z": (np.ones((2, 1)), [1.5, 2.5]), "a": (np.zeros((1, 1)), [0.5])})
    assert tasks.task_names == ("z", "a")
    assert tasks["z"].X.tolist() == [[1.0], [1.0]]


def test_an_npz_keeps_the_order_of_its_task_names(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=[1.5, 2.5, 3.5], task=[1, 0, 2], task_names=["c", "b", "a"])
    tasks = load_tasks(tmp_path / "t.npz")
    assert tasks.task_names == ("c", "b", "a")
    np.testing.assert_array_equal(tasks["b"].X, [[1, 0, 0]])
    np.testing.assert_array_equal(tasks.row_index, [1, 0, 2])


def test_the_usual_column_names_need_not_be_said():
    tasks = load_tasks(pd.DataFrame({"task": [1, 2], "y": [0.5, 1.5], "x": [1.0, 2.0]}))
    assert tasks.task_names == ("1", "2") and tasks.feature_names == ("x",)


def test_a_csv_may_have_a_byte_order_mark_blank_lines_and_quotes(tmp_path):
    text = '\ufeffsite,x,days\n"a, b",1,2.5\n\n"a, b",2,3.5\nc,3,1.5\n'
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    tasks = load_tasks(tmp_path / "t.csv", task="site", target="days")
    assert tasks.task_names == ("a, b", "c")
    assert tasks.X[:, 0].tolist() == [1, 2, 3]


def test_identifiers_in_a_csv_keep_their_text(tmp_path):
    (tmp_path / "t.csv").write_text("task,x,y\n007,1,2.5\n7,2,3.5\n10,3,1.5\n")
    assert load_tasks(tmp_path / "t.csv").task_names == ("007", "10", "7")
    assert load_rows(tmp_path / "t.csv", ["x"]).task.tolist() == ["007", "7", "10"]


def test_whole_numbers_sort_as_numbers_in_tables_and_in_files(tmp_path):
    data = pd.DataFrame({"task": [10, 9, 100, 9], "x": [1.0, 2, 3, 4], "y": [0.5, 1.5, 2.5, 3.5]})
    data.to_csv(tmp_path / "t.csv", index=False)
    for source in (data, tmp_path / "t.csv", data.astype({"task": str})):
        assert load_tasks(source).task_names == ("9", "10", "100")


def test_a_csv_may_have_line_breaks_inside_quotes(tmp_path):
    rows = "".join(f'"note\n{i % 2}",{i},{i}.5\n' for i in range(30))
    (tmp_path / "t.csv").write_text("site,x,days\n" + rows)
    tasks = load_tasks(tmp_path / "t.csv", task="site", target="days")
    assert tasks.n_tasks == 2 and tasks.n_rows == 30


def test_a_number_column_that_turns_to_text_late_in_a_large_file_is_reported_by_line(tmp_path):
    good = "".join(f"a,{i},{i}.5\n" for i in range(200_000))
    (tmp_path / "t.csv").write_text("site,x,days\n" + good + "a,oops,1.5\n")
    with pytest.raises(DataError, match="line 200002 has text in the numeric column 'x'"):
        load_tasks(tmp_path / "t.csv", task="site", target="days")
    tasks = load_tasks(tmp_path / "t.csv", task="site", target="days", bad_rows="skip")
    assert tasks.n_rows == 200_000 and tasks.feature_names == ("x",)


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


def holes(table):
    table = table.copy()
    table["dose"] = table["dose"].where(np.arange(60) % 4 != 0)
    return table


def test_missing_numbers_can_stand_at_the_middle_of_the_declared_range(table):
    bounds = {"features": {"age": [0, 120], "dose": [0, 3]}, "target": [0, 100]}
    tasks = load_tasks(holes(table), task="site", target="days", bounds=bounds, missing="impute-bounds")
    filled = tasks.X[tasks.row_index % 4 == 0, 1]
    np.testing.assert_array_equal(filled, 1.5)


def test_missing_numbers_can_be_the_median_of_the_task_s_own_rows(table):
    data = holes(table)
    tasks = load_tasks(data, task="site", target="days", missing="impute-own")
    for name in tasks.task_names:
        own = data.loc[data["site"] == name, "dose"].median()
        t = tasks[name]
        np.testing.assert_allclose(t.X[t.row_index % 4 == 0, 1], own)


def test_own_imputation_ignores_every_other_task(table):
    """A privacy test: changing one task's rows moves no other task's filled values."""
    data = holes(table)
    changed = data.copy()
    changed.loc[changed["site"] == "west", "dose"] = 99.0
    before, after = (load_tasks(d, task="site", target="days", missing="impute-own") for d in (data, changed))
    for name in ("north", "south"):
        np.testing.assert_array_equal(before[name].X, after[name].X)


def test_a_task_without_any_value_gets_the_public_middle_or_zero(table):
    data = table.copy()
    data.loc[data["site"] == "west", "dose"] = np.nan
    none = load_tasks(data, task="site", target="days", missing="impute-own")
    np.testing.assert_array_equal(none["west"].X[:, 1], 0)
    bounds = {"features": {"age": [0, 120], "dose": [0, 3]}}
    some = load_tasks(data, task="site", target="days", missing="impute-own", bounds=bounds)
    np.testing.assert_array_equal(some["west"].X[:, 1], 1.5)


def test_rows_with_missing_cells_can_be_left_out(table):
    data = holes(table)
    data.loc[1, "days"] = np.nan
    tasks = load_tasks(data, task="site", target="days", missing="drop")
    assert not (tasks.row_index % 4 == 0).any() and 1 not in tasks.row_index
    assert tasks.n_rows == 44
    np.testing.assert_array_equal(tasks.X[:, 0], table["age"].to_numpy()[tasks.row_index])


def test_a_task_that_loses_all_its_rows_keeps_its_place(table):
    """The list of tasks is public; whether a task's cells are empty is not."""
    data = table.copy()
    data.loc[data["site"] == "south", "dose"] = np.nan
    assert load_tasks(data, task="site", target="days", missing="drop").task_names == ("north", "south", "west")


def test_missing_values_in_plain_arrays_are_treated_too():
    X = np.array([[1.0, np.nan], [3.0, 4.0], [5.0, 6.0]])
    tasks = load_tasks((X, [0.5, 1.5, 2.5], [0, 0, 1]), missing="impute-own")
    assert tasks.X.tolist() == [[1, 4], [3, 4], [5, 6]]


def test_values_outside_the_declared_bounds_are_clipped_and_the_notes_say_so(table):
    bounds = PublicBounds({"age": (30, 60), "*": (0, 0.5)}, target=(1, 5))
    tasks = load_tasks(table, task="site", target="days", bounds=bounds)
    assert tasks.X[:, 0].min() == 30 and tasks.X[:, 0].max() == 60
    assert tasks.X[:, 1].max() == 0.5 and tasks.y.max() == 5 and tasks.y.min() >= 1
    assert any("clipped" in n for n in tasks.notes)


def test_bounds_files_are_json_or_toml(table, tmp_path):
    (tmp_path / "b.json").write_text('{"features": {"*": [0, 100]}, "target": [0, 50]}')
    (tmp_path / "b.toml").write_text('target = [0, 50]\n[features]\n"*" = [0, 100]\n')
    a, b = (load_tasks(table, task="site", target="days", bounds=tmp_path / f"b.{e}") for e in ("json", "toml"))
    assert a.bounds == b.bounds == PublicBounds({"*": (0, 100)}, target=(0, 50))


def test_wide_tables_make_one_task_per_target_and_drop_missing_targets():
    wide = pd.DataFrame({"x": [1.0, 2, 3], "q1": [0.5, np.nan, 2.5], "q2": [1.5, 2.5, np.nan], "who": list("abc")})
    tasks = load_tasks(wide, targets=["q1", "q2"], person="who")
    assert tasks.task_names == ("q1", "q2")
    assert tasks["q1"].X[:, 0].tolist() == [1, 3] and tasks["q1"].y.tolist() == [0.5, 2.5]
    assert tasks["q2"].row_index.tolist() == [0, 1]
    assert tasks.person.tolist() == [0, 2, 0, 1]
    assert tasks.feature_names == ("x",)
    assert Fact("shared-rows") not in tasks.facts
    assert Fact("shared-rows") in load_tasks(wide[["x", "q1", "q2"]], targets=["q1", "q2"]).facts


def test_wide_tables_can_also_have_a_task_column():
    wide = pd.DataFrame({"s": ["b", "a", "b"], "x": [1.0, 2, 3], "q1": [1.5, 2, 3], "q2": [4.5, np.nan, 6]})
    tasks = load_tasks(wide, task="s", targets=["q1", "q2"])
    assert tasks.task_names == ("a/q1", "b/q1", "a/q2", "b/q2") and tasks["a/q2"].n_rows == 0
    assert tasks["b/q2"].y.tolist() == [4.5, 6]


def test_wide_targets_can_be_labels():
    wide = pd.DataFrame({"x": [1.0, 2, 3], "q1": ["y", "n", None], "q2": ["n", None, "y"]})
    tasks = load_tasks(wide, targets=["q1", "q2"])
    assert tasks.kind == "classification" and tasks.classes.tolist() == ["n", "y"] and tasks.n_rows == 4


def test_a_positive_label_makes_the_target_binary(table):
    table["out"] = ["Home", "ward", "died"] * 20
    tasks = load_tasks(table, task="site", target="out", positive="home")
    assert tasks.classes.tolist() == [0, 1] and tasks.target_name == "out = home"
    np.testing.assert_array_equal(tasks.y, tasks.row_index % 3 == 0)


def test_columns_can_be_chosen_and_carried_along(table):
    table["run"] = np.arange(60) // 6
    tasks = load_tasks(table, task="site", target="days", features=["dose"], groups=["run"])
    assert tasks.feature_names == ("dose",)
    np.testing.assert_array_equal(tasks.groups["run"], tasks.row_index // 6)
    assert "run" not in load_tasks(table, task="site", target="days", groups=["run"]).feature_names


def test_a_task_set_can_be_given_other_bounds():
    tasks = load_tasks("synthetic:tiny")
    again = load_tasks(tasks, bounds=(-1, 1))
    assert np.abs(again.X).max() <= 1 and again.bounds.covers(again.feature_names)


def test_rows_to_predict_are_encoded_like_the_training_rows(table, tmp_path):
    table["ward"] = ["icu", "er", "ward"] * 20
    tasks = load_tasks(table, task="site", target="days")
    later = table.drop(columns="days").sample(frac=1, random_state=0)[["ward", "dose", "site", "age"]]
    rows = load_rows(later, tasks.feature_names, task="site")
    at = np.argsort(tasks.row_index)[later.index.to_numpy()]
    np.testing.assert_allclose(rows.X, tasks.X[at])
    np.testing.assert_array_equal(rows.task, later["site"])
    later.to_csv(tmp_path / "l.csv", index=False)
    np.testing.assert_allclose(load_rows(tmp_path / "l.csv", tasks.feature_names, task="site").X, rows.X)


def test_rows_to_predict_may_miss_a_level_or_a_cell(table):
    table["ward"] = ["icu", "er", "ward"] * 20
    levels = {"levels": {"ward": ["er", "icu", "ward"]}}
    names = load_tasks(table, task="site", target="days", bounds=levels).feature_names
    few = table.head(4).assign(ward="icu", dose=[0.1, np.nan, 0.3, 0.4])
    rows = load_rows(few, names, task="site", missing="drop")
    assert rows.row_index.tolist() == [0, 2, 3]
    np.testing.assert_array_equal(rows.X[:, names.index("ward=icu")], 1)


def test_rows_to_predict_come_from_npz_and_built_in_names_too(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(2), task=[1, 0], task_names=["a", "b"])
    rows = load_rows(tmp_path / "t.npz", ["x0", "x1"])
    assert rows.task.tolist() == ["b", "a"]
    tiny = load_tasks("synthetic:tiny")
    np.testing.assert_array_equal(load_rows("synthetic:tiny", tiny.feature_names).X, tiny.X)


def test_a_person_is_kept_in_at_most_the_allowed_number_of_tasks():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"task": rng.integers(0, 9, 400), "y": rng.random(400), "x": rng.random(400)})
    data["who"] = rng.integers(0, 40, 400)
    tasks = load_tasks(data, person="who")
    assert most_tasks_of_one_person(tasks) > 3
    for limit in (1, 3):
        kept = limit_tasks_per_person(tasks, limit, seed=1)
        assert most_tasks_of_one_person(kept) == limit
        assert np.unique(kept.person).size == 40, "nobody disappears"
    pairs = set(zip(kept.person.tolist(), kept.task_of_row().tolist(), strict=True))
    whole = [p for p in zip(tasks.person.tolist(), tasks.task_of_row().tolist(), strict=True) if p in pairs]
    assert len(whole) == kept.n_rows, "a person stays in a task with all rows or none"


def test_rows_without_task_or_target_are_left_out_of_a_table_when_asked_and_that_is_said():
    table = pd.DataFrame({"site": ["a", "a", "b", None, "b"], "x": range(5), "days": [1.5, None, 3.1, 4.2, 5.3]})
    tasks = load_tasks(table, task="site", target="days", bad_rows="skip")
    assert tasks.row_index.tolist() == [0, 2, 4] and Fact("skipped") in tasks.facts


def test_columns_can_be_left_out_of_anything_that_is_loaded():
    table = pd.DataFrame({"site": ["a", "b"] * 3, "x": range(6), "note": list("uvwxyz"), "days": np.arange(6) / 7})
    assert load_tasks(table, task="site", target="days", leave_out=["note"]).feature_names == ("x",)
    assert load_tasks("synthetic:tiny", leave_out=["x0"]).feature_names[0] == "x1"
    arrays = (np.arange(12.0).reshape(6, 2), np.arange(6) / 7, list("ababab"))
    assert load_tasks(arrays, leave_out=["x0"]).feature_names == ("x1",)
    with pytest.raises(DataError, match="no column 'remark'"):
        load_tasks(table, task="site", target="days", leave_out=["remark"])


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
