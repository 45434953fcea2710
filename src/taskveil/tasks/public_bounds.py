"""Public bounds: ranges of features and target, category levels and label sets that somebody declared.

They are never learned from the data: a statistic of the data would have to be paid for (docs/theory/index.md#local-work).
With declared ranges every task scales in the same way, [low, high] -> [-1, 1], and values outside are
clipped.

A bounds file is JSON or TOML:

    {"features": {"age": [0, 120], "*": [-1, 1]},      "*" covers every column not named
     "target": [0, 70],
     "levels": {"sex": ["female", "male"]},            categories of a text column, one-hot in this order
     "classes": ["no", "yes"],                         label set of a classification target
     "looked_at": ["features.age"]}                    entries that were filled from values; the certificate lists them

`taskveil declare` drafts one. What is still "?" in a draft is a blank, and refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.checks import ListOf, Number, Text, shown
from taskveil.errors import DataError
from taskveil.saved import read_table
from taskveil.tasks.arguments import some

KEYS = ("features", "target", "levels", "classes", "looked_at")
ANY = "*"
BLANK = "?"
HASHED = re.compile(r"#\d+/\d+$")
"""How the name of a bucket of an undeclared text column ends: it holds 0 or 1 whatever else is declared."""
HUGE = 1e150  # as in prepare.unusable: its square still fits a float64
END = Number(at_least=-HUGE, at_most=HUGE)
LOOKED_AT = ListOf(Text(), at_least=0)  # entries such as 'features.age'


@dataclass(frozen=True)
class PublicBounds:
    """Ranges, levels (categories) and labels that somebody declared before any row was read.

    Attributes
    ----------
    features : mapping of str to (low, high)
        Range of each column. "*" covers every column that is not named. A one-hot column "sex=male" ranges from 0 to 1.
    target : (low, high) or None, default=None
        Range of a numeric target.
    levels : mapping of str to tuple of str
        Categories of each text column; they become one-hot columns in this order.
    classes : tuple or None, default=None
        Labels of a classification target.
    looked_at : tuple of str, default=()
        Entries that were filled in from the values of the table. The certificate lists them.

    Examples
    --------
    >>> import taskveil as tv
    >>> tv.PublicBounds(features={"age": (0, 120)}, target=(0, 60)).features["age"]
    (0.0, 120.0)
    """

    features: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    target: tuple[float, float] | None = None
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    classes: tuple[Any, ...] | None = None
    looked_at: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_maps(vars(self))
        checked = {str(name): _range(name, pair) for name, pair in self.features.items()}
        object.__setattr__(self, "features", checked)
        if self.target is not None:
            object.__setattr__(self, "target", _range("target", self.target))
        object.__setattr__(self, "levels", {str(k): _levels(k, v) for k, v in self.levels.items()})
        if self.classes is not None:
            object.__setattr__(self, "classes", _levels("classes", self.classes, text=False))
        object.__setattr__(self, "looked_at", tuple(LOOKED_AT.check("looked_at", self.looked_at, DataError)))

    @classmethod
    def same(cls, low: float, high: float, target: tuple[float, float] | None = None) -> PublicBounds:
        """One range for every feature."""
        return cls(features={ANY: (low, high)}, target=target)

    @classmethod
    def from_arrays(
        cls, names: Sequence[str], low: Iterable[float], high: Iterable[float], target: tuple[float, float] | None = None
    ) -> PublicBounds:
        """Ranges given as arrays in the order of `names`."""
        pairs = list(zip(low, high, strict=True))
        if len(pairs) != len(names):
            raise DataError(f"bounds for {len(pairs)} features, but there are {len(names)}; give one range per feature.")
        return cls(features=dict(zip(names, pairs, strict=True)), target=target)

    @classmethod
    def from_dict(cls, declared: Mapping[str, Any]) -> PublicBounds:
        """Read the layout shown at the top of this file; unknown keys are refused."""
        if not isinstance(declared, Mapping):
            raise DataError(f"bounds must be a table with entries {', '.join(KEYS)}; got {type(declared).__name__}.")
        unknown = sorted(map(str, set(declared) - set(KEYS)))
        if unknown:
            raise DataError(f"bounds have unknown entries {', '.join(map(repr, unknown))}; expected {', '.join(KEYS)}.")
        _check_maps(declared)
        blanks = _blanks(declared)
        if blanks:
            raise DataError(
                f"the declaration still has blanks ({BLANK!r}) in {some(blanks)}; fill them in from what the columns mean, or "
                "remove those lines: what is not declared stays with each task."
            )
        classes = declared.get("classes")
        return cls(
            features=dict(declared.get("features", {})),
            target=declared.get("target"),
            levels=dict(declared.get("levels", {})),
            classes=None if classes is None else _levels("classes", classes, text=False),
            looked_at=declared.get("looked_at", ()),
        )

    @classmethod
    def from_file(cls, path: str | Path) -> PublicBounds:
        """Read a .json or .toml bounds file."""
        path = Path(path)
        try:
            declared = read_table(path)
        except DataError as problem:
            raise DataError(f"cannot read the bounds file: {problem}") from None
        if not isinstance(declared, Mapping):
            raise DataError(f"the bounds file {str(path)!r} must hold one object with {', '.join(KEYS)}.")
        made = cls.from_dict(declared)
        point = next((n for n, (low, high) in made.features.items() if low == high), None)
        if point is not None:
            raise DataError(
                f"the declared range of {point!r} is one point; give the lowest and the highest value that can occur, or leave "
                "out a column that never changes."
            )
        return made

    @classmethod
    def coerce(cls, value: Any) -> PublicBounds | None:
        """None, a PublicBounds, a mapping, a (low, high) pair for all features, or a path to a bounds file."""
        if value is None or isinstance(value, PublicBounds):
            return value
        if isinstance(value, Mapping):
            return cls.from_dict(value)
        if isinstance(value, (str, Path)):
            return cls.from_file(value)
        if isinstance(value, (list, tuple)) and len(value) == 2 and all(np.isscalar(v) for v in value):
            return cls.same(*value)
        raise DataError("bounds must be a bounds file, a mapping, or one (low, high) pair for all features.")

    def covers(self, names: Iterable[str]) -> bool:
        """Whether every one of these columns has a declared range."""
        return all(self._find(n) is not None for n in names)

    def arrays(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Low and high ends, (d,) each, in the order of `names`; a column without a range is an error."""
        pairs = [self._find(n) for n in names]
        lost = [n for n, p in zip(names, pairs, strict=True) if p is None]
        if lost:
            raise DataError(
                f'no declared range for column {some(map(repr, lost))}; add it to the bounds, or "*" for all the others.'
            )
        ends = np.asarray(pairs, dtype=np.float64).reshape(-1, 2)
        return ends[:, 0].copy(), ends[:, 1].copy()

    def clip_features(self, X: np.ndarray, names: Sequence[str]) -> np.ndarray:
        """X with declared columns clipped to their range; X itself when nothing lies outside.

        NaN stays NaN.
        """
        low, high = _open_ends([self._find(n) for n in names])
        from taskveil.tasks.grouping import row_chunks

        outside = any(bool(((X[r] < low) | (X[r] > high)).any()) for r in row_chunks(X.shape[0]))
        return _clipped(X, low, high) if outside else X

    def clip_target(self, y: np.ndarray) -> np.ndarray:
        """A regression target clipped to its declared range."""
        return y if self.target is None or y.dtype.kind != "f" else _clipped(y, *self.target)

    def midpoint(self, name: str) -> float | None:
        """Middle of a declared range: the public value that stands in for a missing one."""
        pair = self._find(name)
        return None if pair is None else 0.5 * (pair[0] + pair[1])

    def to_dict(self) -> dict[str, Any]:
        """The bounds-file layout; `from_dict` reads it back."""
        out: dict[str, Any] = {"features": {k: list(v) for k, v in self.features.items()}}
        if self.target is not None:
            out["target"] = list(self.target)
        if self.levels:
            out["levels"] = {k: list(v) for k, v in self.levels.items()}
        if self.classes is not None:
            out["classes"] = list(self.classes)
        if self.looked_at:
            out["looked_at"] = list(self.looked_at)
        return out

    def _find(self, name: str) -> tuple[float, float] | None:
        if name in self.features:
            return self.features[name]
        if HASHED.search(name) or ("=" in name and name.split("=", 1)[0] in self.levels):
            return (0.0, 1.0)
        return self.features.get(ANY)


def _blanks(declared: Mapping[str, Any]) -> list[str]:
    """Entries of a draft that nobody filled in: 'target', 'features.age'."""
    entries = {k: v for k, v in declared.items() if k not in ("features", "levels", "looked_at")}
    entries |= {f"{part}.{k}": v for part in ("features", "levels") for k, v in declared.get(part, {}).items()}
    return [k for k, v in entries.items() if v == BLANK or (isinstance(v, (list, tuple)) and BLANK in v)]


def _clipped(values: np.ndarray, low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
    """Values cut off at both ends; one inside is the same to the bit (`np.clip` may turn -0.0 into 0.0)."""
    out = values.copy()
    np.copyto(out, low, where=values < low, casting="same_kind")
    np.copyto(out, high, where=values > high, casting="same_kind")
    return out


def _open_ends(pairs: list[tuple[float, float] | None]) -> tuple[np.ndarray, np.ndarray]:
    ends = np.asarray([(-np.inf, np.inf) if p is None else p for p in pairs], dtype=np.float64).reshape(-1, 2)
    return ends[:, 0], ends[:, 1]


def _check_maps(declared: Mapping[str, Any]) -> None:
    for key in ("features", "levels"):
        if not isinstance(declared.get(key, {}), Mapping):
            raise DataError(f"bounds entry {key!r} must map column names to values; see the bounds file layout.")


def _range(name: Any, pair: Any) -> tuple[float, float]:
    ends = tuple(pair) if isinstance(pair, (list, tuple)) or np.shape(pair) == (2,) else ()
    if len(ends) != 2 or not all(map(END.accepts, ends)):
        raise DataError(
            f"the declared range of {str(name)!r} must be two numbers [low, high] from {-HUGE:g} to {HUGE:g}; got {shown(pair)}."
        )
    low, high = (float(v) for v in ends)
    if not low < high:
        raise DataError(f"the declared range of {str(name)!r} must have low < high; got [{low:g}, {high:g}].")
    return low, high


def _levels(name: Any, values: Any, text: bool = True) -> tuple[Any, ...]:
    listed = values.ndim == 1 if isinstance(values, np.ndarray) else isinstance(values, Sequence)
    if isinstance(values, (str, bytes)) or not listed:
        raise DataError(f"the declared levels of {str(name)!r} must be a list.")
    levels = tuple(v.item() if hasattr(v, "item") else v for v in values)
    if not all(isinstance(v, (str, int, float)) and not (isinstance(v, float) and math.isnan(v)) for v in levels):
        raise DataError(f"the declared levels of {str(name)!r} must be texts or numbers; got {shown(values)}.")
    levels = tuple(map(str, levels)) if text else levels
    if not levels or len(set(levels)) != len(levels):
        raise DataError(f"the declared levels of {str(name)!r} must be a list without repeats, with at least one entry.")
    return levels
