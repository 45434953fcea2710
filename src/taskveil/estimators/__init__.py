"""scikit-learn estimators, imported when they are used: what plans and checks needs no scikit-learn."""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "TaskClassifier": "taskveil.estimators.classifier",
    "TaskRegressor": "taskveil.estimators.regressor",
    "TaskSurvival": "taskveil.estimators.survival",
}

__all__ = ["estimator_for", *sorted(_PUBLIC)]  # noqa: PLE0604


def estimator_for(kind: str) -> Any:
    """The estimator of a kind of target."""
    return __getattr__({"regression": "TaskRegressor", "classification": "TaskClassifier", "survival": "TaskSurvival"}[kind])


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'taskveil.estimators' has no attribute {name!r}")
    return getattr(import_module(_PUBLIC[name]), name)
