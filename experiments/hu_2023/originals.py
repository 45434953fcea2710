"""Readers of the two data sets of the paper that are not shipped here: CelebA and StackOverflow.

Both are large and have terms of their own; whoever has the files can run the items on them. The tests run the readers on a
few made rows in the published formats.

    celeba          identity_CelebA.txt (image, person), list_attr_celeba.txt (attributes, -1/1), a folder of images
    stackoverflow   one JSON object per line: {"user": ..., "tokens": "words and words", "tags": "tag|tag"}

Vocabulary and tags must be public: a list fixed beforehand, never counted on the users' own rows. Words outside it are
dropped, rows without a known tag are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import DataError, EnvironmentMissing
from taskveil.tasks.task import TaskSet


def celeba(
    folder: Path, attribute: str = "Smiling", side: int = 28, people: int | None = None,
    read_image: Callable[[Path], np.ndarray] | None = None,
) -> TaskSet:  # fmt: skip
    """One task per person, grey images of side x side in [0, 1], one binary attribute."""
    of_image = dict(line.split() for line in _lines(folder / "identity_CelebA.txt"))
    labels = _attribute(folder / "list_attr_celeba.txt", attribute)
    read = read_image or _with_pillow
    names = [name for name in of_image if name in labels]
    persons = sorted({of_image[n] for n in names}, key=int)[:people]
    kept = [n for n in names if of_image[n] in set(persons)]
    if not kept:
        raise DataError(f"no image of {folder.name} has both a person and the attribute {attribute!r}")
    X = np.stack([shrunk(read(folder / "img_align_celeba" / n), side).ravel() for n in kept])
    y = np.where(np.array([labels[n] for n in kept]) > 0, "yes", "no")
    return TaskSet.from_arrays(X, y, np.array([of_image[n] for n in kept]), kind="classification")


def _attribute(path: Path, attribute: str) -> dict[str, int]:
    """Image -> -1 or 1. The file opens with a count and a line of attribute names."""
    _, header, *rows = _lines(path)
    known = header.split()
    if attribute not in known:
        raise DataError(f"{path.name} has no attribute {attribute!r}; it has {', '.join(known[:8])} ...")
    column = known.index(attribute) + 1
    return {cells[0]: int(cells[column]) for cells in (row.split() for row in rows)}


def shrunk(image: np.ndarray, side: int) -> np.ndarray:
    """Grey mean of equal blocks, cut to a square from the middle; values of 0 to 255 become [0, 1]."""
    grey = np.asarray(image, dtype=np.float32)
    grey = grey.mean(axis=2) if grey.ndim == 3 else grey
    block = min(grey.shape) // side
    if block == 0:
        raise DataError(f"an image of {grey.shape[0]} x {grey.shape[1]} pixels is smaller than {side} x {side}")
    top, left = ((n - block * side) // 2 for n in grey.shape)
    square = grey[top : top + block * side, left : left + block * side]
    return square.reshape(side, block, side, block).mean(axis=(1, 3)) / 255


def _with_pillow(path: Path) -> np.ndarray:
    try:
        from PIL import Image
    except ImportError as error:
        raise EnvironmentMissing("reading JPEG files needs Pillow: pip install pillow, or pass read_image") from error
    with Image.open(path) as image:
        return np.asarray(image)


def stackoverflow(path: Path, words: Sequence[str], tags: Sequence[str], users: int | None = None) -> TaskSet:
    """One task per user, rows of length one over a public vocabulary, the first known tag as the class."""
    place, classes = {w: j for j, w in enumerate(words)}, set(tags)
    rows, labels, owners = [], [], []
    order: dict[Any, None] = {}
    for post in (json.loads(line) for line in _lines(path)):
        known = [t for t in str(post["tags"]).split("|") if t in classes]
        if not known or (users is not None and post["user"] not in order and len(order) >= users):
            continue
        order[post["user"]] = None
        rows.append(_bag(str(post["tokens"]).split(), place))
        labels.append(known[0])
        owners.append(str(post["user"]))
    if not rows:
        raise DataError(f"{path.name} has no row with one of the {len(classes)} tags")
    return TaskSet.from_arrays(np.stack(rows), np.array(labels), np.array(owners), kind="classification")


def _bag(tokens: Iterable[str], place: dict[str, int]) -> np.ndarray:
    row = np.zeros(len(place), np.float32)
    for token in tokens:
        if token in place:
            row[place[token]] += 1
    return row / max(float(np.linalg.norm(row)), 1.0)


def _lines(path: Path) -> list[str]:
    if not path.exists():
        raise DataError(f"{path.name} is not there; see the reader's description for the files it expects")
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
