"""TaskSet: grouping, immutability, checks, and the numerical block."""

from itertools import pairwise

import numpy as np
import pytest

from taskveil.errors import DataError, OptionError
from taskveil.tasks import TaskBlock, TaskSet
from taskveil.tasks.block import position_folds
from taskveil.tasks.grouping import factorize, group_rows, sums_by_group, task_chunks
from taskveil.tasks.prepare.labels import infer_kind


def shuffled(seed=0, n=200, m=7, d=3):
    rng = np.random.default_rng(seed)
    X, task = rng.standard_normal((n, d)), rng.integers(0, m, n)
    return X, rng.standard_normal(n), task


def test_rows_are_grouped_in_a_stable_order_and_know_where_they_stood():
    X, y, task = shuffled()
    tasks = TaskSet.from_arrays(X, y, task)
    assert tasks.task_names == tuple(str(t) for t in np.unique(task))
    for i, t in enumerate(np.unique(task)):
        at = np.flatnonzero(task == t)
        np.testing.assert_array_equal(tasks[i].row_index, at)
        np.testing.assert_array_equal(tasks[i].X, X[at])
        np.testing.assert_array_equal(tasks[str(t)].y, y[at])
    np.testing.assert_array_equal(tasks.task_of_row(), np.sort(task))


def test_grouped_rows_are_not_copied():
    X, y, task = shuffled()
    order = np.argsort(task, kind="stable")
    X, y, task = np.ascontiguousarray(X[order]), y[order], task[order]
    tasks = TaskSet.from_arrays(X, y, task)
    assert np.shares_memory(tasks.X, X)
    assert X.flags.writeable, "the caller's array stays writeable"
    assert np.shares_memory(TaskBlock.from_tasks(tasks).X, X)


def test_a_task_set_cannot_be_changed():
    tasks = TaskSet.from_arrays(*shuffled())
    for array in (tasks.X, tasks.y, tasks.offsets, tasks.row_index, tasks.sizes, tasks[0].X):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        tasks.kind = "classification"


def test_selecting_rows_keeps_empty_tasks_in_place():
    tasks = TaskSet.from_arrays(*shuffled())
    mask = tasks.task_of_row() != 2
    part = tasks.select(mask)
    assert part.n_tasks == tasks.n_tasks
    assert part.sizes[2] == 0
    assert part.n_rows == mask.sum()
    np.testing.assert_array_equal(part.row_index, tasks.row_index[mask])
    np.testing.assert_array_equal(part[3].X, tasks[3].X)


def test_taking_tasks_reorders_them():
    tasks = TaskSet.from_arrays(*shuffled())
    part = tasks.take_tasks([4, 1])
    assert part.task_names == (tasks.task_names[4], tasks.task_names[1])
    np.testing.assert_array_equal(part[1].y, tasks[1].y)


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        ([3, 1, 3], ("1", "3")),
        ([10.0, 9.0, 10.0], ("9", "10")),
        (["b", "a", "b"], ("a", "b")),
        (np.array([10, 9, 10], dtype=object), ("9", "10")),
        (np.array(["y", "x", "y"], dtype=object), ("x", "y")),
        (np.array([True, False, True]), ("False", "True")),
        (np.array([b"v", b"u", b"v"]), ("u", "v")),
    ],
)
def test_identifiers_of_any_type_become_sorted_names(ids, names):
    codes, found = factorize(ids)
    assert found == names
    assert [found[c] for c in codes] == [names[1], names[0], names[1]]


def test_the_same_identifier_as_number_and_as_text_is_one_task():
    codes, names = factorize(np.array([3, "3", 4], dtype=object))
    assert names == ("3", "4")
    assert codes.tolist() == [0, 0, 1]


@pytest.mark.parametrize("ids", [[1.0, np.nan], np.array(["a", None], dtype=object)])
def test_a_missing_task_identifier_is_refused(ids):
    with pytest.raises(DataError, match="missing values"):
        factorize(ids)


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.array(["a", "b"]), "classification"),
        (np.array([True, False]), "classification"),
        (np.arange(30) % 3, "regression"),
        (np.arange(30), "regression"),
        (np.arange(30) % 2 * 1.0, "regression"),
        (np.linspace(0, 1, 7), "regression"),
        (np.arange(30.0), "regression"),
    ],
)
def test_the_kind_of_target_follows_its_type_not_its_values(y, kind):
    assert infer_kind(y) == kind


def test_sums_by_group_skip_empty_groups_at_both_ends_and_inside():
    offsets = np.array([0, 0, 2, 2, 5, 5])
    values = np.arange(10.0).reshape(5, 2)
    expected = np.array([[0, 0], [2, 4], [0, 0], [18, 21], [0, 0]])
    np.testing.assert_array_equal(sums_by_group(values, offsets), expected)
    np.testing.assert_array_equal(sums_by_group(np.zeros((0, 2)), np.zeros(4, dtype=int)), np.zeros((3, 2)))


def test_task_chunks_cover_every_task_once():
    offsets = np.concatenate([[0], np.cumsum([3, 0, 50, 1, 1, 7, 0])])
    chunks = list(task_chunks(offsets, rows=10))
    assert [a for a, _ in chunks[1:]] == [b for _, b in chunks[:-1]]
    assert chunks[0][0] == 0 and chunks[-1][1] == 7


def test_many_groups_need_more_than_sixteen_bits():
    codes = np.arange(40_000)[::-1].copy()
    order, offsets = group_rows(codes, 40_000)
    np.testing.assert_array_equal(codes[order], np.arange(40_000))
    assert offsets[-1] == 40_000


def test_binary_labels_become_minus_and_plus_one_with_the_last_class_positive():
    X = np.zeros((4, 1))
    block = TaskBlock.from_tasks(TaskSet.from_arrays(X, ["no", "yes", "no", "yes"], [0, 0, 1, 1]))
    np.testing.assert_array_equal(block.y[:, 0], [-1, 1, -1, 1])


def test_a_set_with_one_class_only_has_one_constant_column():
    block = TaskBlock.from_tasks(TaskSet.from_arrays(np.zeros((3, 1)), ["a", "a", "a"], [0, 0, 1]))
    np.testing.assert_array_equal(block.y[:, 0], [-1, -1, -1])


def test_more_classes_become_one_column_each():
    tasks = TaskSet.from_arrays(np.zeros((3, 1)), [2, 0, 1], [0, 0, 1], kind="classification")
    block = TaskBlock.from_tasks(tasks)
    np.testing.assert_array_equal(block.y, np.array([[-1, -1, 1], [1, -1, -1], [-1, 1, -1]]))


def test_declared_classes_widen_the_label_set():
    tasks = TaskSet.from_arrays(np.zeros((2, 1)), [0, 1], [0, 0], kind="classification", classes=[0, 1, 2])
    assert TaskBlock.from_tasks(tasks).n_outputs == 3
    with pytest.raises(DataError, match="outside the declared classes"):
        TaskSet.from_arrays(np.zeros((2, 1)), [0, 7], [0, 0], kind="classification", classes=[0, 1])


def test_a_mask_removes_rows_from_means_but_not_from_memory():
    block = TaskBlock.from_tasks(TaskSet.from_arrays(*shuffled()))
    mask = np.arange(block.n_rows) % 3 != 0
    held = block.with_mask(mask)
    assert held.X is block.X
    for i in range(block.n_tasks):
        rows = block.rows(i)
        np.testing.assert_allclose(held.means_by_task(block.X)[i], block.X[rows][mask[rows]].mean(axis=0))
        assert held.counts[i] == mask[rows].sum()
    np.testing.assert_array_equal(held.with_mask(~mask).counts, 0)
    np.testing.assert_array_equal(held.with_mask(~mask).means_by_task(block.X), 0)


def test_scores_use_each_row_s_own_model():
    block = TaskBlock.from_tasks(TaskSet.from_arrays(*shuffled()))
    rng = np.random.default_rng(1)
    W, b = rng.standard_normal((block.n_tasks, 2, 3)), rng.standard_normal((block.n_tasks, 2))
    expected = np.concatenate([block.X[block.rows(i)] @ W[i].T + b[i] for i in range(block.n_tasks)])
    np.testing.assert_allclose(block.scores(W, b), expected)


def test_a_range_of_tasks_is_a_view_and_any_choice_is_right():
    block = TaskBlock.from_tasks(TaskSet.from_arrays(*shuffled()))
    assert np.shares_memory(block.take(slice(1, 4)).X, block.X)
    picked = block.take([5, 0])
    np.testing.assert_array_equal(picked.X[picked.rows(0)], block.X[block.rows(5)])
    np.testing.assert_array_equal(picked.y[picked.rows(1)], block.y[block.rows(0)])
    assert block.take([]).n_tasks == 0


def test_folds_are_balanced_and_differ_between_seeds():
    offsets = np.array([0, 7, 7, 20, 21])
    fold = position_folds(offsets, 3, seed=1)
    for a, b in pairwise(offsets):
        counts = np.bincount(fold[a:b], minlength=3)
        assert counts.max() - counts.min() <= 1
    assert (position_folds(offsets, 3, seed=2) != fold).any()
    np.testing.assert_array_equal(position_folds(offsets, 3, seed=1), fold)


def test_a_task_gets_the_same_folds_alone_and_in_a_block():
    offsets = np.array([0, 9, 14, 30])
    together = position_folds(offsets, 4, seed=5)
    for i in range(3):
        alone = position_folds(np.array([0, offsets[i + 1] - offsets[i]]), 4, seed=5)
        np.testing.assert_array_equal(alone, together[offsets[i] : offsets[i + 1]])


def test_fewer_than_two_folds_are_refused():
    with pytest.raises(OptionError, match="at least 2"):
        position_folds(np.array([0, 3]), 1, seed=0)


def test_narrow_numbers_stay_narrow():
    X = np.arange(12, dtype=np.uint8).reshape(6, 2)
    tasks = TaskSet.from_arrays(X, np.zeros(6), [0, 0, 0, 1, 1, 1], kind="regression")
    assert tasks.X.dtype == np.float32
    assert TaskSet.from_arrays(X.astype(int), np.zeros(6), [0] * 6, kind="regression").X.dtype == np.float64


def test_the_printed_form_names_no_private_count():
    text = repr(TaskSet.from_arrays(*shuffled(n=12_345)))
    assert "12" not in text and "345" not in text


def test_values_out_of_reach_are_cut_off_one_by_one_and_others_are_not_touched():
    """Eighth powers must stay numbers; a cell is cut by public numbers alone."""
    from taskveil.tasks.block import REACH, within_reach

    plain = np.array([[1.0, -2.0], [0.0, 3e-29]])
    assert within_reach(plain) is plain
    cut = within_reach(np.array([[1e149, -2.0], [1e-160, -1e40]]))
    np.testing.assert_array_equal(cut, [[REACH, -2.0], [0.0, -REACH]])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_a_task_with_an_infinite_or_missing_value_is_set_aside_in_any_precision(dtype, value):
    X, y = np.ones((6, 2), dtype=dtype), np.arange(6.0)
    X[4, 1] = value
    tasks = TaskSet.from_arrays(X, y, np.repeat(["a", "b", "c"], 2), unusable="set-aside")
    assert tasks.set_aside == ("c",)


@pytest.mark.parametrize("value", [1e151, -np.inf, np.nan])
def test_a_task_with_a_target_that_cannot_be_used_is_set_aside(value):
    y = np.where(np.arange(6) == 4, value, 1.5)
    tasks = TaskSet.from_arrays(np.ones((6, 2)), y, np.repeat(["a", "b", "c"], 2), unusable="set-aside", kind="regression")
    assert tasks.set_aside == ("c",) and tasks.y.tolist() == [1.5] * 4


def test_a_task_with_a_missing_label_is_set_aside_and_one_of_nothing_else_is_refused():
    X, task = np.arange(8.0).reshape(4, 2), ["s", "s", "t", "t"]

    def tasks(*labels):
        return TaskSet.from_arrays(X, np.array(labels, dtype=object), task, kind="classification", unusable="set-aside")

    kept = tasks("a", "b", None, "a")
    assert kept.sizes.tolist() == [2, 0] and kept.set_aside == ("t",) and kept.y.tolist() == ["a", "b"]
    with pytest.raises(DataError, match="missing labels"):
        tasks("a", None, None, "a")
