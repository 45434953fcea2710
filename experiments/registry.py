"""All that can be reproduced, by name: `taskveil reproduce NAME`. Each paper's folder lists its own items."""

from __future__ import annotations

from importlib import import_module
from typing import Any

FOLDERS = {"mp-mtl": "liang_2020", "pmtl": "hu_2023", "async": "xie_2017", "svm": "ponomarenko_2023"}


def _listed() -> dict[str, str]:
    """Name -> "module:function"."""
    found = {}
    for prefix, folder in FOLDERS.items():
        items = import_module(f"experiments.{folder}").ITEMS
        found |= {f"{prefix}-{name}": f"experiments.{folder}.{where}" for name, where in items.items()}
    return found


ITEMS = _listed()


def get(name: str) -> Any:
    module, _, attribute = ITEMS[name].partition(":")
    return getattr(import_module(module), attribute)


def folder_of(name: str) -> str:
    """The experiment's folder, below experiments/."""
    return ITEMS[name].split(".")[1]


def side_by_side(names: list[str]) -> list[list[str]]:
    """Parts for processes of their own. Items of a paper share runs, so papers stay whole and come first; those of MP-MTL share
    nothing and fill up what time is left on either side.
    """
    whole = [[n for n in names if folder_of(n) == folder] for folder in reversed(FOLDERS.values()) if folder != FOLDERS["mp-mtl"]]
    return [part for part in whole if part] + [[n] for n in names if folder_of(n) == FOLDERS["mp-mtl"]]
