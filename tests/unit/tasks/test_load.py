"""Loading: every kind of source gives the same tasks; categories, missing cells, wide tables, persons."""

import numpy as np
import pandas as pd
import pytest

from taskveil.errors import DataError
from taskveil.tasks import PublicBounds, TaskSet, load_rows, load_tasks
from taskveil.tasks.prepare.facts import Fact


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
