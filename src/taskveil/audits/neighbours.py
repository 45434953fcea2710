"""Which two neighbours to run many times, and how: those whose releases lie furthest apart at the same billboards and noise.

replace-one   any two canaries
add-remove    a canary, and the same table with the null unit in its place (its summand of every message is zero)

Canaries in raw cells: what an adversarial unit may hold, before any preparation has looked at it.

The protected unit is the first task (all of its rows) or its first row. Every canary is a whole table in which only that unit
differs from the user's. Those called `toward`, `against`, `across` and `long` make messages as long as the clipping allows, in
different directions; the others are what preparation stumbles over: sizes, constants, extreme numbers, missing cells, new levels
(not new labels: the set of labels is public, as every certificate says). Everybody else's cells stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from taskveil.audits.canaries import CANARY
from taskveil.audits.methods import World
from taskveil.audits.observe import Layout
from taskveil.audits.raw_table import RawTable
from taskveil.audits.rehearsal import RunLog, Trained, train

if TYPE_CHECKING:
    import pandas as pd

FAR = 1e6  # outside of any range a table declares, and far from overflow
HUGE, TINY = 1e150, 1e-160
ROWS, MANY = 24, 3000
CODES = 2  # columns of numbers, with the fewest values, in which a text is tried
CLOSE = 1 / 4  # what tells two features apart, of their range: a model along it is long, and no penalty takes it for noise
UNKNOWN = "canary"
AS_IT_IS = "the table as it is"
WIDEST = 4000  # numbers per run that are kept; of more, those that differ most


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


@dataclass
class Pair:
    """Two neighbouring tables, trained at the same billboards; `absent`: the second one's canary is the null unit."""

    canaries: tuple[RawCanary, RawCanary]
    trained: tuple[Trained, Trained]
    absent: bool = False

    @property
    def name(self) -> str:
        """The two sides, by the names of their canaries."""
        return f"{self.canaries[0].name} / {'absent' if self.absent else self.canaries[1].name}"

    def distance(self) -> float:
        """Root of the summed squares of (difference / noise scale) over all releases; 0 where they cannot be compared."""
        if any(t.error is not None for t in self.trained):
            return 0.0
        return float(np.sqrt(sum(_squared(a, b) for a, b in zip(*(t.logs for t in self.trained)))))


def _squared(one: RunLog, other: RunLog) -> float:
    scales = {p.name: max(p.mechanism.scale, 1e-300) for p in one.plan.releases}
    total = 0.0
    for a, b in zip(one.releases, other.releases):
        for name in a:
            if name in b and a[name].shape == b[name].shape:
                total += float(np.sum(((a[name] - b[name]) / scales.get(name, 1.0)) ** 2))
    return total if np.isfinite(total) else 0.0


def furthest(est: Any, table: RawTable, canaries: list[RawCanary], trained: list[Trained]) -> Pair | None:
    """The pair to attack; None where no canary changes a release, or a null unit cannot be put in its place."""
    usable = [(c, t) for c, t in zip(canaries, trained) if t.error is None]
    if str(getattr(est, "estimator", est).neighbours) == "add-remove":
        if hasattr(est, "estimator"):  # a search repeats its runs itself
            return None
        script = trained[0].logs
        pairs = [Pair((c, c), (t, train(est, opener(table, c), script, absent=True)), absent=True) for c, t in usable]
    else:
        pairs = [Pair((a, b), (s, t)) for (a, s), (b, t) in combinations(usable, 2)]
    return max((p for p in pairs if p.distance() > 0), key=Pair.distance, default=None)


def opener(table: RawTable, canary: RawCanary, only: str | None = None) -> Callable[[], tuple[Any, ...]]:
    """Opens a canary's table; `only`: the rows of one task."""
    if only is None:
        return lambda: table.open(canary.frame)
    rows = replace(table, frame=canary.frame).rows_of(only)
    return lambda: table.open(canary.frame.iloc[rows].reset_index(drop=True))


# ------------------------------------------------------------------ many runs


@dataclass
class Runs:
    """Repeats both worlds with fresh noise; `keep` picks the numbers of a run that are looked at."""

    run: tuple[Callable[[int], np.ndarray], Callable[[int], np.ndarray]]
    layout: Layout
    keep: np.ndarray | None = None
    worlds: tuple[World, World] | None = None  # where both hold a canary, so that either's releases can be had at the other's

    def vector(self, world: int, noise_seed: int) -> np.ndarray:
        """What the observer saw in one run of world 0 or 1."""
        seen = self.run[world](noise_seed)
        return seen if self.keep is None else seen[self.keep]


def repeated(est: Any, table: RawTable, pair: Pair, observer: str, key: int) -> Runs:
    """The runs of a pair as the observer sees them."""
    if hasattr(est, "estimator"):
        return _searches(est, table, pair, key)
    first, second = _in_sight(est, table, pair, observer)
    worlds = (World.of(est, first, observer), World.of(est, second, observer, absent=pair.absent))
    seen = [world.run(key) for world in worlds]
    layout = Layout.of(worlds[1].transcript)
    runs = (worlds[0].run, worlds[1].run)
    both = None if pair.absent else worlds
    if layout.size <= WIDEST or seen[0].shape != seen[1].shape:
        return Runs(runs, layout, worlds=both)
    keep = np.sort(np.argsort(-np.abs(seen[0] - seen[1]), kind="stable")[:WIDEST])
    return Runs(runs, Layout((), 1, len(keep)), keep, both)


def _in_sight(est: Any, table: RawTable, pair: Pair, observer: str) -> tuple[Trained, Trained]:
    """Where the server reads every task's own noisy message, the canary's task runs by itself: the release is its message."""
    plan = pair.trained[0].logs[0].plan
    if plan.budget.aggregation not in ("local", "local-model") or observer == "other-tasks":
        return pair.trained
    own = clone(est).set_params(delta=plan.budget.delta)
    name = pair.trained[0].estimator.task_names_[CANARY]
    alone = [train(own, opener(table, c, name)) for c in pair.canaries]
    if any(t.error is not None or not t.released for t in alone):
        return pair.trained
    return alone[0], alone[1]


def _searches(est: Any, table: RawTable, pair: Pair, key: int) -> Runs:
    """A search publishes its winner: which configuration, its last billboard, its noisy score."""
    opened = [opener(table, c)() for c in pair.canaries]
    grid = est.configurations()

    def search(world: int, noise_seed: int) -> np.ndarray:
        searching = clone(est).set_params(estimator__insecure_noise_seed=noise_seed).fit(*opened[world])
        board = searching.best_estimator_.record_.billboards[-1]
        values = [np.ravel(board.values[n]) for n in sorted(board.values) if n not in board.per_task]
        won = [float(g == searching.best_params_) for g in grid]
        return np.concatenate([*values, won, [getattr(searching, "best_score_", 0.0)]])

    size = len(search(0, key))
    return Runs((lambda n: search(0, n), lambda n: search(1, n)), Layout((), 1, size))
