"""What may stand in a saved model: entries of model.json and shapes of its arrays. `storage.load` and the tests read these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from taskveil.checks import AnyOf, Choice, Column, Entries, Flag, ListOf, Number, Rule, Text, Whole, check_table, optional
from taskveil.errors import DataError
from taskveil.estimators.parameters import PARAMETERS
from taskveil.losses import LOSSES
from taskveil.privacy.seal import SALT, SEAL
from taskveil.privacy.statement import RANDOMNESS
from taskveil.tasks.prepare.facts import FACTS
from taskveil.tasks.prepare.scaling import ARRAYS, MODES, NORMALISE

FORMAT = 2
WORDS = "model/extra/"  # arrays under this name may hold text
READABLE = (1, FORMAT)  # 1: version 0.1.0, without seal and preparation
SIZE = Whole(1, 10**9)
NAMES = ListOf(Text(at_least=0, at_most=1_000_000))
COLUMN = AnyOf(Text(at_least=0, at_most=1_000_000), Whole(-(2**63), 2**63))  # a table may number its columns
LABEL = AnyOf(Text(at_least=0, at_most=1_000_000), Whole(-(2**63), 2**64), Flag(), Number())
PUBLIC = {
    "n_tasks": SIZE, "n_features": SIZE, "n_outputs": SIZE, "kind": Choice("regression", "classification", "survival"),
    "declared_bounds": Flag(), "unit_rows": Flag(), "fit_intercept": Flag(), "min_rows": optional(Whole(0)),
    "max_rows": optional(Whole(0)), "seed": optional(Whole(0)), "task_rows": optional(ListOf(Whole(0), at_least=0)),
    "loss": Choice(*LOSSES.names()), "prior": Entries(),
}  # fmt: skip
NOT_SAVED = ("method", "ledger", "account", "progress", "run_dir", "bounds", "prior", "client")  # parameters of one call
COLUMNS = ("exposure", "person")  # saved where they are names; else they are a value for every training row
OPTIONS: dict[str, Rule] = {
    **{name: rule for name, rule in PARAMETERS.items() if name not in NOT_SAVED},
    "class_weight": optional(AnyOf(Choice("balanced"), Entries(Number(at_least=0)))),
    **{name: optional(Column()) for name in COLUMNS},
}
PREPARATION: dict[str, Rule] = {
    "kind": PUBLIC["kind"], "target": COLUMN, "scaling": Choice(*MODES, "private"),
    "own_target": Flag(), "declared_labels": Flag(), "person": Flag(), "rows": optional(ListOf(Whole(0), at_least=0)),
    "facts": ListOf(ListOf(COLUMN, at_least=2, at_most=2), at_least=0), "cluster": Flag(),
}  # fmt: skip
LEFT_OUT = {"options": COLUMNS, "public": ("loss", "prior"), "preparation": ("cluster",), "randomness": ("note",)}
BOARD = {"round": Whole(0), "names": ListOf(Text(1000), at_least=0), "per_task": ListOf(Text(1000), at_least=0)}

MODEL: dict[str, Rule] = {
    "format": Whole(1),
    "class": Text(100),
    "options": Entries(),
    "method": Entries(entries=(("name", Text(100)), ("options", Entries()))),
    "task_names": NAMES,
    "newcomer": Flag(),
    "canaries": Whole(0, 10**9),
    "feature_names": NAMES,
    "classes": optional(ListOf(LABEL)),
    "bounds": optional(Entries()),
    "scaling": Entries(entries=(
        ("mode", Choice(*MODES, "private")), ("normalise", optional(Choice(*(n for n in NORMALISE if n)))),
    )),
    "public": Entries(),
    "plan": Entries(),
    "billboards": ListOf(Entries()),
    "billboard_order": ListOf(Whole(0)),
    "executed": ListOf(Text(1000), at_least=0),
    "randomness": Entries(),
    "seconds": Number(at_least=0),
    "warnings": ListOf(Text(at_least=0, at_most=1_000_000), at_least=0),
    "parts": ListOf(Entries(entries=(("tasks", SIZE), ("sha256", Text(64))))),
    SALT: Text(64),
    SEAL: Text(64),
    "preparation": Entries(),
    "search": optional(Entries(entries=(("plan", Entries()), ("randomness", Entries())))),
    "charged": optional(Entries(entries=(("account", Text()), ("run", Text())))),
    "task_warnings": Entries(ListOf(Text(at_least=0, at_most=1_000_000), at_least=0)),
}  # fmt: skip
NEWER = (SALT, SEAL, "preparation", "search", "charged", "task_warnings", "newcomer", "canaries")  # than version 0.1.0
OPTIONAL = ("bounds", "parts")
TABLES: dict[str, dict[str, Rule]] = {
    "public": PUBLIC, "randomness": RANDOMNESS, "options": OPTIONS, "preparation": PREPARATION,
}  # fmt: skip


def check_description(about: Any, where: str) -> None:
    """Refuse, in one line, a model.json with a wrong or missing entry; entries of later versions are left to the reader."""
    old = isinstance(about, dict) and about.get("format") == READABLE[0]
    required = tuple(name for name in MODEL if name not in (OPTIONAL + NEWER if old else OPTIONAL))
    check_table(about, MODEL, where, DataError, required, closed=False)
    for part, table in TABLES.items():
        inside = () if old else tuple(name for name in table if name not in LEFT_OUT[part])
        if part in about:
            check_table(about[part], table, f"{where}: {part}", DataError, inside, closed=False)
    for what, _ in about.get("preparation", {}).get("facts", ()):
        Choice(*FACTS).check(f"{where}: a fact of the preparation", what, DataError)
    for board in about["billboards"]:
        check_table(board, BOARD, f"{where}: billboard", DataError, tuple(BOARD), closed=False)
    for name in ("task_names", "feature_names"):
        if len(set(about[name])) != len(about[name]):
            raise DataError(f"{where}: {name} must be different names")
    if len(about["task_names"]) != n_models(about):
        raise DataError(f"{where}: task_names must be {n_models(about)} names, as the sizes say")
    if "parts" in about and sum(part["tasks"] for part in about["parts"]) != len(about["task_names"]):
        raise DataError(f"{where}: the tasks of all parts must be those of task_names")
    if len(about["feature_names"]) != about["public"]["n_features"]:
        raise DataError(f"{where}: feature_names must be {about['public']['n_features']} names, as the sizes say")


def n_models(about: Mapping[str, Any]) -> int:
    """Tasks whose models the folder holds: those of the run but for canaries, or the one that came later."""
    return 1 if about.get("newcomer") else int(about["public"]["n_tasks"]) - int(about.get("canaries", 0))


def check_arrays(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray], linear: bool, where: str) -> None:
    """Every array has the planned shape and holds finite numbers; scales are above zero."""
    m, d, r = len(about["task_names"]), about["public"]["n_features"], about["public"]["n_outputs"]
    apart = "parts" in about  # each with its own units; here are those that all tasks have, if they have them in common
    units = min(1, len(arrays.get("scaling/shift", ()))) if apart else m
    shapes: dict[str, tuple[int, ...]] = {f"scaling/{n}": (units,) if n.startswith("y_") else (units, d) for n in ARRAYS}
    if linear and not apart:
        shapes |= {"model/coef": (m, r, d), "model/intercept": (m, r)}
    for name, shape in shapes.items():
        if name not in arrays or arrays[name].shape != shape:
            got = arrays[name].shape if name in arrays else "none"
            raise DataError(f"{where}: array {name} must have shape {shape}; got {got}")
    for name, array in arrays.items():
        if array.dtype.kind == "U" and (name == SEAL or name.startswith(WORDS)):
            continue
        if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and not np.isfinite(array).all()):
            raise DataError(f"{where}: array {name} must hold finite numbers")
    if not all((arrays[f"scaling/{n}"] > 0).all() for n in ("scale", "y_scale")):
        raise DataError(f"{where}: scales must be above zero")
    if "model/kept" in arrays and arrays["model/kept"].shape != (m,):
        raise DataError(f"{where}: array model/kept must have shape {(m,)}")
