"""What goes wrong on the way in gets an error that says what was expected and shows no value of the data."""

import json

import numpy as np
import pandas as pd
import pytest

from taskveil.errors import DataError, EnvironmentMissing, InputError, OptionError, UnknownName
from taskveil.tasks import PublicBounds, TaskSet, load_rows, load_tasks, split_rows

SECRET = 8675309.25


def frame(**columns):
    base = {"site": ["a", "a", "b", "b"], "x": [1.0, 2.0, SECRET, 4.0], "days": [1.5, 2.5, 3.5, 4.5]}
    return pd.DataFrame({**base, **columns})


def long(table, **options):
    return load_tasks(table, task="site", target="days", **options)


def stray(text, whole=False):
    """Forty numbers, and one cell in five says something else: far more than a slip, so that the column is not mostly numbers."""
    numbers = [str(v) if whole else f"{v}.5" for v in range(40)]
    x = [text if i % 5 == 0 else v for i, v in enumerate(numbers)]
    return long(pd.DataFrame({"site": ["a", "b"] * 20, "x": x, "days": np.arange(40.0)}))


def arrays(X=None, y=None, task=None, **options):
    X = np.full((4, 2), SECRET) if X is None else X
    return load_tasks((X, [1.5, 2, 3, 4] if y is None else y, [0, 0, 1, 1] if task is None else task), **options)


def huge():
    return np.full((4, 2), 1e200)


CASES = {
    "no such column": (lambda: load_tasks(frame(), task="sita", target="days"), DataError, "Did you mean 'site'"),
    "no such target": (lambda: load_tasks(frame(), task="site", target="zzz"), DataError, "Columns: site, x, days"),
    "which task": (lambda: load_tasks(frame(), target="days"), OptionError, "which column is the task"),
    "which target": (lambda: load_tasks(frame(), task="site"), OptionError, "which column is the target"),
    "cells of objects": (lambda: long(frame(x=[{}] * 4)), DataError, "neither numbers nor text"),
    "target is feature": (lambda: long(frame(), features=["x", "days"]), OptionError, "'days' cannot be a feature"),
    "task is feature": (lambda: long(frame(), features=["site"]), OptionError, "'site' cannot be a feature"),
    "task is target": (lambda: load_tasks(frame(), task="x", target="x"), OptionError, "both the task and the target"),
    "person is target": (
        lambda: load_tasks(frame(), task="site", target="days", person="days"),
        OptionError,
        "target and the person",
    ),
    "no rows": (lambda: long(frame().iloc[:0]), DataError, "no rows"),
    "no features": (lambda: long(frame()[["site", "days"]]), DataError, "no feature columns"),
    "two names": (lambda: long(frame().set_axis(["site", "days", "days"], axis=1)), DataError, "two columns called 'days'"),
    "feature twice": (lambda: long(frame(), features=["x", "x"]), DataError, "named twice"),
    "features as text": (lambda: long(frame(), features="x"), OptionError, "list of column names"),
    "missing": (lambda: long(frame(x=[1, np.nan, 3, 4])), DataError, "missing or infinite values in column 'x'.*impute-own"),
    "missing option": (lambda: long(frame(), missing="guess"), OptionError, "missing must be one of error"),
    "missing target": (lambda: long(frame(days=[1.5, np.nan, 3, 4])), DataError, "target column 'days' has missing"),
    "empty target": (lambda: long(frame(days=[None] * 4)), DataError, "target column 'days' is empty"),
    "empty column": (lambda: long(frame(z=[None] * 4)), DataError, "column 'z' is empty"),
    "empty column of numbers": (lambda: long(frame(z=[np.nan] * 4)), DataError, "column 'z' is empty; leave it out"),
    "all dropped": (lambda: long(frame(x=[np.nan] * 4), missing="drop"), DataError, "every row has a missing value"),
    "no range": (lambda: long(frame(x=[1, None, 3, 4]), missing="impute-bounds"), DataError, "declared range for column 'x'"),
    "decimal commas": (lambda: long(frame(x=["1,5", "2", "3,25", "4"])), DataError, "'x' holds numbers with a decimal comma"),
    "text among numbers": (lambda: long(frame(x=[1, 2.5, "unknown", 4])), DataError, "'x' holds text among numbers"),
    "text among written numbers": (lambda: long(frame(x=["1", "2.5", "-", "4"])), DataError, "'x' holds text among numbers"),
    "text among targets": (lambda: long(frame(days=["1", "2", "unknown", "4"])), DataError, "'days' holds text among numbers"),
    "points among numbers": (lambda: stray("."), DataError, "'x' holds text among numbers.*declare its levels"),
    "words for nothing among whole numbers": (lambda: stray("unknown", whole=True), DataError, "'x' holds text among numbers"),
    "limits of detection among numbers": (lambda: stray("<0.5"), DataError, "'x' holds text among numbers"),
    "unit": (
        lambda: long(frame(x=["5.2 mg", "1 mg", "3 mg", "10.5mg"])),
        DataError,
        "'x' holds numbers with a unit; write plain",
    ),
    "unit of the target": (lambda: long(frame(days=["5.2 days", "1 days"] * 2)), DataError, "'days' holds numbers with a unit"),
    "money": (lambda: long(frame(x=["$ 1,250.50", "$2", "$3", "$4"])), DataError, "'x' holds numbers with a currency"),
    "percent": (lambda: long(frame(x=["1.5 %", "2%", "3%", "4%"])), DataError, "'x' holds numbers with a currency, a percent"),
    "thousands": (lambda: long(frame(x=["1'250", "2'000", "3'000", "4"])), DataError, "separators of thousands"),
    "days as text": (lambda: long(frame(x=["31/12/2020", "1/2/2021"] * 2)), DataError, "'x' holds dates or times"),
    "months as text": (lambda: long(frame(x=["05-Jan-24", "6-Feb-24"] * 2)), DataError, "'x' holds dates or times"),
    "money as target": (lambda: long(frame(days=["1,5 €", "2 €", "3 €", "4 €"])), DataError, "'days' holds numbers with a curr"),
    "days as target": (lambda: long(frame(days=["1.2.2020", "2.2.2020"] * 2)), DataError, "'days' holds dates.*--kind"),
    "nearly a data set": (lambda: load_tasks("hearth"), UnknownName, "did you mean 'heart'"),
    "missing task": (
        lambda: long(frame(site=["a", None, "b", "b"])),
        DataError,
        "task column 'site' has missing.*--bad-rows skip",
    ),
    "infinite": (lambda: long(frame(x=[1, np.inf, 3, 4])), DataError, "infinite values in column 'x'"),
    "huge": (lambda: arrays(huge()), DataError, "beyond 1e\\+150"),
    "huge target": (lambda: arrays(y=[1e200, 2, 3, 4.5]), DataError, "target has missing, infinite or huge"),
    "nan target": (lambda: arrays(y=[np.nan, 2, 3, 4.5]), DataError, "target"),
    "dates": (lambda: long(frame(when=pd.date_range("2020", periods=4))), DataError, "'when' holds dates"),
    "date target": (
        lambda: load_tasks(frame(d=pd.date_range("2020", periods=4)), task="site", target="d"),
        DataError,
        "target 'd' holds dates",
    ),
    "text target": (lambda: long(frame(days=list("abcd")), kind="regression"), DataError, "'days' holds text"),
    "bad kind": (lambda: long(frame(), kind="ranking"), OptionError, "kind must be one of"),
    "lengths": (lambda: arrays(y=[1.0, 2.0]), DataError, "y has 2 values for 4 rows"),
    "task lengths": (lambda: arrays(task=[1, 2]), DataError, "task has 2 values for 4 rows"),
    "flat X": (lambda: arrays(np.zeros(4)), DataError, "table of rows x features"),
    "text X": (lambda: arrays(np.array([["a"]] * 4)), DataError, "pass a DataFrame"),
    "no columns": (lambda: arrays(np.zeros((4, 0))), DataError, "no feature columns"),
    "two targets": (lambda: arrays(y=np.zeros((4, 2))), DataError, "one target per row"),
    "missing label": (lambda: arrays(y=np.array(["a", None, "b", "a"], dtype=object)), DataError, "missing labels"),
    "task matrix": (lambda: arrays(task=np.zeros((4, 2))), DataError, "one value per row"),
    "empty dict": (lambda: load_tasks({}), DataError, "dict of tasks is empty"),
    "odd dict": (lambda: load_tasks({"a": 3}), DataError, "task 'a': expected a pair"),
    "dict lengths": (lambda: load_tasks({"a": (np.zeros((2, 1)), [1.0])}), DataError, "task 'a': X and y"),
    "dict widths": (
        lambda: load_tasks({"a": (np.zeros((1, 1)), [1.5]), "b": (np.zeros((1, 2)), [1.5])}),
        DataError,
        "same number of features",
    ),
    "dict columns": (lambda: load_tasks({k: (pd.DataFrame({k: [1.0]}), [1.5]) for k in "ab"}), DataError, "different columns"),
    "odd source": (lambda: load_tasks(3), DataError, "cannot load tasks from a int"),
    "unknown name": (lambda: load_tasks("shcool"), UnknownName, "neither a file nor a data set.*school"),
    "unknown synthetic": (lambda: load_tasks("synthetic:high-rank"), UnknownName, "expected one of"),
    "synthetic option": (lambda: load_tasks("synthetic:low-rank?tasks=3"), OptionError, "known: n_tasks"),
    "synthetic syntax": (lambda: load_tasks("synthetic:low-rank?n_tasks"), OptionError, "name=value"),
    "relation": (lambda: load_tasks("synthetic:tiny?relation=odd"), OptionError, "related, unrelated, noise"),
    "positive of numbers": (lambda: long(frame(), positive="a", kind="regression"), OptionError, "needs a classification target"),
    "positive unknown": (lambda: long(frame(days=list("abab")), positive="z"), UnknownName, "labels: a, b"),
    "kind of built-in": (lambda: load_tasks("synthetic:tiny", kind="classification"), OptionError, "is regression"),
    "feature of built-in": (lambda: load_tasks("synthetic:tiny", features=["age"]), DataError, "no feature 'age'"),
    "no targets": (lambda: load_tasks(frame(), targets=[]), OptionError, "at least one column"),
    "same targets": (lambda: load_tasks(frame(), targets=["x", "x"]), OptionError, "each once"),
    "mixed targets": (lambda: load_tasks(frame(), targets=["x", "site"]), DataError, "mix numbers and text"),
    "empty wide target": (lambda: load_tasks(frame(q=[np.nan] * 4), targets=["days", "q"]), DataError, "'q' is empty"),
    "split fraction": (lambda: split_rows(long(frame()), 1.0, 0), OptionError, "between 0 and 1"),
    "split group": (lambda: split_rows(long(frame()), 0.5, 0, group="run"), DataError, "no column 'run'"),
    "group length": (lambda: split_rows(long(frame()), 0.5, 0, group=np.zeros(3)), DataError, "one per row"),
    "unknown task": (lambda: long(frame()).index_of("z"), DataError, "unknown task 'z'"),
    "mask": (lambda: long(frame()).select(np.ones(3, dtype=bool)), DataError, "row mask"),
    "codes": (lambda: long(frame()).codes(), DataError, "no classes"),
    "offsets": (
        lambda: TaskSet(np.zeros((2, 1)), np.zeros(2), np.array([0, 3]), ("a",), ("x",), "regression"),
        DataError,
        "do not fit together",
    ),
    "task names": (lambda: TaskSet.from_arrays(np.zeros((1, 1)), [1.5], [3], task_names=["a"]), DataError, "between 0 and 0"),
    "same task name": (
        lambda: TaskSet.from_arrays(np.zeros((2, 1)), [1.5, 2], [0, 1], task_names=["a", "a"]),
        DataError,
        "duplicate task name 'a'",
    ),
    "same feature name": (
        lambda: TaskSet.from_arrays(np.zeros((1, 2)), [1.5], [0], feature_names=["x", "x"]),
        DataError,
        "duplicate feature name 'x'",
    ),
    "names per column": (
        lambda: TaskSet.from_arrays(np.zeros((1, 2)), [1.5], [0], feature_names=["x"]),
        DataError,
        "one name per column",
    ),
    "rows without a column": (lambda: load_rows(frame(), ["x", "z"], task="site"), DataError, "no column 'z'"),
    "rows with text": (lambda: load_rows(frame(x=list("abcd")), ["x"], task="site"), DataError, "trained on numbers"),
    "bounds keys": (lambda: PublicBounds.from_dict({"feature": {}}), DataError, "unknown entries 'feature'"),
    "bounds order": (lambda: PublicBounds({"a": (2, 1)}), DataError, "low < high"),
    "bounds nan": (lambda: PublicBounds({"a": (np.nan, 1)}), DataError, "two numbers"),
    "bounds pair": (lambda: PublicBounds({"a": 3}), DataError, "two numbers"),
    "bounds type": (lambda: PublicBounds.coerce(3), DataError, "bounds must be"),
    "bounds levels": (lambda: PublicBounds(levels={"a": ["x", "x"]}), DataError, "without repeats"),
    "bounds levels text": (lambda: PublicBounds(levels={"a": "xy"}), DataError, "must be a list"),
    "bounds map": (lambda: PublicBounds.from_dict({"features": [1]}), DataError, "must map column names"),
    "bounds file": (lambda: PublicBounds.from_file("/nowhere/b.json"), DataError, "cannot read the bounds file"),
    "bounds cover": (lambda: PublicBounds({"a": (0, 1)}).arrays(["a", "b"]), DataError, "no declared range for column 'b'"),
    "bounds arrays": (lambda: PublicBounds.from_arrays(["a"], [0, 0], [1, 1]), DataError, "one range per feature"),
}


@pytest.mark.parametrize(
    "words", [["007", "12"], ["E11.9", "I21"], ["10-20", "20-30"], ["3a", "4b"], ["250.01", "1.5"], ["a, b", "c"]]
)
def test_codes_and_words_are_not_taken_for_numbers_or_days(words):
    assert long(frame(x=words * 2)).feature_names[0] == "x#0/16"
    labels = ["1,5", "2,5"]
    assert long(frame(days=labels * 2), kind="classification").classes.tolist() == labels, "labels that were asked for"


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_with_a_clear_message(case):
    act, kind, message = CASES[case]
    with pytest.raises(InputError, match=message) as caught:
        act()
    assert type(caught.value) is kind
    assert caught.value.exit_code == 2
    assert "8675309" not in str(caught.value), "no value of the data in an error"


def csv_file(tmp_path, text, name="t.csv", **options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_tasks(path, task="site", target="days", **options)


GOOD = "".join(f"{'ab'[i % 2]},{i}.5,{i * i}.25\n" for i in range(40))
FILES = {
    "empty": (b"", "is empty"),
    "blank": (b"\n\n", "is empty"),
    "header only": (b"site,x,days\n", "no usable rows"),
    "wrong fields": ("site,x,days\n" + GOOD + "a,1\n", "line 42 has 2 fields instead of 3"),
    "text in numbers": ("site,x,days\n" + GOOD + "a,8675309x,3.5\n", "line 42 has text in the numeric column 'x'"),
    "text in target": ("site,x,days\n" + GOOD + "a,1,none yet\n", "line 42 has text in the numeric column 'days'"),
    "two faults": (
        "site,x,days\n" + GOOD + "a,1\n" + "b,oops,2.5\n",
        "line 42 has 2 fields instead of 3; line 43 has text in the numeric column 'x'",
    ),
    "nothing but bad rows": (b"site,x,days\na,1\n", "line 2 has 2 fields"),
    "same names": (b"site,x,x\na,1,2\n", "two columns called 'x'"),
    "no name": (b"site,,days\na,1,2\n", "column without a name"),
    "a title above": (
        b"Report of wards;;;\n;;;\nsite;x;days;\na;1;2;\n",
        "column without a name; its first line.*remove titles above",
    ),
    "not text": (b"\x89PNG\x00\x00\x1a\xff\xfe", "not UTF-8 text|not a text file"),
    "late bytes": (b"site,x,days\n" + GOOD.encode() + b"\xff\xfe,1,2\n", "not UTF-8"),
}


@pytest.mark.parametrize("case", FILES)
def test_bad_csv_files_are_refused_by_line(case, tmp_path):
    text, message = FILES[case]
    with pytest.raises(DataError, match=message) as caught:
        csv_file(tmp_path, text)
    assert "8675309" not in str(caught.value)


def test_bad_lines_can_be_skipped_and_that_is_said(tmp_path):
    text = "site,x,days\n" + GOOD + "a,1\n" + "b,oops,3\n" + "b,1,2,3\n"
    tasks = csv_file(tmp_path, text, bad_rows="skip")
    assert tasks.n_rows == 40
    assert any("3 of 43 rows were left out: 2 with too few or too many fields, 1 with text" in n for n in tasks.notes)
    with pytest.raises(OptionError, match="bad_rows must be one of"):
        csv_file(tmp_path, text, bad_rows="ignore")


def test_damaged_binary_files_are_refused(tmp_path):
    npz, parquet = tmp_path / "t.npz", tmp_path / "t.parquet"
    np.savez(npz, X=np.random.default_rng(0).random((50, 4)), y=np.zeros(50), task=np.zeros(50, dtype=int))
    frame().to_parquet(parquet)
    for path in (npz, parquet):
        whole = path.read_bytes()
        for keep in (len(whole) // 2, len(whole) - 20, 10):
            path.write_bytes(whole[:keep])
            with pytest.raises(DataError, match=r"damaged|truncated|not a"):
                load_tasks(path, task="site", target="days")
    npz.write_bytes(b"not a zip file at all")
    with pytest.raises(DataError, match="damaged"):
        load_tasks(npz)


def test_an_npz_is_never_unpickled(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X=np.array([[object()]], dtype=object), y=np.zeros(1), task=np.zeros(1))
    with pytest.raises(DataError, match="never unpickled"):
        load_tasks(path)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"X": np.zeros((2, 1))}, "lacks the array 'y', 'task'"),
        ({"X": np.zeros(2), "y": np.zeros(2), "task": np.zeros(2)}, "rows x features"),
        ({"X": np.zeros((2, 1)), "y": [1.5, 2], "task": [0, 5], "task_names": ["a"]}, "whole numbers from 0 to 0"),
        ({"X": np.zeros((2, 2)), "y": [1.5, 2], "task": [0, 1], "feature_names": ["a"]}, "one name per column"),
        ({"X": np.zeros((2, 1)), "y": [1.5], "task": [0, 1]}, "y has 1 values for 2 rows"),
    ],
)
def test_npz_layouts_that_do_not_fit_are_refused(tmp_path, parts, message):
    np.savez(tmp_path / "t.npz", **parts)
    with pytest.raises(DataError, match=message):
        load_tasks(tmp_path / "t.npz")


def test_odd_paths_are_refused(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"x")
    with pytest.raises(DataError, match=r"unknown file type '\.xlsx'"):
        load_tasks(tmp_path / "t.xlsx")
    with pytest.raises(DataError, match="there is no file"):
        load_tasks(tmp_path / "none.csv")
    (tmp_path / "d.csv").mkdir()
    with pytest.raises(DataError, match="is a folder"):
        load_tasks(tmp_path / "d.csv")


def test_a_data_set_that_is_not_here_says_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("TASKVEIL_DATA", str(tmp_path / "here"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(EnvironmentMissing, match=r"not on this machine.*here.*taskveil data fetch school") as caught:
        load_tasks("school")
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("b.json", "{", "not valid JSON"),
        ("b.toml", "= 3", "not valid TOML"),
        ("b.json", "[1]", "must hold one object"),
        ("b.json", json.dumps({"features": {"x": [1, "a"]}}), "two numbers"),
    ],
)
def test_bad_bounds_files_are_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        PublicBounds.from_file(tmp_path / name)
