"""Save and load fitted estimators: arrays in npz, everything else in JSON. Never pickle.

    model/
      model.json         what was fitted, with which options; names of tasks and features
      arrays.npz         models, scaling, billboards
      certificate.json   the guarantee

A task's own model and scaling are private to it. The folder as a whole is for someone entitled to all rows.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import DataError
from taskveil.estimators.parameters import check_parameters
from taskveil.estimators.saved_model import SCALING, check_arrays, check_description
from taskveil.methods.base import Billboard, Models, PublicInfo
from taskveil.methods.options import check_options
from taskveil.privacy.certificate import Certificate
from taskveil.privacy.plan import Plan
from taskveil.runtime.record import RunRecord
from taskveil.saved import read_arrays, read_json, total
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.scaling import Scaling

FORMAT = 1


def save(estimator: Any, directory: str | Path) -> Path:
    """Write a fitted estimator; the folder is created, files are replaced one by one, each atomically."""
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    record: RunRecord = estimator.record_
    arrays = {f"model/{k}": v for k, v in _models(estimator.models_).items()}
    arrays |= {f"scaling/{k}": np.ascontiguousarray(getattr(estimator.scaling_, k)) for k in SCALING}
    boards, order = _billboards(record.billboards, arrays)
    description = {
        "format": FORMAT,
        "class": type(estimator).__name__,
        "options": _plain_options(estimator),
        "method": {"name": record_name(estimator.method_), "options": _plain(estimator.method_.get_params(deep=False))},
        "task_names": list(estimator.task_names_),
        "feature_names": list(estimator.feature_names_),
        "classes": None if estimator.classes_ is None else np.asarray(estimator.classes_).tolist(),
        "bounds": None if estimator.bounds_ is None else estimator.bounds_.to_dict(),
        "scaling": {"mode": estimator.scaling_.mode, "normalise": estimator.scaling_.normalise},
        "public": record.public.to_dict(),
        "plan": record.plan.to_dict(),
        "billboards": boards,
        "billboard_order": order,
        "executed": [planned.id for planned in record.executed],
        "randomness": record.randomness,
        "seconds": record.seconds,
        "warnings": list(estimator.warnings_),
    }
    _write(folder / "arrays.npz", lambda f: np.savez_compressed(f, **arrays))  # type: ignore[arg-type]
    _write(folder / "certificate.json", lambda f: f.write(estimator.certificate_.to_json().encode()))
    _write(folder / "model.json", lambda f: f.write(json.dumps(description, indent=1).encode()))
    return folder


def load(directory: str | Path) -> Any:
    """The estimator that `save` wrote."""
    from taskveil import methods
    from taskveil.estimators.classifier import TaskClassifier
    from taskveil.estimators.regressor import TaskRegressor

    folder = Path(directory)
    about, arrays, certificate = _read(folder)
    kinds = {"TaskRegressor": TaskRegressor, "TaskClassifier": TaskClassifier}
    if about.get("format") != FORMAT or str(about.get("class")) not in kinds:
        raise DataError(
            f"{folder} holds a model of format {about.get('format')!r}; this version reads format {FORMAT}. "
            "Use the version of taskveil that wrote it."
        )
    where = str(folder / "model.json")
    with total(where):
        check_description(about, where)
        method = methods.get(about["method"]["name"], **about["method"]["options"])
        check_options(method)
        check_arrays(about, arrays, method.linear, str(folder / "arrays.npz"))
        estimator = kinds[about["class"]](**{**about["options"], "method": method})
        check_parameters(estimator)
        _restore(estimator, method, about, arrays)
    estimator.certificate_ = certificate
    return estimator


def _restore(estimator: Any, method: Any, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Fitted attributes out of checked content."""
    shift, scale, y_shift, y_scale = (arrays[f"scaling/{k}"] for k in SCALING)
    scaling = Scaling(about["scaling"]["mode"], shift, scale, y_shift, y_scale, about["scaling"]["normalise"])
    plan = Plan.from_dict(about["plan"])
    planned = {p.id: p for p in plan.releases}
    models = _models_from(arrays)
    record = RunRecord(
        models, _billboards_from(about, arrays), plan, PublicInfo(**about["public"]),
        [planned[i] for i in about["executed"]], about["randomness"], seconds=about["seconds"],
    )  # fmt: skip
    estimator.task_names_ = tuple(about["task_names"])
    estimator.feature_names_ = tuple(about["feature_names"])
    estimator.n_features_in_ = len(estimator.feature_names_)
    estimator.classes_ = None if about["classes"] is None else np.asarray(about["classes"])
    estimator.bounds_ = None if about.get("bounds") is None else PublicBounds.from_dict(_wide(about["bounds"]))
    estimator.method_, estimator.scaling_, estimator.record_, estimator.models_ = method, scaling, record, models
    estimator.n_iter_, estimator.warnings_ = record.rounds, about["warnings"]
    estimator._set_coefficients(method, scaling, models)


def _wide(bounds: dict[str, Any]) -> dict[str, Any]:
    """Declared ranges of a saved model: version 0.1 let low = high pass and scaled by one, as this width does."""
    features = {k: [v[0] - 1, v[1] + 1] if v[0] == v[1] else v for k, v in bounds.get("features", {}).items()}
    return {**bounds, "features": features}


def record_name(method: Any) -> str:
    return str(method.name)


def _read(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], Certificate]:
    for name in ("model.json", "arrays.npz", "certificate.json"):
        if not (folder / name).is_file():
            raise DataError(f"{folder} is not a saved model: {name} is missing")
    about = read_json(folder / "model.json")
    if not isinstance(about, dict):
        raise DataError(f"{folder / 'model.json'} is not a description of a model")
    with total(str(folder / "certificate.json")):
        certificate = Certificate.from_dict(read_json(folder / "certificate.json"))
    return about, read_arrays(folder / "arrays.npz"), certificate


def _models(models: Models) -> dict[str, np.ndarray]:
    arrays = {"coef": models.coef, "intercept": models.intercept}
    if models.kept is not None:
        arrays["kept"] = models.kept
    return arrays | {f"extra/{k}": v for k, v in models.extra.items()}


def _models_from(arrays: dict[str, np.ndarray]) -> Models:
    extra = {k.removeprefix("model/extra/"): v for k, v in arrays.items() if k.startswith("model/extra/")}
    return Models(arrays["model/coef"], arrays["model/intercept"], arrays.get("model/kept"), extra)


def _billboards(billboards: list[Billboard], arrays: dict[str, np.ndarray]) -> tuple[list[dict], list[int]]:
    """Add the arrays of every distinct billboard; returns their descriptions and the order they are walked in."""
    described: list[dict] = []
    seen: dict[int, int] = {}
    order = []
    for board in billboards:
        if id(board) not in seen:
            seen[id(board)] = len(described)
            arrays |= {f"billboard/{len(described)}/{k}": np.asarray(v) for k, v in board.values.items()}
            described.append({"round": board.round, "names": sorted(board.values), "per_task": sorted(board.per_task)})
        order.append(seen[id(board)])
    return described, order


def _billboards_from(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[Billboard]:
    boards = [
        Billboard(
            d["round"], {n: arrays[f"billboard/{i}/{n}"] for n in d["names"]}, frozenset(d["per_task"])
        )
        for i, d in enumerate(about["billboards"])
    ]
    return [boards[i] for i in about["billboard_order"]]


def _plain_options(estimator: Any) -> dict[str, Any]:
    dropped = {"method", "ledger", "account", "progress", "run_dir", "person", "bounds"}
    options = {k: v for k, v in estimator.get_params(deep=False).items() if k not in dropped}
    return _plain(options)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """JSON values; NumPy scalars become Python numbers, anything else must already be plain."""
    return {
        k: v.item() if isinstance(v, np.generic) else v.tolist() if isinstance(v, np.ndarray) else v
        for k, v in options.items()
    }


def _write(path: Path, writer: Any) -> None:
    """Write beside, then rename: a reader or a crash never sees half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "wb") as file:
        writer(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
