"""Per-task splits."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import cross_validate

import taskveil as tv
from taskveil.errors import DataError
from taskveil.tasks import TaskSet, k_fold, load_tasks, split_rows


def tasks_of(sizes, **options):
    n = sum(sizes)
    X = np.arange(n, dtype=float)[:, None]
    return TaskSet.from_arrays(X, np.linspace(0, 1, n), np.repeat(np.arange(len(sizes)), sizes), **options)


def test_every_task_is_split_in_the_same_share_and_nothing_is_lost():
    tasks = tasks_of([100, 40, 10])
    train, test = split_rows(tasks, 0.3, seed=1)
    assert train.sizes.tolist() == [30, 12, 3]
    together = np.sort(np.concatenate([train.row_index, test.row_index]))
    np.testing.assert_array_equal(together, np.arange(150))


def test_every_task_keeps_a_training_row():
    train, test = split_rows(tasks_of([1, 2, 3]), 0.1, seed=0)
    assert train.sizes.tolist() == [1, 1, 1] and test.sizes.tolist() == [0, 1, 2]


def test_a_seed_fixes_the_split_and_another_changes_it():
    tasks = tasks_of([50, 50])
    a, b, c = (split_rows(tasks, 0.5, seed=s)[0].row_index for s in (3, 3, 4))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


def test_the_split_does_not_look_at_values():
    tasks = tasks_of([30, 30])
    other = TaskSet.from_arrays(tasks.X * -7, tasks.y[::-1].copy(), tasks.task_of_row())
    np.testing.assert_array_equal(split_rows(tasks, 0.5, 1)[0].row_index, split_rows(other, 0.5, 1)[0].row_index)


def test_groups_stay_together():
    rng = np.random.default_rng(0)
    run = rng.integers(0, 12, 400)
    tasks = tasks_of([150, 150, 100], groups={"run": run})
    train, test = split_rows(tasks, 0.7, seed=2, group="run")
    for i in range(3):
        a, b = (set(part.groups["run"][part.rows(i)]) for part in (train, test))
        assert a and b and not a & b
        assert 0.5 < train.sizes[i] / tasks.sizes[i] < 0.9


def test_a_task_with_one_group_trains_on_it():
    train, test = split_rows(tasks_of([10], groups={"run": np.zeros(10)}), 0.3, seed=0, group="run")
    assert train.n_rows == 10 and test.n_rows == 0


def test_persons_and_plain_arrays_can_be_groups():
    tasks = tasks_of([40], person=np.arange(40) // 4)
    for group in ("person", np.arange(40) // 4):
        train, test = split_rows(tasks, 0.5, seed=0, group=group)
        assert not set(train.person) & set(test.person)


def test_folds_partition_the_rows():
    tasks = tasks_of([11, 7])
    held = [test.row_index for _, test in k_fold(tasks, 4, seed=0)]
    np.testing.assert_array_equal(np.sort(np.concatenate(held)), np.arange(18))
    assert all(train.n_rows + test.n_rows == 18 for train, test in k_fold(tasks, 4, seed=0))


@pytest.mark.parametrize("fraction", [0.3, 0.9])
def test_synthetic_tasks_split_evenly(fraction):
    train, _ = split_rows(load_tasks("synthetic:tiny"), fraction, seed=0)
    assert set(train.sizes) == {round(6 * fraction)}


def test_tasks_reach_a_splitter_by_metadata_routing():
    """`groups=` was asked for, and scikit-learn refused to pass it on."""
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(40, 2)), np.repeat(list("abcd"), 10)
    with sklearn.config_context(enable_metadata_routing=True):
        est = tv.TaskRegressor("local", epsilon=None).set_fit_request(task=True).set_score_request(task=True)
        found = cross_validate(est, X, X[:, 0], cv=tv.TaskKFold(2), params={"task": task, "groups": task})
    assert (found["test_score"] > 0.9).all()


def test_a_splitter_says_what_it_is():
    assert repr(tv.TaskKFold(3, task_column="site")).startswith("TaskKFold(n_splits=3, task_column='site'")


@pytest.mark.parametrize("sizes", [[3, 2, 1], [2, 2, 2], [1, 1, 7], [12, 3, 2, 1, 1]])
def test_no_fold_is_empty_where_tasks_have_fewer_rows_than_folds(sizes):
    task = np.repeat(np.arange(len(sizes)), sizes)
    tests = [test for _, test in tv.TaskKFold(5).split(np.zeros((task.size, 1)), groups=task)]
    several = np.flatnonzero(np.asarray(sizes)[task] > 1)
    assert min(map(len, tests)) >= 1 and max(map(len, tests)) - min(map(len, tests)) <= 1
    assert sorted(np.concatenate(tests).tolist()) == several.tolist()
    for train, _ in tv.TaskKFold(5).split(np.zeros((task.size, 1)), groups=task):
        assert set(task[train]) == set(task)


def test_tables_with_too_few_rows_to_be_split_are_refused():
    X = np.zeros((5, 1))
    with pytest.raises(DataError, match="5 folds need as many rows.*have 3.*fewer splits"):
        list(tv.TaskKFold(5).split(X, groups=[0, 0, 0, 1, 2]))
    with pytest.raises(DataError, match="no task has two rows"):
        list(tv.TaskShuffleSplit(2).split(X, groups=list("abcde")))
