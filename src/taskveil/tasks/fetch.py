"""Fetch a public original, convert it, check it, keep it in the user's cache. Nothing half-done is ever
stored.

Only `taskveil data fetch NAME` calls this; no other command touches the network.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from taskveil.errors import DataError, EnvironmentMissing
from taskveil.tasks import catalogue
from taskveil.tasks.catalogue import DATASETS, Dataset
from taskveil.tasks.files import read_npz
from taskveil.tasks.originals import CONVERTERS, content_digest

LARGEST = 400 * 2**20
"""No original is larger; an answer that is, is not ours."""
Progress = Callable[[str, int, int | None], None]


def fetch(name: str, *, force: bool = False, get: Callable[[str], bytes] | None = None, progress: Progress | None = None) -> Path:
    """The file of a data set in the cache, downloaded when it is not there.

    `get` stands in for the network.
    """
    dataset, path = DATASETS.get(name), catalogue.cache_folder() / name / f"{name}.npz"
    if path.is_file() and not force:
        return path
    reach = get or (lambda url: download(url, progress))
    files = {file: reach(url) for file, url in dataset.urls.items()}
    _store(path, _converted(dataset, files), _about(dataset))
    return path


def verify(name: str) -> bool:
    """Whether the file on this machine is the prepared one, byte for byte, or holds the same arrays."""
    path, dataset = catalogue.find(name), DATASETS.get(name)
    if hashlib.sha256(path.read_bytes()).hexdigest() == dataset.sha256:
        return True
    arrays = read_npz(path)
    return dataset.digest is not None and {"X", "y", "task"} <= set(arrays) and content_digest(arrays) == dataset.digest


def download(url: str, progress: Progress | None = None) -> bytes:
    """The bytes behind an https address; unreachable is an environment error, not a failure of the data."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        raise DataError(f"data sets are fetched over https only, not {parts.scheme!r}.")
    request = urllib.request.Request(url, headers={"User-Agent": "taskveil"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return _read(answer, url, progress)
    except urllib.error.HTTPError as e:
        raise EnvironmentMissing(f"{parts.hostname} answered {e.code} for {parts.path}; the original may have moved.") from None
    except (urllib.error.URLError, OSError) as e:
        reason = getattr(e, "reason", e)
        raise EnvironmentMissing(
            f"cannot reach {parts.hostname} ({reason}). Fetching needs the internet; "
            f"without it set {catalogue.DATA_VARIABLE} to a folder that holds the prepared file."
        ) from None


def _read(answer: object, url: str, progress: Progress | None) -> bytes:
    length = getattr(answer, "headers", {}).get("Content-Length")
    total = int(length) if length and length.isdigit() else None
    parts: list[bytes] = []
    size = 0
    while chunk := answer.read(1 << 16):  # type: ignore[attr-defined]
        parts.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            raise DataError(f"the answer of {urlsplit(url).hostname} is larger than any original; nothing was stored.")
        if progress is not None:
            progress(url, size, total)
    if total is not None and size != total:
        raise EnvironmentMissing(f"the download from {urlsplit(url).hostname} ended early; try again.")
    return b"".join(parts)


def _converted(dataset: Dataset, files: dict[str, bytes]) -> dict[str, np.ndarray]:
    try:
        arrays = CONVERTERS[dataset.name](files)
    except DataError:
        raise
    except Exception as e:  # a changed original can fail in any way; what matters is that nothing is stored
        raise DataError(
            f"the original of {dataset.name!r} is not what it was ({type(e).__name__}); nothing was stored."
        ) from None
    if dataset.digest is not None and content_digest(arrays) != dataset.digest:
        raise DataError(f"the original of {dataset.name!r} does not have the expected checksum; nothing was stored.")
    return arrays


def _store(path: Path, arrays: dict[str, np.ndarray], about: str) -> None:
    """Write beside, then rename: a reader sees the whole file or none."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as f:
                np.savez_compressed(f, allow_pickle=False, **arrays)
            os.replace(beside, path)
        finally:
            Path(beside).unlink(missing_ok=True)
        (path.parent / "SOURCE.txt").write_text(about, encoding="utf-8")
    except OSError as e:
        raise EnvironmentMissing(f"cannot write {path.parent}: {e.strerror or type(e).__name__}.") from None


def _about(d: Dataset) -> str:
    lines = [d.title, f"Cite: {d.citation}", f"Terms: {d.licence}", f"Published by: {d.publisher}"]
    return "\n".join([*lines, *(f"From: {u}" for u in d.urls.values()), ""])
