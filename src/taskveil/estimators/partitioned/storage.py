"""Saved models in partitions, at any address fsspec reaches.

    model/
      model.json, arrays.npz, certificate.json   as always (estimators/storage.py); arrays.npz holds billboards only
      parts/part-00000.parquet                   models and units of a partition's tasks, a row each

model.json lists the hash of every part, so the seal over the three files covers the parts too. Workers write their own parts.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import DataError, EnvironmentMissing
from taskveil.estimators.partitioned import worker
from taskveil.estimators.partitioned.models import PartFile, PartitionedModels
from taskveil.faults import point
from taskveil.runtime.dask.cluster import gathered, submit
from taskveil.runtime.dask.partitions import names_array
from taskveil.tasks.lazy.places import everywhere, file_system, last_name, without_secrets

FILES = ("model.json", "arrays.npz", "certificate.json")


def is_remote(place: str | Path) -> bool:
    """Whether this is an address rather than a folder."""
    return "://" in str(place)


def part_url(place: str, k: int) -> str:
    """Where the models of partition `k` stand in a saved folder."""
    return f"{place.rstrip('/')}/parts/part-{k:05d}.parquet"


def save(estimator: Any, place: str, files: Callable[[list[dict[str, Any]] | None], dict[str, bytes]]) -> str:
    """Write a fitted estimator to a folder or an address; parts first, and model.json, which names them, last.

    `files`: the contents of the three files, given the parts.
    """
    asked, place = place, everywhere(place)  # workers write, and work in other folders
    fs, root = file_system(place)
    models, parts = estimator.models_, None
    if isinstance(models, PartitionedModels):
        fs.makedirs(f"{root}/parts", exist_ok=True)
        parts = _write_parts(models, estimator.task_names_, place)
        _check_written(fs, root, len(parts), place)
        point("parts.written")
    else:
        fs.makedirs(root, exist_ok=True)
    for name, content in files(parts).items():
        worker.put(f"{place.rstrip('/')}/{name}", content)
    return asked


def _check_written(fs: Any, root: str, n_parts: int, place: str) -> None:
    """All parts are here, not on disks of other machines; what older runs and killed writers left beside them goes."""
    fs.invalidate_cache()
    there = {path.rsplit("/", 1)[-1]: path for path in fs.find(f"{root}/parts")}
    parts = {last_name(part_url(place, k)) for k in range(n_parts)}
    if not parts <= set(there):
        raise EnvironmentMissing(worker.ELSEWHERE.format(place=without_secrets(place)))
    for name, path in there.items():
        if name not in parts and name.startswith((".", "gain-", "part-")):
            fs.rm_file(path)


def _write_parts(models: PartitionedModels, names: tuple[str, ...], place: str) -> list[dict[str, Any]]:
    written = []
    for k, part in enumerate(models.parts):
        own, url = names_array(names, range(models.cuts[k], models.cuts[k + 1])), part_url(place, k)
        if isinstance(part, PartFile):
            written.append(worker.write_part(part.read(), own, url))
        else:
            written.append(submit(models.client, worker.write_part, part, own, url))
    hashes = written if models.client is None else gathered(models.client, written)
    sizes = np.diff(models.cuts)
    return [{"tasks": int(n), "sha256": sha} for n, sha in zip(sizes, hashes, strict=True)]


def saved_models(about: Mapping[str, Any], place: str) -> PartitionedModels:
    """The models of a saved run; files are read when they are needed."""
    cuts = np.concatenate([[0], np.cumsum([part["tasks"] for part in about["parts"]])])
    names, sizes, place = tuple(about["task_names"]), about["public"], everywhere(place)
    files = [
        PartFile(part_url(place, k), sizes["n_outputs"], names[cuts[k] : cuts[k + 1]], part["sha256"])
        for k, part in enumerate(about["parts"])
    ]
    return PartitionedModels(files, cuts, (len(names), sizes["n_outputs"], sizes["n_features"]))


def changed_parts(folder: Path, about: Mapping[str, Any]) -> list[str]:
    """Parts that are not those model.json lists; empty where all are."""
    changed = []
    for k, part in enumerate(about.get("parts", ())):
        file = Path(part_url(str(folder), k))
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != part["sha256"]:
            changed.append(f"{file.name} is not the part of the model that was saved")
    return changed


@contextmanager
def local_copy(place: str) -> Iterator[Path]:
    """The three small files of a saved model at an address, in a folder."""
    fs, root = file_system(place)
    with tempfile.TemporaryDirectory() as folder:
        for name in FILES:
            try:
                (Path(folder) / name).write_bytes(fs.cat_file(f"{root}/{name}"))
            except OSError:
                raise DataError(f"{without_secrets(place)} is not a saved model: {name} is missing") from None
        yield Path(folder)
