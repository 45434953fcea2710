"""Theorems by name, from the sizes a plan knows: the calculators behind `taskveil plan --theorem`.

Names: "2" to "16" (or "mp-mtl-2"), "prop-3", "table-2", "pmtl-1", "pmtl-3", "pmtl-5", and "all".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from taskveil.calculators import mp_mtl, pmtl
from taskveil.calculators.base import Calculation
from taskveil.errors import OptionError, UnknownName

PAPER_STRONG_CONVEXITY = 1e-3
"""mu of MP-MTL section 5.2."""
GROUP_PRIVACY_CAVEAT = (
    "group privacy over all rows of a task: sound, and very noisy; accountants for the task as the unit do better"
)


def names() -> dict[str, str]:
    """Every name `evaluate` takes, with its title."""
    listed = {f"mp-mtl-{n}": f"MP-MTL Theorem {n}: {title}" for n, title in mp_mtl.names().items()}
    listed |= {"prop-3": "MP-MTL Proposition 3: from records to tasks", "table-2": "MP-MTL Table 2: optimised rates"}
    return listed | {f"pmtl-{n}": f"PMTL Theorem {n}: {title}" for n, title in pmtl.names().items()}


def evaluate(
    wanted: Iterable[str],
    *,
    n_tasks: int,
    n_features: int,
    epsilon: float | None,
    delta: float,
    rows: int | None = None,
    rounds: int | None = None,
) -> list[dict[str, Any]]:
    """The named theorems as JSON-ready dictionaries: theorem, name, values, formula, caveat."""
    if epsilon is None:
        raise OptionError("the papers' theorems need a privacy budget; give epsilon as a number.")
    budget = {"n_tasks": n_tasks, "epsilon": epsilon, "delta": delta}
    answers: list[Calculation] = []
    for name in wanted:
        every = [key for key in names() if key != "prop-3" or rows is not None]
        for key in every if name == "all" else [_key(name)]:
            paper, _, number = key.rpartition("-")
            if key == "prop-3":
                answers.append(_prop_3(epsilon, delta, rows))
            elif key == "table-2":
                answers.append(_table_2(n_tasks, n_features, epsilon))
            elif paper == "pmtl":
                answers.append(_pmtl(int(number), budget, n_features, rounds or 50))
            else:
                answers += _mp_mtl(int(number), {**budget, "n_features": n_features})
    return [{**a.to_dict(), "name": f"{a.number}: {a.name}"} for a in answers]


def _key(name: str) -> str:
    key = f"mp-mtl-{name}" if name.isdigit() else name.strip().lower()
    if key not in names():
        raise UnknownName(f"unknown theorem {name!r}: expected one of {', '.join(names())}, or all.")
    return key


def _mp_mtl(number: int, sizes: dict[str, Any]) -> list[Calculation]:
    """Without and with acceleration; the allocation theorems hold both in one answer."""
    if number not in mp_mtl.CASES:
        return [mp_mtl.theorem(number, **sizes, strong_convexity=PAPER_STRONG_CONVEXITY)]
    made = []
    for label, fast in (("no acceleration", False), ("accelerated", True)):
        one = mp_mtl.theorem(number, **sizes, acceleration=fast, strong_convexity=PAPER_STRONG_CONVEXITY)
        made.append(replace(one, name=f"{one.name}, {label}"))
    return made


def _prop_3(epsilon: float, delta: float, rows: int | None) -> Calculation:
    if rows is None:
        raise OptionError("Proposition 3 needs the rows of the largest task; give rows (--rows).")
    e, d = mp_mtl.per_task(epsilon, delta, rows)
    values = {"record_epsilon": e, "record_delta": d}
    formula = "(epsilon/n, delta/(n exp(epsilon))) per record gives (epsilon, delta) per task of n rows"
    return Calculation("MP-MTL Proposition 3", "from records to tasks", values, formula, GROUP_PRIVACY_CAVEAT)


def _table_2(n_tasks: int, n_features: int, epsilon: float) -> Calculation:
    values = {}
    for row in mp_mtl.table_2(n_tasks, n_features, epsilon):
        speed = "accelerated" if row["acceleration"] else "plain"
        shape = "strongly convex" if row["strongly_convex"] else "convex"
        for estimator in ("low-rank", "group-sparse"):
            values[f"{row['setting']}, {speed}, {shape}, {estimator}"] = row[estimator]
    formula = "(d log d/(sqrt(m) eps))^p for low rank, (log d/(m eps))^p for group sparse"
    return Calculation("MP-MTL Table 2", "optimised rates", values, formula, mp_mtl.CAVEAT)


def _pmtl(number: int, budget: dict[str, Any], n_parameters: int, rounds: int) -> Calculation:
    """Theorem 1, or a rate at the noise it asks for."""
    if number == 1:
        return pmtl.privacy(**budget, n_rounds=rounds)
    noise = pmtl.noise_for_all(n_rounds=rounds, **budget)
    if number == 3:
        return pmtl.nonconvex(n_tasks=budget["n_tasks"], n_parameters=n_parameters, n_rounds=rounds, noise=noise)
    return pmtl.strongly_convex(n_parameters=n_parameters, n_rounds=rounds, noise=noise)
