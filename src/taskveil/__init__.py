"""Personal models that learn together, with privacy statements that are proved, accounted and attacked.

Names are imported when they are used, so that `import taskveil` stays fast.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_PUBLIC = {
    "Certificate": "taskveil.privacy.certificate",
    "PublicBounds": "taskveil.tasks.public_bounds",
    "TaskClassifier": "taskveil.estimators.classifier",
    "TaskKFold": "taskveil.tasks.cross_validation",
    "TaskRegressor": "taskveil.estimators.regressor",
    "TaskSearch": "taskveil.estimators.search",
    "TaskSet": "taskveil.tasks.task",
    "TaskShuffleSplit": "taskveil.tasks.cross_validation",
    "TaskSurvival": "taskveil.estimators.survival",
    "audit": "taskveil.audits",
    "get_synthetic": "taskveil.tasks.synthetic",
    "load": "taskveil.estimators.storage",
    "load_tasks": "taskveil.tasks.load",
    "split_rows": "taskveil.tasks.split",
}
_MODULES = ("methods",)

__all__ = sorted([*_PUBLIC, *_MODULES])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"taskveil.{name}")
    if name not in _PUBLIC:
        raise AttributeError(f"module 'taskveil' has no attribute {name!r}")
    globals()[name] = getattr(import_module(_PUBLIC[name]), name)  # asked for once
    return globals()[name]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
