"""Which two neighbours to run many times, and how: those whose releases lie furthest apart at the same billboards and noise.

replace-one   any two canaries
add-remove    a canary, and the same table with the null unit in its place (its summand of every message is zero)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone

from taskveil.audits.canaries import CANARY
from taskveil.audits.methods import World
from taskveil.audits.observe import Layout
from taskveil.audits.raw_canaries import RawCanary
from taskveil.audits.raw_table import RawTable
from taskveil.audits.rehearsal import RunLog, Trained, train

WIDEST = 4000  # numbers per run that are kept; of more, those that differ most


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
