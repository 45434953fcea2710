"""Built-in data sets; tests that need the files are skipped where they are not."""

import numpy as np
import pytest

from taskveil.errors import DataError, EnvironmentMissing, OptionError, UnknownName
from taskveil.tasks import catalogue, load_tasks, split_rows
from taskveil.tasks.fetch import verify

COUNTS = {
    "school": (139, 15_362, 28, "regression", 0),
    "har": (30, 10_299, 561, "classification", 6),
    "femnist": (206, 6_237, 784, "classification", 62),
    "mnist_writers": (539, 60_000, 784, "classification", 10),
    "heart": (4, 920, 13, "classification", 2),
    "vehicle": (23, 1_860, 100, "classification", 2),
}


def need(name):
    if not any(p.is_file() for p in catalogue.places(name)):
        pytest.skip(f"the data set {name} is not on this machine")


@pytest.mark.parametrize("name", COUNTS)
def test_a_built_in_data_set_has_its_published_counts(name):
    need(name)
    tasks = load_tasks(name)
    m, n, d, kind, classes = COUNTS[name]
    assert (tasks.n_tasks, tasks.n_rows, tasks.n_features, tasks.kind, tasks.n_classes) == (m, n, d, kind, classes)
    low, high = tasks.bounds.arrays(tasks.feature_names)
    assert (tasks.X >= low).all() and (tasks.X <= high).all()
    assert verify(name)


def test_school_is_declared_in_percentages_dummies_and_scores():
    need("school")
    bounds = load_tasks("school").bounds
    assert bounds.target == (0, 70)
    assert bounds.features["pct_free_school_meals"] == (0, 100) and bounds.features["bias"] == (0, 1)


def test_heart_stands_missing_cells_at_the_middle_of_their_range():
    need("heart")
    tasks = load_tasks("heart")
    assert tasks.classes.tolist() == [0, 1]
    chol = tasks["switzerland"].X[:, tasks.feature_names.index("chol")]
    np.testing.assert_array_equal(chol, 340)


def test_har_splits_by_run_without_overlapping_windows():
    need("har")
    tasks = load_tasks("har", positive="sitting", task="subject", target="activity")
    assert tasks.classes.tolist() == [0, 1] and tasks.y.sum() == 1777
    train, test = split_rows(tasks, 0.7, seed=0, group="run")
    for i in range(30):
        assert not set(train.groups["run"][train.rows(i)]) & set(test.groups["run"][test.rows(i)])


def test_columns_of_built_in_data_need_not_be_named_but_must_be_right():
    need("school")
    assert load_tasks("school", task="school", target="score").n_tasks == 139
    with pytest.raises(OptionError, match="the task of the data set 'school' is 'school'"):
        load_tasks("school", task="hospital")


@pytest.mark.parametrize("name", COUNTS)
def test_every_data_set_says_whose_it_is(name):
    said = catalogue.describe(name)
    for key in ("title", "citation", "licence", "publisher", "bounds", "sha256"):
        assert said[key]
    assert len(said["sha256"]) == 64


def test_the_cache_is_looked_at_after_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TASKVEIL_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(EnvironmentMissing, match="taskveil data fetch heart"):
        catalogue.find("heart")
    path = tmp_path / "cache" / "taskveil" / "heart" / "heart.npz"
    path.parent.mkdir(parents=True)
    np.savez(path, X=np.zeros((1, 13)))
    assert catalogue.find("heart") == path
    assert not verify("heart")
    with pytest.raises(DataError, match="lacks the array"):
        load_tasks("heart")


def test_unknown_names_are_suggested():
    with pytest.raises(UnknownName, match="did you mean 'school'"):
        catalogue.find("schol")
