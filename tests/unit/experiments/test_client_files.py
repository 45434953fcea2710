"""CelebA and StackOverflow are not with us; their loaders work on small made files."""

from __future__ import annotations

import json

import numpy as np
import pytest
from experiments.client_files import load_celeba, load_stackoverflow

from taskveil.errors import DataError, EnvironmentMissing


@pytest.fixture
def celeba(tmp_path):
    rng = np.random.default_rng(0)
    data = {"ann": [f"{i}.npy" for i in range(3)], "bob": ["3.npy"], "cyd": ["4.npy", "5.npy"]}
    for files in data.values():
        for file in files:
            np.save(tmp_path / file, rng.integers(0, 256, (4, 4, 3)))
    labels = {u: {"x": x, "y": [i % 2 for i in range(len(x))]} for u, x in data.items()}
    (tmp_path / "all.json").write_text(json.dumps({"users": list(data), "num_samples": [3, 1, 2], "user_data": labels}))
    return tmp_path


def test_celeba_makes_one_task_per_celebrity_and_leaves_small_ones_out(celeba):
    tasks = load_celeba(celeba / "all.json", celeba, min_rows=2, read_image=np.load)
    assert tasks.task_names == ("ann", "cyd")
    assert tasks.sizes.tolist() == [3, 2]
    assert tasks.X.shape == (5, 48)
    assert list(tasks.classes) == [0, 1]
    assert tasks.y.tolist() == [0, 1, 0, 0, 1]


def test_celeba_refuses_what_does_not_fit(celeba):
    np.save(celeba / "4.npy", np.zeros((2, 2, 3)))
    with pytest.raises(DataError, match="differ in size"):
        load_celeba(celeba / "all.json", celeba, min_rows=2, read_image=np.load)
    with pytest.raises(DataError, match="at least 9 images"):
        load_celeba(celeba / "all.json", celeba, min_rows=9, read_image=np.load)
    with pytest.raises(DataError, match="comes twice"):
        load_celeba([celeba / "all.json"] * 2, celeba, min_rows=9, read_image=np.load)
    (celeba / "bad.json").write_text(json.dumps({"users": ["a"], "user_data": {"a": {"x": ["../secret"], "y": [1]}}}))
    with pytest.raises(DataError, match="plain file name"):
        load_celeba(celeba / "bad.json", celeba, min_rows=1, read_image=np.load)
    (celeba / "bad.json").write_text("{}")
    with pytest.raises(DataError, match="LEAF's form"):
        load_celeba(celeba / "bad.json", celeba)


def test_celeba_without_an_image_library_says_what_to_do(celeba, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    with pytest.raises(EnvironmentMissing, match="Pillow"):
        load_celeba(celeba / "all.json", celeba, min_rows=1)


@pytest.fixture
def questions(tmp_path):
    lines = [
        {"user": "u1", "title": "Sort a list", "tokens": "how to sort a list in python", "tags": "sorting|python"},
        {"user": "u1", "tokens": "numpy array shape", "tags": "numpy|python"},
        {"user": "u2", "tokens": "css grid", "tags": "css"},
        {"user": "u2", "tokens": "unrelated words", "tags": "gardening"},
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


VOCABULARY, TAGS = ["list", "sort", "array", "css"], ["python", "numpy", "css"]


def test_stackoverflow_counts_declared_words_and_takes_the_first_listed_tag(questions):
    tasks = load_stackoverflow(questions, VOCABULARY, TAGS)
    assert tasks.task_names == ("u1", "u2")
    assert tasks.sizes.tolist() == [2, 1], "a question without a listed tag is left out"
    np.testing.assert_allclose(tasks.X[0], [2 / 10, 2 / 10, 0, 0])
    assert [str(tasks.classes[c]) for c in tasks.codes()] == ["python", "numpy", "css"]


def test_stackoverflow_limits_rows_of_a_user_and_drops_small_users(questions):
    assert load_stackoverflow(questions, VOCABULARY, TAGS, max_rows=1).sizes.tolist() == [1, 1]
    assert load_stackoverflow(questions, VOCABULARY, TAGS, min_rows=2).task_names == ("u1",)


def test_stackoverflow_names_the_line_that_cannot_be_read(questions):
    questions.write_text(questions.read_text() + '\n{"user": "u3"}')
    with pytest.raises(DataError, match="line 5"):
        load_stackoverflow(questions, VOCABULARY, TAGS)
    with pytest.raises(DataError, match="once"):
        load_stackoverflow(questions, ["a", "A"], TAGS)
