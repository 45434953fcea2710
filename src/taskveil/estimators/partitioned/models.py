"""The personal models of a run, wherever their partitions are: on workers, or in files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.errors import EnvironmentMissing
from taskveil.estimators.partitioned import worker
from taskveil.runtime.dask.cluster import gathered, submit
from taskveil.tasks.prepare.scaling import ARRAYS


@dataclass(frozen=True)
class PartFile:
    """A partition in a file."""

    url: str
    n_outputs: int
    names: tuple[str, ...]
    sha256: str

    def read(self) -> worker.Part:
        """The partition's models; a file that is not as it was saved is refused."""
        return worker.read_part(self.url, self.n_outputs, self.names, self.sha256)


@dataclass(frozen=True, eq=False)
class PartitionedModels:
    """Partition k holds the models of tasks cuts[k] to cuts[k + 1]; `parts` are futures of a client, or files."""

    parts: Sequence[Any]
    cuts: np.ndarray
    shape: tuple[int, int, int]  # tasks, outputs, features
    client: Any = None

    def on_part(self, work: Callable[..., Any], k: int, *more: Any) -> Any:
        """work(part k, *more), done where the part is."""
        part = self.parts[k]
        if isinstance(part, PartFile):
            return work(part.read(), *more)
        (result,) = gathered(self.client, [submit(self.client, work, part, *more)])
        return result

    def take(self, position: np.ndarray) -> tuple[worker.Part, np.ndarray]:
        """The models of the tasks at these positions (any order, repeated), and each position's place among them."""
        wanted, place = np.unique(position, return_inverse=True)
        owner = np.searchsorted(self.cuts, wanted, side="right") - 1
        parts = [self.on_part(worker.take, int(k), wanted[owner == k] - self.cuts[k]) for k in np.unique(owner)]
        return _joined(parts), place

    def lazy(self, read: Callable[[worker.Part], np.ndarray], shape: tuple[int, ...]) -> Any:
        """An array over all tasks as a dask array: `read` of every part."""
        try:
            import dask
            import dask.array as da
        except ImportError:
            raise EnvironmentMissing("models in partitions need the extra 'dask': pip install 'taskveil[dask]'") from None
        arrays = []
        for k, part in enumerate(self.parts):
            value = dask.delayed(_read)(part, read)
            arrays.append(da.from_delayed(value, (int(self.cuts[k + 1] - self.cuts[k]), *shape), float))
        return da.concatenate(arrays)


def lazy_frame(client: Any, frames: list[Any]) -> Any:
    """Futures of frames as one lazy frame."""
    import dask
    import dask.dataframe as dd

    (meta,) = gathered(client, [submit(client, _head, frames[0])])
    return dd.from_delayed([dask.delayed(f) for f in frames], meta=meta)


def _head(frame: Any) -> Any:
    return frame.iloc[:0]


def _read(part: Any, read: Callable[[worker.Part], np.ndarray]) -> np.ndarray:
    if isinstance(part, PartFile):
        part = part.read()
    return read(part if isinstance(part, worker.Part) else part.result())  # a future, where another scheduler computes


def _joined(parts: list[worker.Part]) -> worker.Part:
    """Parts one after the other."""
    from dataclasses import replace

    if len(parts) == 1:
        return parts[0]
    models = [p.models for p in parts]
    coef, intercept = (np.concatenate([getattr(m, n) for m in models]) for n in ("coef", "intercept"))
    extra = {name: np.concatenate([m.extra[name] for m in models]) for name in models[0].extra}
    whole = replace(models[0], coef=coef, intercept=intercept, kept=None, extra=extra)
    arrays: dict[str, Any] = {n: np.concatenate([p.scaling.arrays[n] for p in parts]) for n in ARRAYS}
    return worker.Part(whole, replace(parts[0].scaling, **arrays))
