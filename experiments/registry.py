"""All that can be reproduced, by name: `taskveil reproduce NAME`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

ITEMS: dict[str, str] = {
    "mp-mtl-fig2": "experiments.liang_2020.pictures:fig2",
    "mp-mtl-fig3": "experiments.liang_2020.pictures:fig3",
    "mp-mtl-fig4": "experiments.liang_2020.curves:fig4",
    "mp-mtl-fig5": "experiments.liang_2020.pictures:fig5",
    "mp-mtl-fig6": "experiments.liang_2020.curves:fig6",
    "mp-mtl-fig7": "experiments.liang_2020.curves:fig7",
    "mp-mtl-fig8": "experiments.liang_2020.curves:fig8",
    "mp-mtl-fig9": "experiments.liang_2020.curves:fig9",
    "mp-mtl-fig10": "experiments.liang_2020.curves:fig10",
    "mp-mtl-fig11": "experiments.liang_2020.curves:fig11",
    "mp-mtl-fig12": "experiments.liang_2020.curves:fig12",
    "mp-mtl-lemmas": "experiments.liang_2020.pictures:lemmas",
    "mp-mtl-prop1": "experiments.liang_2020.pictures:prop1",
    "async-time": "experiments.adapters:async_time",
    "async-composition": "experiments.adapters:async_composition",
    "svm-equations": "experiments.adapters:svm_paper_equations",
    "svm-rounds": "experiments.adapters:svm_rounds",
    "svm-masks": "experiments.adapters:svm_masks",
}


def get(name: str) -> Any:
    module, _, attribute = ITEMS[name].partition(":")
    return getattr(import_module(module), attribute)


def folder_of(name: str) -> str:
    """The experiment's folder, below experiments/."""
    return {"mp": "mp_mtl", "async": "async_mtl", "svm": "federated_mtl_svm"}[name.split("-")[0]]
