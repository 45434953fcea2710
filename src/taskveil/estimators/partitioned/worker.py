"""What workers do before the first round and after the last: prepare rows, settle models, measure gain, write, predict."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import DataError, EnvironmentMissing
from taskveil.estimators import common_units
from taskveil.estimators.choice import Evidence, evidence
from taskveil.estimators.gain import Gain, in_target_units, measure_gain
from taskveil.estimators.inputs import class_weights
from taskveil.estimators.metrics import gathered_scores, scores_by_method
from taskveil.methods.base import Billboard, Method, Models
from taskveil.runtime.dask.worker import Common, Held, Own, assemble, at_work, own_part
from taskveil.runtime.run import RunRecord
from taskveil.saved import write_file
from taskveil.tasks.lazy.places import file_system, fsspec, last_name, without_secrets
from taskveil.tasks.lazy.tasks import Reader
from taskveil.tasks.prepare.scaling import Scaling
from taskveil.tasks.prepare.step import PrepareRules, choose_scaling


@dataclass(frozen=True, eq=False)
class Part(Held):
    """The personal models of a partition, in the scaled units methods work in, and the way back."""

    models: Models
    scaling: Scaling

    @property
    def coef(self) -> np.ndarray:
        """In the user's units, (tasks, outputs, features)."""
        return self.scaling.coef_back(self.models.coef, self.models.intercept)[0]

    @property
    def intercept(self) -> np.ndarray:
        """(tasks, outputs), in the units of the table."""
        return self.scaling.coef_back(self.models.coef, self.models.intercept)[1]

    def scores(self, X: np.ndarray, position: np.ndarray, method: Method, run: Any) -> np.ndarray:
        """Scores (rows, outputs) of rows X (N, d) of the tasks at `position` (N,), in the user's units; `run` has the sizes."""
        if not method.linear:
            return scores_by_method(method, run, self.models, self.scaling, X, position)
        coef, intercept = self.scaling.coef_back(self.models.coef, self.models.intercept)
        return gathered_scores(self.scaling.inputs(X, position), coef, intercept, position)


def prepare(reader: Reader, tables: list[Any], rules: PrepareRules, bought: bool, class_weight: Any) -> Own:
    """Rows of a partition in the units they are worked on; `bought`: common units will be released."""
    tasks = assemble(reader, tables)
    weights = None if class_weight is None else class_weights(tasks, class_weight)
    if bought:
        scaling = common_units.outer_scaling(tasks, rules.unit, rules.private, rules.loss)
    elif rules.scaling == "private":
        scaling, _ = common_units.instead(tasks, rules.unit if rules.private else "task", rules.private, rules.loss)
    else:
        scaling = choose_scaling(tasks, rules, weights)
    block = scaling.apply(tasks)
    block = block if weights is None else replace(block, weights=weights)
    return Own(block, _packed(scaling), tasks.set_aside)


def _packed(scaling: Scaling) -> Scaling:
    """Without copies of what is the same for all tasks."""
    same = scaling.shift.strides[0] == 0 and len(scaling.shift) > 0
    return replace(scaling, shift=scaling.shift[:1].copy(), scale=scaling.scale[:1].copy()) if same else scaling


def unpacked(scaling: Scaling, n_tasks: int) -> Scaling:
    """The scaling with a row of its own for each task."""
    shape = n_tasks, scaling.shift.shape[1]
    return replace(scaling, shift=np.broadcast_to(scaling.shift, shape), scale=np.broadcast_to(scaling.scale, shape))


def _record(common: Common, boards: list[Billboard], models: Models, first: int) -> RunRecord:
    own = own_part(boards, first, len(models.coef))
    return RunRecord(models, own, common.plan, common.public, [], {})


def told(own: Own, models: Models, common: Common, boards: list[Billboard], first: int) -> Evidence:
    """What held-out rows of a partition's tasks say."""
    with at_work(own.block):
        return evidence(common.method, own.block, _record(common, boards, models, first))


def sums(said: Evidence) -> np.ndarray:
    """For all tasks to know."""
    return said.sums()


def settle(own: Own, models: Models, common: Common, boards: list[Billboard], first: int, *said: Any) -> Part:
    """What the tasks of a partition keep; `said`: what held-out rows said, of these tasks and in sum of all."""
    record = _record(common, boards, models, first)
    with at_work(own.block):
        scaling, _ = common_units.settle(common.method, unpacked(own.scaling, own.block.n_tasks), own.block, record, *said)
    return Part(record.models, scaling)


def gain(own: Own, part: Part, common: Common, boards: list[Billboard], first: int, names: np.ndarray) -> Any:
    """The gain of a partition's tasks, as a frame."""
    record = _record(common, boards, part.models, first)
    block = own.block
    if part.scaling.mode == "private":
        _, block = common_units.units_of(own.block, unpacked(own.scaling, block.n_tasks), record)
    gain_of_part: Gain = replace(measure_gain(common.method, block, record, part.models, tuple(names)), rows=block.sizes)
    return in_target_units(gain_of_part, part.scaling, record.public.loss).to_frame()


def common_scaling(part: Part) -> Scaling:
    """Which units there are; their numbers where all tasks have the same, none where they are each task's own."""
    return part.scaling.take([] if part.scaling.data_dependent else [0])


def take(part: Part, at: np.ndarray) -> Part:
    """Some tasks of a partition."""
    kept = None if part.models.kept is None else part.models.kept[at]
    extra = {k: v[at] for k, v in part.models.extra.items()}
    return Part(Models(part.models.coef[at], part.models.intercept[at], kept, extra), part.scaling.take(at))


def predicted(
    reader: Reader,
    tables: list[Any],
    positions: np.ndarray,
    classes: Any,
    cuts: list[tuple[int, int]],
    parts: list[Part],
    common: Common,
) -> Any:
    """A frame of tasks, scores and labels, for the rows of a partition; `positions`: of its tasks among the model's."""
    import pandas as pd

    tasks = assemble(reader, tables)
    of_row = positions[tasks.task_of_row()]
    out = np.empty((tasks.n_rows, parts[0].models.coef.shape[1]))
    for (first, end), part in zip(cuts, parts, strict=True):
        mine = (of_row >= first) & (of_row < end)
        out[mine] = part.scores(tasks.X[mine], of_row[mine] - first, common.method, common)
    names = np.asarray(tasks.task_names, dtype=object)[tasks.task_of_row()]
    scores = {"score" if out.shape[1] == 1 else f"score {k}": out[:, k] for k in range(out.shape[1])}
    if classes is not None:
        best = (out[:, 0] > 0).astype(int) if out.shape[1] == 1 else out.argmax(axis=1)
        scores["label"] = np.asarray(classes)[best]
    return pd.DataFrame({"task": names, **scores})


# ------------------------------------------------------------------ files


ELSEWHERE = "{place} is not the same place for all machines of the cluster; save to a folder they share, or to an object store"


def write_part(part: Part, names: np.ndarray, url: str) -> str:
    """One Parquet file with a row for each task; returns its SHA-256."""
    content = part_bytes(part, names)
    put(url, content)
    return hashlib.sha256(content).hexdigest()


def put(url: str, content: bytes) -> None:
    """One file, whole or not at all, whoever is killed meanwhile or writes it twice; object stores do that by themselves."""
    fs, path = file_system(url)
    try:
        if "file" in fs.protocol:
            write_file(Path(path), content)
        else:
            fs.pipe_file(path, content)
    except FileNotFoundError:  # the driver made the folder
        raise EnvironmentMissing(ELSEWHERE.format(place=without_secrets(url))) from None


def part_bytes(part: Part, names: np.ndarray) -> bytes:
    """The models of a partition as a Parquet file, one row for each task."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    m, r, d = part.models.coef.shape
    scaling = unpacked(part.scaling, m)
    columns: dict[str, Any] = {
        "task": pa.array(names, pa.string()), "intercept": _column(part.models.intercept),
        **{name: _column(values) for name, values in scaling.arrays.items()},
    }  # fmt: skip
    if d:  # a method that is not linear keeps parameters of its own
        columns["coef"] = _column(part.models.coef.reshape(m, r * d))
    if part.models.kept is not None:
        columns["kept"] = pa.array(np.asarray(part.models.kept, dtype=bool))
    columns |= {f"extra/{k}": _column(v) for k, v in part.models.extra.items() if v.ndim <= 2}
    table = pa.table(columns).replace_schema_metadata({b"scaling": json.dumps(scaling.about).encode()})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _column(values: np.ndarray) -> Any:
    import pyarrow as pa

    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(values).ravel()), values.shape[1])


def read_part(url: str, n_outputs: int, names: tuple[str, ...], sha256: str) -> Part:
    """What `write_part` wrote; refused where it was changed or belongs to other tasks."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with fsspec().open(url, "rb") as file:
            content = file.read()
        if hashlib.sha256(content).hexdigest() != sha256:
            raise DataError(f"{last_name(url)} is not the file that was saved; restore it, or fit again")
        table = pq.read_table(io.BytesIO(content))
    except (OSError, pa.ArrowException):
        raise DataError(f"{last_name(url)} is missing or damaged; restore it, or fit again") from None
    values = {n: _array(table.column(n)) for n in table.column_names if n != "task"}
    m, scaling = table.num_rows, Scaling.stored(values, json.loads(table.schema.metadata[b"scaling"]))
    if table.column("task").to_pylist() != list(names):
        raise DataError(f"{last_name(url)} holds other tasks than model.json says")
    extra = {k.removeprefix("extra/"): v for k, v in values.items() if k.startswith("extra/")}
    coef = values.get("coef", np.zeros((m, 0))).reshape(m, n_outputs, -1 if "coef" in values else 0)
    return Part(Models(coef, values["intercept"].reshape(m, n_outputs), values.get("kept"), extra), scaling)


def _array(column: Any) -> np.ndarray:
    whole = column.combine_chunks()
    if hasattr(whole, "flatten") and hasattr(whole.type, "list_size"):
        return np.asarray(whole.flatten()).reshape(len(whole), whole.type.list_size)
    return np.asarray(whole)
