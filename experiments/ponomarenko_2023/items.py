"""The SVM experiments as items of `taskveil reproduce`; run.py also runs by itself with fuller output."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.common import Result

PAPER = "MTL-SVM"


def _svm_section(name: str, quick: bool) -> Any:
    from experiments.ponomarenko_2023.run import SECTIONS

    return SECTIONS[name](quick)


def svm_paper_equations(quick: bool, seed: int) -> Result:
    """Eq. 13-14, 27-28 and line 15 as printed: do they converge?"""
    table = _svm_section("paper", quick)
    return Result(
        "equations", PAPER, "the printed updates converge", "converges",
        as_printed=_short(table), verdict="see the table in experiments/ponomarenko_2023/README.md; as printed they do not",
        settings={"table": table},
    )  # fmt: skip


def svm_rounds(quick: bool, seed: int) -> Result:
    """Communication rounds to a relative duality gap."""
    table = _svm_section("rounds", quick)
    return Result("rounds", PAPER, "few communication rounds suffice", "Fig. 5-8", sound=_short(table), settings={"table": table},
                  verdict="see the table in experiments/ponomarenko_2023/README.md")  # fmt: skip


def svm_masks(quick: bool, seed: int) -> Result:
    """Masked runs reach the optimum; the masks protect nothing."""
    table = _svm_section("masks", quick)
    return Result("masks", PAPER, "random masks keep accuracy and protect the data", "Fig. 11-12", sound=_short(table),
                  settings={"table": table}, verdict="accuracy is kept where the dual step is masked; the protection is none")  # fmt: skip


def _short(table: Any) -> str:
    text = str(np.asarray(table, dtype=object).tolist() if isinstance(table, list) else table)
    return text[:180] + (" ..." if len(text) > 180 else "")
