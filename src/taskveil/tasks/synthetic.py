"""Generators with known weights and known relations. Each seed is a fresh draw of everything.

    low-rank      MP-MTL (journal version) section 5.4: m = 320, 30 training and 270 test rows, d = 30, rows
                  of unit norm, noise N(0, 1), W ~ MVN(0, I, Sigma). The paper shows Sigma only as a picture;
                  fixed here: 4 equal blocks of tasks, correlation 0.99 inside a block, 0 outside, variance
                  70.
    group-sparse  the same section: the first 4 rows of W are uniform on [-50, -1] U [1, 50], all others zero
                  (we read the union as: sign at random, magnitude uniform on [1, 50]).
    hospitals     a demo that looks like a small consortium: named clinical columns, lengths of stay, most
                  hospitals alike, a few that do not fit. `hospitals-readmission` is its classification twin.
    tiny          180 tasks x 6 rows x 14 features, relation "related", "unrelated" or "noise": where sharing
                  is easily overdone.

Options are keyword arguments, or follow the name: `synthetic:low-rank?n_tasks=40,noise=0.5`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.checks import Text, check_table
from taskveil.errors import OptionError
from taskveil.registry import Table
from taskveil.tasks.arguments import MOST_CELLS, SEED, SYNTHETIC
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import TaskSet

PREFIX = "synthetic:"


@dataclass(frozen=True, eq=False)
class SyntheticData:
    """Training and test tasks and the true weights (m, d) (in scaled units for `hospitals`)."""

    train: TaskSet
    test: TaskSet
    weights: np.ndarray


def get_synthetic(name: str, seed: int = 0, **options: Any) -> SyntheticData:
    """Draw a synthetic data set whose true models are known.

    Parameters
    ----------
    name : str
        For example "hospitals" or "low-rank", with or without the prefix `synthetic:`.
    seed : int, default=0
    **options
        Options of the generator, for example n_tasks=20.

    Returns
    -------
    SyntheticData
        `train` and `test` are TaskSets.

    Examples
    --------
    >>> import taskveil as tv
    >>> tv.get_synthetic("hospitals", n_tasks=20, seed=1).train.n_tasks
    20
    """
    bare, inline = parse_name(Text(1000).check("name", name))
    make = GENERATORS.get(bare)
    chosen = {**inline, **options}
    parameters = list(inspect.signature(make).parameters)[1:]
    unknown = sorted(set(chosen) - set(parameters))
    if unknown:
        raise OptionError(f"{PREFIX}{bare} has no option {', '.join(map(repr, unknown))}; known: {', '.join(parameters)}.")
    _check_options(make, chosen)
    return make(np.random.default_rng(SEED.check("seed", seed)), **chosen)


def _check_options(make: Callable[..., SyntheticData], chosen: dict[str, Any]) -> None:
    """Every option by itself, those that belong together, and the size of what comes out."""
    check_table(chosen, SYNTHETIC)
    full = {p.name: p.default for p in inspect.signature(make).parameters.values()} | chosen
    for smaller, larger in (("min_rows", "max_rows"), ("low", "high"), ("n_active", "n_features")):
        if smaller in full and larger in full and full[smaller] > full[larger]:
            raise OptionError(f"{smaller} must be at most {larger}, {full[larger]}; got {full[smaller]}")
    rows = full.get("max_rows") or full["n_train"]
    if (
        full["n_tasks"] * (rows + (9 * rows if full["n_test"] is None else full["n_test"])) * full.get("n_features", 10)
        > MOST_CELLS
    ):
        raise OptionError(f"this data set would have more than {MOST_CELLS:g} numbers; ask for fewer tasks, rows or features")


def names() -> list[str]:
    """All generator names, with the prefix."""
    return [PREFIX + n for n in GENERATORS.names()]


def parse_name(name: str) -> tuple[str, dict[str, Any]]:
    """'synthetic:low-rank?n_tasks=40' -> ('low-rank', {'n_tasks': 40})."""
    bare, _, tail = name.removeprefix(PREFIX).partition("?")
    options: dict[str, Any] = {}
    for part in filter(None, tail.replace("&", ",").split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"options of a synthetic data set are written name=value, got {part!r}.")
        options[key.strip()] = SYNTHETIC[key.strip()].parse(value.strip()) if key.strip() in SYNTHETIC else value
    return bare, options


def low_rank(
    rng: np.random.Generator,
    *,
    n_tasks: int = 320,
    n_train: int = 30,
    n_test: int | None = None,
    n_features: int = 30,
    noise: float = 1.0,
    n_blocks: int = 4,
    correlation: float = 0.99,
    variance: float = 70.0,
) -> SyntheticData:
    """W = (d, m) with independent rows N(0, Sigma), Sigma of equal blocks.

    A shared part per block plus an own part.
    """
    shared = rng.standard_normal((n_features, n_blocks))
    own = rng.standard_normal((n_features, n_tasks))
    block = np.arange(n_tasks) * n_blocks // n_tasks
    W = np.sqrt(variance) * (np.sqrt(correlation) * shared[:, block] + np.sqrt(1 - correlation) * own)
    return _linear(rng, W.T, n_train, n_test, noise)


def group_sparse(
    rng: np.random.Generator,
    *,
    n_tasks: int = 320,
    n_train: int = 30,
    n_test: int | None = None,
    n_features: int = 30,
    noise: float = 1.0,
    n_active: int = 4,
    low: float = 1.0,
    high: float = 50.0,
) -> SyntheticData:
    """Only the first `n_active` features matter, in every task."""
    W = np.zeros((n_tasks, n_features))
    W[:, :n_active] = rng.uniform(low, high, (n_tasks, n_active)) * rng.choice([-1.0, 1.0], (n_tasks, n_active))
    return _linear(rng, W, n_train, n_test, noise)


def tiny(
    rng: np.random.Generator,
    *,
    n_tasks: int = 180,
    n_train: int = 6,
    n_test: int = 100,
    n_features: int = 14,
    noise: float = 1.0,
    relation: str = "related",
    rank: int = 2,
    unit_rows: bool = False,
) -> SyntheticData:
    """Fewer rows than features.

    Related: one mean plus `rank` directions; unrelated: independent; noise: w = 0.
    """
    if relation == "related":
        scores = rng.standard_normal((n_tasks, rank + 1))
        scores[:, 0] = 1.0
        W = scores @ rng.standard_normal((rank + 1, n_features)) / np.sqrt(rank + 1)
    elif relation == "unrelated":
        W = rng.standard_normal((n_tasks, n_features))
    else:
        W = np.zeros((n_tasks, n_features))
    return _linear(rng, W, n_train, n_test, noise, unit_rows=unit_rows)


# name, mean, spread, public low, public high, decimals
CLINICAL: tuple[tuple[str, float, float, float, float, int], ...] = (
    ("age", 62, 17, 18, 105, 0),
    ("emergency", 0.5, 0.5, 0, 1, 0),
    ("heart_rate", 84, 17, 30, 200, 0),
    ("systolic_pressure", 132, 22, 60, 240, 0),
    ("creatinine", 95, 32, 20, 400, 0),
    ("sodium", 138.5, 4.2, 110, 165, 0),
    ("haemoglobin", 12.6, 1.9, 4, 20, 1),
    ("lactate", 1.9, 0.8, 0.2, 12, 1),
    ("oxygen_saturation", 94.5, 3.2, 60, 100, 0),
    ("comorbidities", 3.1, 1.8, 0, 12, 0),
    ("earlier_admissions", 2.2, 1.5, 0, 15, 0),
    ("frailty_score", 3.6, 1.6, 0, 9, 1),
)
DAYS = (0.0, 60.0)


def hospitals(
    rng: np.random.Generator,
    *,
    n_tasks: int = 100,
    min_rows: int = 14,
    max_rows: int = 40,
    n_test: int = 120,
    rank: int = 2,
    n_outsiders: int = 4,
    noise: float = 4.5,
) -> SyntheticData:
    """Length of stay in days.

    A common pattern, two directions in which hospitals differ, and a few outsiders.
    """

    def days(score: np.ndarray, base: np.ndarray) -> np.ndarray:
        y = 16.0 + 2.0 * base + score + noise * rng.standard_normal(score.size)
        return np.round(np.clip(y, *DAYS), 1)

    return _hospital_data(rng, n_tasks, (min_rows, max_rows), n_test, rank, n_outsiders, days, "days")


def hospitals_readmission(
    rng: np.random.Generator,
    *,
    n_tasks: int = 100,
    min_rows: int = 30,
    max_rows: int = 90,
    n_test: int = 120,
    rank: int = 2,
    n_outsiders: int = 4,
    sharpness: float = 0.35,
) -> SyntheticData:
    """The same hospitals, asked whether a patient comes back within 30 days ('no', 'yes')."""

    def back(score: np.ndarray, base: np.ndarray) -> np.ndarray:
        chance = 1 / (1 + np.exp(-(-0.4 + 0.4 * base + sharpness * score)))
        return np.where(rng.random(score.size) < chance, "yes", "no")

    return _hospital_data(rng, n_tasks, (min_rows, max_rows), n_test, rank, n_outsiders, back, "readmitted")


def _linear(
    rng: np.random.Generator, W: np.ndarray, n_train: int, n_test: int | None, noise: float, *, unit_rows: bool = True
) -> SyntheticData:
    """y = x'w + noise for rows of standard normals, scaled to unit norm.

    Nine times as many test rows unless told.
    """
    m = W.shape[0]
    parts = []
    for n in (n_train, 9 * n_train if n_test is None else n_test):
        X = rng.standard_normal((m * n, W.shape[1]))
        if unit_rows:
            X /= np.linalg.norm(X, axis=1, keepdims=True)
        of = np.repeat(np.arange(m), n)
        y = np.einsum("nd,nd->n", X, W[of]) + noise * rng.standard_normal(m * n)
        bounds = PublicBounds.same(-1.0, 1.0) if unit_rows else None
        names = [f"task_{i:03d}" for i in range(m)]
        parts.append(TaskSet.from_arrays(X, y, of, task_names=names, kind="regression", bounds=bounds))
    return SyntheticData(parts[0], parts[1], W)


def _hospital_data(
    rng: np.random.Generator,
    m: int,
    rows: tuple[int, int],
    n_test: int,
    rank: int,
    n_outsiders: int,
    outcome: Callable[[np.ndarray, np.ndarray], np.ndarray],
    target: str,
) -> SyntheticData:
    """Patients of m hospitals; `outcome` makes their target of the score and of the hospital's standard normal base."""
    W = _hospital_weights(rng, m, rank, n_outsiders)
    sizes = rng.integers(rows[0], rows[1] + 1, m)
    base = rng.standard_normal(m)
    parts = []
    for n in (sizes, np.full(m, n_test)):
        Z, X = _patients(rng, int(n.sum()))
        of = np.repeat(np.arange(m), n)
        y = outcome(np.einsum("nd,nd->n", Z, W[of]), base[of])
        parts.append(_hospital_tasks(X, y, of, m, target))
    return SyntheticData(parts[0], parts[1], W)


def _hospital_weights(rng: np.random.Generator, m: int, rank: int, outsiders: int) -> np.ndarray:
    """(m, d): mean + rank directions + a little of its own.

    The outsiders get weights of their own altogether.
    """
    d = len(CLINICAL)
    mean = rng.standard_normal(d)
    mean *= 5.0 / np.linalg.norm(mean)
    directions = np.linalg.qr(rng.standard_normal((d, rank)))[0].T
    W = mean + rng.standard_normal((m, rank)) @ directions + 0.1 * rng.standard_normal((m, d))
    strange = rng.choice(m, size=min(outsiders, m), replace=False)
    other = rng.standard_normal((strange.size, d))
    W[strange] = 5.0 * other / np.linalg.norm(other, axis=1, keepdims=True)
    return W


def _patients(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardised rows and the same rows as clinical values inside their public ranges."""
    table = np.asarray([row[1:5] for row in CLINICAL], dtype=np.float64)
    mean, spread, low, high = table.T
    mixing = np.eye(len(CLINICAL)) + 0.15
    Z = rng.standard_normal((n, len(CLINICAL))) @ (mixing / np.linalg.norm(mixing, axis=0))
    X = np.clip(mean + spread * Z, low, high)
    for j, row in enumerate(CLINICAL):
        X[:, j] = np.round(X[:, j], row[5])
    X[:, 1] = Z[:, 1] > 0
    return (X - mean) / spread, X


def _hospital_tasks(X: np.ndarray, y: np.ndarray, of: np.ndarray, m: int, target: str) -> TaskSet:
    columns = [row[0] for row in CLINICAL]
    days = DAYS if target == "days" else None
    bounds = PublicBounds.from_arrays(columns, [r[3] for r in CLINICAL], [r[4] for r in CLINICAL], target=days)
    return TaskSet.from_arrays(
        X,
        y,
        of,
        task_names=[f"hospital-{i + 1:03d}" for i in range(m)],
        feature_names=columns,
        kind="regression" if target == "days" else "classification",
        classes=None if target == "days" else ["no", "yes"],
        target_name=target,
        bounds=bounds,
    )


GENERATORS: Table[Callable[..., SyntheticData]] = Table("synthetic data set")
GENERATORS.add("low-rank", low_rank)
GENERATORS.add("group-sparse", group_sparse)
GENERATORS.add("hospitals", hospitals)
GENERATORS.add("hospitals-readmission", hospitals_readmission)
GENERATORS.add("tiny", tiny)
