"""The PMTL experiment: its data, its readers of data that are not here, and what its numbers rest on."""

from __future__ import annotations

import json

import numpy as np
import pytest
from experiments.hu_2023 import ITEMS, originals, settings

from taskveil.errors import DataError

pytest.importorskip("jax")

from experiments.hu_2023 import data, items, runs


def test_every_figure_and_table_with_results_is_listed():
    assert set(ITEMS) == {f"fig{n}" for n in range(1, 9)} | {"table1", "table3"}
    assert all(hasattr(items, where.split(":")[1]) for where in ITEMS.values())


# ------------------------------------------------------- data that are not here


def write_celeba(folder):
    (folder / "identity_CelebA.txt").write_text("a.jpg 7\nb.jpg 12\nc.jpg 7\nd.jpg 3\n")
    (folder / "list_attr_celeba.txt").write_text(
        "4\nBald Smiling\na.jpg -1 1\nb.jpg -1 -1\nc.jpg 1 -1\nd.jpg -1 1\n"
    )
    return lambda path: np.full((60, 56, 3), 51 * ("abcd".index(path.name[0]) + 1), np.uint8)


def test_celeba_makes_one_task_per_person(tmp_path):
    tasks = originals.celeba(tmp_path, side=28, read_image=write_celeba(tmp_path))
    assert tasks.n_tasks == 3 and tasks.n_features == 784 and sorted(tasks.sizes) == [1, 1, 2]
    assert sorted({round(float(row.mean()), 2) for row in np.asarray(tasks.X)}) == [0.2, 0.4, 0.6, 0.8]
    fewer = originals.celeba(tmp_path, side=28, people=1, read_image=write_celeba(tmp_path))
    assert fewer.n_tasks == 1


def test_celeba_names_what_is_missing(tmp_path):
    with pytest.raises(DataError, match="identity_CelebA"):
        originals.celeba(tmp_path)
    read = write_celeba(tmp_path)
    with pytest.raises(DataError, match="Young"):
        originals.celeba(tmp_path, attribute="Young", read_image=read)
    with pytest.raises(DataError, match="smaller"):
        originals.shrunk(np.zeros((8, 8)), 28)


def test_stackoverflow_uses_public_words_and_tags_only(tmp_path):
    posts = [
        {"user": 1, "tokens": "how to sort a list list", "tags": "python|sorting"},
        {"user": 1, "tokens": "segfault in loop", "tags": "assembly"},
        {"user": 2, "tokens": "null pointer", "tags": "c|java"},
    ]
    file = tmp_path / "posts.jsonl"
    file.write_text("\n".join(json.dumps(p) for p in posts))
    tasks = originals.stackoverflow(file, words=["list", "sort", "pointer"], tags=["python", "c", "java"])
    assert tasks.n_tasks == 2 and tasks.n_rows == 2  # the row without a known tag is left out
    np.testing.assert_allclose(np.asarray(tasks.X)[0], np.array([2, 1, 0]) / np.sqrt(5), rtol=1e-6)
    assert originals.stackoverflow(file, ["list"], ["python", "c"], users=1).n_tasks == 1
    with pytest.raises(DataError, match="no row"):
        originals.stackoverflow(file, ["list"], ["haskell"])


# ---------------------------------------------------------------- our stand-in


def test_the_synthetic_tags_are_split_inside_every_user_and_the_same_each_time():
    block, (X, y, user) = data.tags(3, users=40)
    again, _ = data.tags(3, users=40)
    np.testing.assert_array_equal(block.X, again.X)
    share = block.sizes / (block.sizes + np.bincount(user, minlength=40))
    assert (np.abs(share - 0.7) < 0.05).all() and set(y) <= set(range(data.TAGS))
    assert np.linalg.norm(X, axis=1).max() <= 1 + 1e-6


def test_a_quick_world_is_a_part_of_the_whole_one():
    whole, part = (data.world("tags", 1, quick) for quick in (False, True))
    assert part.public.n_tasks == data.QUICK_TASKS > runs.PAPER_COHORT, "the paper's cohorts must stay a sample"
    assert part.block.sizes.max() <= data.QUICK_ROWS
    np.testing.assert_array_equal(part.block.X[: part.block.sizes[0]], whole.block.X[: part.block.sizes[0]])


def test_the_true_epsilon_of_the_printed_noise_is_larger():
    """Poisson accounting at rate 100/130 and 100/400; a task that is known to take part pays the plain Gaussian."""
    ratios = []
    for quick in (True, False):
        place = data.world("tags", 0, quick)
        plan = runs.plan_of_noise(place, 50, sigma=0.05, gamma=0.5, rounds=20, variant="paper")
        ratios.append(runs.true_epsilon(plan) / plan.epsilon())
    assert 1.1 < ratios[0] < ratios[1], "the smaller the sampling rate, the more the claim leaves out"


def test_committed_results_hold_every_cell_of_the_table():
    rows = items.results()
    for name, about in settings.DATA.items():
        for method in settings.METHODS:
            for epsilon in settings.EPSILONS:
                found = {r["seed"]: r for r in rows if (r["data"], r["method"], r["epsilon"]) == (name, method, epsilon)}
                assert set(found) == set(about["seeds"])
                assert epsilon is None or all(r["certified"] <= epsilon for r in found.values())
