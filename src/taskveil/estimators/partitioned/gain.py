"""What sharing brought tasks whose rows are on a cluster: each partition measures and keeps its own, the driver counts.

parts/gain-00000.parquet   errors alone and shared of a partition's tasks, a row each; written where the rows are
summary                    how many tasks gain, and how much: statistics of everybody's rows
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from taskveil.errors import DataError
from taskveil.estimators.gain import MEASURES
from taskveil.estimators.partitioned import worker
from taskveil.estimators.partitioned.models import PartFile, lazy_frame
from taskveil.runtime.dask.cluster import gathered, submit
from taskveil.runtime.dask.partitions import names_array
from taskveil.tasks.lazy.places import everywhere

BELOW_ZERO = math.nextafter(0.0, -1.0)
STEPS = (  # above the first, up to the second: change of a task's error by sharing
    ("more than 50 % lower", -math.inf, -0.5), ("25 to 50 % lower", -0.5, -0.25), ("10 to 25 % lower", -0.25, -0.1),
    ("up to 10 % lower", -0.1, BELOW_ZERO), ("as alone", BELOW_ZERO, 0.0), ("up to 10 % higher", 0.0, 0.1),
    ("more than 10 % higher", 0.1, math.inf),
)  # fmt: skip


def measured(estimator: Any) -> list[Any]:
    """A frame for each partition, made where its rows are; asked for once."""
    client, owns, common, boards, firsts, tasks, frames = estimator._lazy
    each = enumerate(zip(owns, estimator.models_.parts, firsts, strict=True))
    frames[:] = frames or [
        submit(
            client, worker.gain, own, part, common, boards, first, names_array(tasks.task_names, range(first, tasks.cuts[k + 1]))
        )
        for k, (own, part, first) in each
    ]
    return list(frames)


def gain_frame(estimator: Any) -> Any:
    """Per task."""
    return lazy_frame(estimator.models_.client, measured(estimator))


def write_gain(estimator: Any, place: str) -> dict[str, Any]:
    """Every partition's figures beside its models; returns what a page for all needs: the metric and the summary."""
    client, place = estimator.models_.client, everywhere(place)
    written = [submit(client, _written, f, gain_url(place, k)) for k, f in enumerate(measured(estimator))]
    estimator._gain_summary = summarised(gathered(client, written))
    return {"metric": MEASURES[estimator.record_.public.loss][0], "summary": estimator._gain_summary}


def summarised(parts: list[tuple[np.ndarray, int]]) -> dict[str, Any]:
    """Counts and the median, of the changes in each partition and how many of its tasks keep the shared model."""
    change = np.concatenate([c for c, _ in parts])
    counts = {name: int(((change > low) & (change <= high)).sum()) for name, low, high in STEPS}
    return {
        "tasks": len(change), "kept": sum(kept for _, kept in parts), "gaining": int((change < 0).sum()),
        "median_change": float(np.median(change)), "counts": counts,
    }  # fmt: skip


def own_figures(models: Any, names: tuple[str, ...], name: str) -> dict[str, Any]:
    """The figures of one task, out of its partition alone; KeyError where none were kept."""
    import fsspec
    import pyarrow as pa
    import pyarrow.parquet as pq

    if name not in names:
        raise KeyError(name)
    k = int(np.searchsorted(models.cuts, names.index(name), side="right") - 1)
    part = models.parts[k]
    url = gain_url(part.url.rsplit("/parts/", 1)[0], k) if isinstance(part, PartFile) else ""
    try:
        with fsspec.open(url, "rb") as file:
            rows = pq.read_table(io.BytesIO(file.read()), filters=[("task", "=", name)]).to_pylist()
    except FileNotFoundError:
        raise KeyError(name) from None
    except (OSError, pa.ArrowException):
        raise DataError(f"{url.rsplit('/', 1)[-1]} is damaged; take it away, or fit again") from None
    if len(rows) != 1:
        raise KeyError(name)
    return {entry: value for entry, value in rows[0].items() if entry not in ("task", "change_percent")}


def gain_url(place: str, k: int) -> str:
    """Where the gains of partition `k` stand in a saved folder."""
    return f"{place.rstrip('/')}/parts/gain-{k:05d}.parquet"


def _written(frame: Any, url: str) -> tuple[np.ndarray, int]:
    """Write a partition's figures; returns the change of every task's error (0 where it learns alone), and how many share."""
    buffer = io.BytesIO()
    frame.reset_index().to_parquet(buffer, index=False)
    worker.put(url, buffer.getvalue())
    alone, shared, kept = frame.error_alone.to_numpy(), frame.error_shared.to_numpy(), (frame.kept == "shared").to_numpy()
    counted = kept & (alone > 0.0) & np.isfinite(shared)
    return np.where(counted, shared / np.where(counted, alone, 1.0) - 1.0, 0.0), int(kept.sum())
