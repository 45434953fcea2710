"""Theorems by name, from the sizes a plan knows: the calculators behind `taskveil plan --theorem`.

Names: "2" to "16" (or "mp-mtl-2"), "prop-3", "table-2", "pmtl-1", "pmtl-3", "pmtl-5", and "all".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from taskveil.calculators import mp_mtl, pmtl
from taskveil.calculators.base import Calculation
from taskveil.errors import OptionError, UnknownName

PAPER_STRONG_CONVEXITY = 1e-3
"""mu of MP-MTL section 5.2."""
GROUP_PRIVACY_CAVEAT = (
    "group privacy over all rows of a task: sound, and very noisy; accountants for the task as the unit do better"
)


@dataclass(frozen=True)
class _Question:
    n_tasks: int
    n_features: int
    epsilon: float
    delta: float
    rows: int | None
    rounds: int


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
    question = _Question(n_tasks, n_features, epsilon, delta, rows, rounds or 50)
    answers: list[Calculation] = []
    for name in wanted:
        for key in names() if name == "all" else [_key(name)]:
            answers += _answer(key, question, everything=name == "all")
    return [{**a.to_dict(), "name": f"{a.number}: {a.name}"} for a in answers]


def _key(name: str) -> str:
    key = f"mp-mtl-{name}" if name.isdigit() else name.strip().lower()
    if key not in names():
        raise UnknownName(f"unknown theorem {name!r}: expected one of {', '.join(names())}, or all.")
    return key


def _answer(key: str, q: _Question, everything: bool) -> list[Calculation]:
    special: dict[str, Callable[[_Question], list[Calculation]]] = {"table-2": _table_2, "pmtl-1": _pmtl_1}
    if key in special:
        return special[key](q)
    if key == "prop-3":
        return [] if everything and q.rows is None else [_prop_3(q)]
    if key.startswith("pmtl-"):
        return [_pmtl_rate(int(key.removeprefix("pmtl-")), q)]
    return _mp_mtl(int(key.removeprefix("mp-mtl-")), q)


def _mp_mtl(number: int, q: _Question) -> list[Calculation]:
    """Without and with acceleration; the allocation theorems hold both in one answer."""
    both = (False, True) if number in mp_mtl.CASES else (True,)
    out = []
    for fast in both:
        c = mp_mtl.theorem(
            number,
            n_tasks=q.n_tasks,
            n_features=q.n_features,
            epsilon=q.epsilon,
            delta=q.delta,
            acceleration=fast,
            strong_convexity=PAPER_STRONG_CONVEXITY,
        )
        label = f"{c.name}, {'accelerated' if fast else 'no acceleration'}" if len(both) > 1 else c.name
        out.append(Calculation(c.number, label, c.values, c.formula, c.caveat))
    return out


def _prop_3(q: _Question) -> Calculation:
    if q.rows is None:
        raise OptionError("Proposition 3 needs the rows of the largest task; give rows (--rows).")
    e, d = mp_mtl.per_task(q.epsilon, q.delta, q.rows)
    values = {"record_epsilon": e, "record_delta": d}
    formula = "(epsilon/n, delta/(n exp(epsilon))) per record gives (epsilon, delta) per task of n rows"
    return Calculation("MP-MTL Proposition 3", "from records to tasks", values, formula, GROUP_PRIVACY_CAVEAT)


def _table_2(q: _Question) -> list[Calculation]:
    values = {}
    for row in mp_mtl.table_2(q.n_tasks, q.n_features, q.epsilon):
        speed = "accelerated" if row["acceleration"] else "plain"
        shape = "strongly convex" if row["strongly_convex"] else "convex"
        for estimator in ("low-rank", "group-sparse"):
            values[f"{row['setting']}, {speed}, {shape}, {estimator}"] = row[estimator]
    formula = "(d log d/(sqrt(m) eps))^p for low rank, (log d/(m eps))^p for group sparse"
    return [Calculation("MP-MTL Table 2", "optimised rates", values, formula, mp_mtl.CAVEAT)]


def _pmtl_1(q: _Question) -> list[Calculation]:
    sizes = {"n_tasks": q.n_tasks, "n_rounds": q.rounds, "epsilon": q.epsilon, "delta": q.delta}
    return [pmtl.theorem(1, **sizes)]


def _pmtl_rate(number: int, q: _Question) -> Calculation:
    noise = pmtl.noise_for_all(q.n_tasks, q.rounds, q.epsilon, q.delta)
    sizes: dict[str, Any] = {"n_parameters": q.n_features, "n_rounds": q.rounds, "noise": noise}
    if number == 3:
        sizes["n_tasks"] = q.n_tasks
    return pmtl.theorem(number, **sizes)
