"""Canaries in raw cells: what an adversarial unit may hold, before any preparation has looked at it.

The protected unit is the first task (all of its rows) or its first row. Every canary is a whole table in which only that unit
differs from the user's. Those called `toward`, `against`, `across` and `long` make messages as long as the clipping allows, in
different directions; the others are what preparation stumbles over: sizes, constants, extreme numbers, missing cells, new levels
(not new labels: the set of labels is public, as every certificate says). Everybody else's cells stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.audits.raw_table import RawTable

if TYPE_CHECKING:
    import pandas as pd

FAR = 1e6  # outside of any range a table declares, and far from overflow
HUGE, TINY = 1e150, 1e-160
ROWS, MANY = 24, 3000
CODES = 2  # columns of numbers, with the fewest values, in which a text is tried
CLOSE = 1 / 4  # what tells two features apart, of their range: a model along it is long, and no penalty takes it for noise
UNKNOWN = "canary"
AS_IT_IS = "the table as it is"


@dataclass(frozen=True, eq=False)
class RawCanary:
    """A table that differs from the user's in the protected unit only."""

    name: str
    frame: pd.DataFrame


def raw_canaries(table: RawTable, task: str, unit: str, loss: str) -> list[RawCanary]:
    """The user's table first, then every replacement of the unit."""
    rows = table.rows_of(task)
    place = rows[:1] if unit == "record" else rows
    cells = _Cells(table, place, loss)
    edits = cells.of_a_row() if unit == "record" else cells.of_a_task()
    made = [RawCanary(name, _replaced(table.frame, place, new)) for name, new in edits]
    return [RawCanary(AS_IT_IS, table.frame), *made]


def _replaced(frame: pd.DataFrame, place: np.ndarray, new: pd.DataFrame) -> pd.DataFrame:
    """The unit's rows give way to the new ones, which begin where it began; all others keep their order."""
    import pandas as pd

    rest = np.setdiff1d(np.arange(len(frame)), place)
    before, after = rest[rest < place[0]], rest[rest > place[0]]
    return pd.concat([frame.iloc[before], new, frame.iloc[after]], ignore_index=True)


class _Cells:
    """Rows for the unit: a template of its own cells, with some of them overwritten."""

    def __init__(self, table: RawTable, place: np.ndarray, loss: str):
        self.table, self.loss = table, loss
        self.template = table.frame.iloc[place]
        columns = {c: table.numbers(c) for c in table.features if table.frame[c].dtype != bool}
        self.numeric = [c for c, values in columns.items() if values is not None]
        self.words = [c for c, values in columns.items() if values is None]
        self.labels = sorted(table.frame[table.target].dropna().unique(), key=str) if loss == "logistic" else []

    def of_a_row(self) -> Iterator[tuple[str, Any]]:
        for name, sign in (("toward", 1.0), ("against", -1.0)):
            yield f"{name}: far corner and target", self._rows(1, {c: [FAR] for c in self.numeric}, [sign])
            yield f"{name}: far target", self._rows(1, {}, [sign])
            if self.numeric:
                yield f"{name}: far feature", self._rows(1, {self.numeric[0]: [sign * FAR]}, None)
        if self.numeric:
            yield "across: the opposite corner", self._rows(1, {c: [-FAR] for c in self.numeric}, [1.0])
        yield from self._stumbling(1)
        codes = sorted(self.numeric, key=lambda c: self.table.frame[c].nunique()) if self.table.text else []
        for column in codes[:CODES]:  # levels that look like numbers; a declared range refuses such a cell
            yield f"text in {column!r}", self._rows(1, {column: [UNKNOWN]}, None)

    def of_a_task(self) -> Iterator[tuple[str, Any]]:
        rng = np.random.default_rng(0)
        signs = rng.choice([-1.0, 1.0], (ROWS, max(len(self.numeric), 1)))
        signs[:, 0] = np.tile([1.0, -1.0], ROWS // 2)
        design = {c: FAR * signs[:, j] for j, c in enumerate(self.numeric)}
        yield "toward: steep along the first feature", self._rows(ROWS, design, signs[:, 0])
        yield "against: steep the other way", self._rows(ROWS, design, -signs[:, 0])
        if len(self.numeric) > 1:
            yield "across: steep along the second feature", self._rows(ROWS, design, signs[:, 1])
            close = {**design, self.numeric[1]: FAR * (signs[:, 0] + CLOSE * signs[:, 1])}
            yield "long: two features nearly equal", self._rows(ROWS, close, signs[:, 1])
            yield "long, the other way", self._rows(ROWS, close, -signs[:, 1])
        yield "constant", self._rows(ROWS, {c: np.zeros(ROWS) for c in self.numeric}, np.ones(ROWS))
        yield "one row", self._rows(1, {}, None)
        yield "many rows", self._rows(MANY, {c: rng.standard_normal(MANY) for c in self.numeric}, rng.choice([-1.0, 1.0], MANY))
        yield from self._stumbling(ROWS)

    def _stumbling(self, n: int) -> Iterator[tuple[str, Any]]:
        """Cells that preparation has to react to."""
        steps = np.where(np.arange(n) % 2, -1.0, 1.0)
        for name, size in (("huge numbers", HUGE), ("tiny numbers", TINY)):
            yield name, self._rows(n, dict.fromkeys(self.numeric, size * steps), steps, size)
        holes = [self.table.missing() if i % 2 == 0 else 0 for i in range(n)]
        if self.numeric:
            yield "missing cells", self._rows(n, {self.numeric[0]: holes}, None)
        for column in self.words[:1]:
            yield "an unknown level", self._rows(n, {column: [UNKNOWN] * n}, None)

    def _rows(self, n: int, features: dict[str, Any], target: Any, size: float = FAR) -> pd.DataFrame:
        """n rows after the template's first ones; `target` holds signs, None leaves it."""
        rows = self.template.iloc[np.arange(n) % len(self.template)].reset_index(drop=True)
        for column, values in features.items():
            rows[column] = self._written(values)
        if target is None:
            return rows
        signs = np.asarray(target)
        if self.loss == "poisson":  # many or none
            return self._with_target(rows, self._written(size * (signs > 0)))
        if self.loss == "cox":  # sooner or later than anybody
            seen = {} if self.table.event is None else {self.table.event: self._written(np.ones(n))}
            return self._with_target(rows.assign(**seen), self._written(np.where(signs > 0, 1.0 / size, size)))
        if self.labels:
            ends = [self.labels[0], self.labels[-1]]
            return self._with_target(rows, [ends[int(s > 0)] for s in signs])
        return self._with_target(rows, self._written(size * signs))

    def _with_target(self, rows: pd.DataFrame, values: Any) -> pd.DataFrame:
        return rows.assign(**{self.table.target: values})

    def _written(self, values: Any) -> Any:
        return [v if isinstance(v, str) else repr(float(v)) for v in values] if self.table.text else np.asarray(values, float)
