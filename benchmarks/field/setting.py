"""What a setting is: a published protocol, the figures printed for it, and what is run on it here.

A file of this folder that defines SETTING is a setting; nothing else has to be told about it.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

OURS = "ours"
REWRITTEN = "re-implementation, ours"
THEIRS = "their own code"
PRINTED = "published"


@dataclass(frozen=True)
class Published:
    """One printed figure; `spread` is the deviation over their seeds where they give one."""

    what: str
    value: float
    epsilon: float | None = None
    spread: float | None = None


@dataclass(frozen=True)
class Entry:
    """One row of the table: a method at one epsilon. `run` takes a seed (split, order, noise) and returns the measure.

    sees      who learns nothing more about one unit than epsilon allows; empty without noise
    measured  the day on which scores taken over from stored results were measured, and the versions that ran; None: measured here
    """

    what: str
    who: str
    run: Callable[[int], float]
    epsilon: float | None = None
    sees: str = ""
    measured: tuple[str, dict[str, str]] | None = None

    @property
    def key(self) -> str:
        return self.what if self.epsilon is None else f"{self.what}, epsilon {self.epsilon:g}"


@dataclass(frozen=True)
class Bar:
    """Something that must hold: a sentence, and a test of the mean scores by `Entry.key`."""

    claim: str
    holds: Callable[[dict[str, float]], bool]


@dataclass(frozen=True)
class Setting:
    """A protocol with its printed figures and its entries.

    guarantee   unit, neighbours and delta: the same for every private row
    protocol    data, split, scaling, measure; where ours differs from theirs it says so
    remarks     what a reader must know before comparing, one sentence each
    peers       whose code the re-run rows are, and why not their authors' where it is not
    """

    name: str
    title: str
    source: str
    measure: str
    guarantee: str
    protocol: str
    seeds: tuple[int, ...]
    published: tuple[Published, ...]
    entries: tuple[Entry, ...]
    bars: tuple[Bar, ...] = ()
    remarks: tuple[str, ...] = ()
    peers: str = ""
    lower_is_better: bool = False
    digits: int = 3


def settings() -> dict[str, Setting]:
    """All settings of this folder by name, in the order of their files."""
    import benchmarks.field as folder

    modules = (
        importlib.import_module(f"{folder.__name__}.{m.name}")
        for m in pkgutil.iter_modules(folder.__path__)
        if m.name != "__main__"
    )
    return {m.SETTING.name: m.SETTING for m in modules if hasattr(m, "SETTING")}
