"""scikit-learn estimators, imported when they are used: what plans and checks needs no scikit-learn."""

from importlib import import_module
from typing import Any

_PUBLIC = {"TaskClassifier": "taskveil.estimators.classifier", "TaskRegressor": "taskveil.estimators.regressor"}

__all__ = sorted(_PUBLIC)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'taskveil.estimators' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
