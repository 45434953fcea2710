"""Loaders for two public client data sets of the PMTL paper that do not come with us: CelebA and StackOverflow.

CelebA          LEAF's form (Caldas et al. 2018): json files with `users` and `user_data[user] = {"x": file names, "y": labels}`,
                and a folder of images. A client is one celebrity; the label says whether the person smiles.
StackOverflow   one json object per line with `user`, `tokens`, `tags` ("python|numpy") and optionally `title`, as TensorFlow
                Federated's tables hold them. A client is one user; features are the shares of words of a declared vocabulary, the
                label is the first of the question's tags that is on a declared list.

Vocabulary and tag list are public and declared, never counted from the rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import DataError, EnvironmentMissing
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import TaskSet

__all__ = ["load_celeba", "load_stackoverflow"]

WORD = re.compile(r"[a-z0-9_+#.'-]+")


def load_celeba(
    labels: str | Path | Iterable[str | Path],
    images: str | Path,
    *,
    min_rows: int = 5,
    read_image: Callable[[Path], np.ndarray] | None = None,
) -> TaskSet:
    """Clients of CelebA in LEAF's form; clients with fewer than `min_rows` images are left out, as LEAF does.

    `read_image` turns a file into an array with values in 0..255; by default Pillow does, if it is installed.
    """
    read, folder = read_image or _pillow, Path(images)
    rows: list[np.ndarray] = []
    y: list[int] = []
    task: list[int] = []
    names: list[str] = []
    for user, data in _users(labels):
        if len(data["x"]) != len(data["y"]):
            raise DataError(f"client {user!r} has {len(data['x'])} images and {len(data['y'])} labels.")
        if len(data["x"]) < min_rows:
            continue
        for file in data["x"]:
            if Path(file).name != file:
                raise DataError(f"{file!r} is no plain file name; images must lie directly in the folder.")
            rows.append(np.asarray(read(folder / file), dtype=np.float32).ravel())
        y += [int(v) for v in data["y"]]
        task += [len(names)] * len(data["y"])
        names.append(user)
    if not rows:
        raise DataError(f"no client has at least {min_rows} images.")
    sizes = {r.size for r in rows}
    if len(sizes) > 1:
        raise DataError(f"images differ in size ({min(sizes)} to {max(sizes)} values); scale them first.")
    bounds = PublicBounds(features={"*": (0.0, 255.0)}, classes=(0, 1))
    return TaskSet.from_arrays(
        np.stack(rows), np.asarray(y), np.asarray(task), task_names=names, kind="classification", classes=[0, 1],
        target_name="smiling", bounds=bounds,
    )  # fmt: skip


def _users(labels: str | Path | Iterable[str | Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(user, data) over all files, in their order; a user must not come twice."""
    files = [labels] if isinstance(labels, (str, Path)) else list(labels)
    seen: set[str] = set()
    for file in files:
        try:
            document = json.loads(Path(file).read_text())
            users = [(str(u), document["user_data"][u]) for u in document["users"]]
        except (ValueError, KeyError, TypeError) as problem:
            raise DataError(f"{Path(file).name} is not in LEAF's form (users, user_data): {problem}.") from problem
        for user, data in users:
            if user in seen:
                raise DataError(f"client {user!r} comes twice.")
            seen.add(user)
            yield user, data


def _pillow(path: Path) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as problem:
        raise EnvironmentMissing("reading images needs Pillow (pip install pillow), or give read_image=...") from problem
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def load_stackoverflow(
    questions: str | Path, vocabulary: Sequence[str], tags: Sequence[str], *, min_rows: int = 1, max_rows: int | None = None
) -> TaskSet:
    """Tag prediction by user: shares of vocabulary words; the label is the first listed tag, questions without one are out."""
    place, known = {w.lower(): j for j, w in enumerate(vocabulary)}, {t: i for i, t in enumerate(tags)}
    if len(place) != len(vocabulary) or len(known) != len(tags):
        raise DataError("the vocabulary and the list of tags must name every entry once.")
    by_user: dict[str, list[tuple[np.ndarray, str]]] = {}
    for number, line in enumerate(Path(questions).read_text().splitlines(), start=1):
        if not line.strip():
            continue
        user, words, given = _question(line, number)
        label = next((t for t in given if t in known), None)
        if label is not None:
            by_user.setdefault(user, []).append((_shares(words, place), label))
    kept = {u: rows[:max_rows] for u, rows in by_user.items() if len(rows) >= min_rows}
    if not kept:
        raise DataError(f"no user has at least {min_rows} questions with a listed tag.")
    task = np.repeat(np.arange(len(kept)), [len(rows) for rows in kept.values()])
    bounds = PublicBounds(features={"*": (0.0, 1.0)}, classes=tuple(tags))
    X, y = zip(*[row for rows in kept.values() for row in rows], strict=True)
    return TaskSet.from_arrays(
        np.stack(X), np.asarray(y), task, task_names=list(kept), feature_names=[str(w) for w in vocabulary],
        kind="classification", classes=list(tags), target_name="tag", bounds=bounds,
    )  # fmt: skip


def _question(line: str, number: int) -> tuple[str, list[str], list[str]]:
    """(user, words, tags) of one line."""
    try:
        question = json.loads(line)
        text = f"{question.get('title', '')} {question['tokens']}"
        return str(question["user"]), WORD.findall(text.lower()), [t for t in str(question["tags"]).split("|") if t]
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise DataError(f"line {number} is no question with user, tokens and tags.") from problem


def _shares(words: list[str], place: dict[str, int]) -> np.ndarray:
    """How much of the text each word of the vocabulary makes up; words outside count in the length only."""
    counts = np.zeros(len(place), dtype=np.float32)
    for word in words:
        if word in place:
            counts[place[word]] += 1
    return counts / max(len(words), 1)
