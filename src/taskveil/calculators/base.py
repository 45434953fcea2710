"""The answer of a calculator: numbers, the formula they come from, and what must be said with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from taskveil.errors import OptionError


@dataclass(frozen=True)
class Calculation:
    """One theorem evaluated. Orders, O(.) and Theta(.), are evaluated with constant 1."""

    number: str
    name: str
    values: Mapping[str, Any]
    formula: str
    caveat: str

    def __str__(self) -> str:
        width = max((len(k) for k in self.values), default=0)
        lines = [f"{self.number} ({self.name})", f"  {self.formula}"]
        lines += [f"  {k:<{width}}  {_show(v)}" for k, v in self.values.items()]
        return "\n".join([*lines, f"  Note: {self.caveat}"])

    def to_dict(self) -> dict[str, Any]:
        """For JSON; numbers that are not finite become text."""
        values = {k: _plain(v) for k, v in self.values.items()}
        return {"theorem": self.number, "name": self.name, "values": values, "formula": self.formula, "caveat": self.caveat}


def positive(**numbers: float) -> None:
    """Refuse numbers that are not finite and above zero, by name."""
    for name, value in numbers.items():
        if not (math.isfinite(value) and value > 0):
            raise OptionError(f"{name} must be a finite number above 0, got {value}.")


def probability(**numbers: float) -> None:
    """Refuse numbers outside the open interval (0, 1), by name."""
    for name, value in numbers.items():
        if not 0 < value < 1:
            raise OptionError(f"{name} must lie strictly between 0 and 1, got {value}.")


def _show(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
