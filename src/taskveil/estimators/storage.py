"""Save and load fitted estimators: arrays in npz, everything else in JSON. Never pickle.

    model/
      model.json         what was fitted, with which options; names of tasks and features
      arrays.npz         models, scaling, billboards
      certificate.json   the guarantee

model.json holds the record of the run from which certificate.json follows (method, sizes, plan, what was executed, randomness,
preparation), and each of the three carries a seal over all of them (privacy/seal.py): see check_folder.py.

A task's own model and scaling are private to it. The folder as a whole is for someone entitled to all rows.
"""

from __future__ import annotations

import io
import json
import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import DataError
from taskveil.estimators.parameters import check_parameters
from taskveil.estimators.saved_model import FORMAT, READABLE, SCALING, check_arrays, check_description
from taskveil.methods.base import Billboard, Method, Models, PublicInfo
from taskveil.methods.common_scale import CommonScale
from taskveil.methods.options import check_options
from taskveil.privacy.certificate import Certificate
from taskveil.privacy.plan import Plan
from taskveil.privacy.seal import SALT, SEAL, seal_of
from taskveil.runtime.record import RunRecord, executed_releases
from taskveil.saved import read_arrays, read_json, total
from taskveil.tasks.prepare.parts import PublicPart
from taskveil.tasks.prepare.scaling import Scaling
from taskveil.tasks.public_bounds import PublicBounds


def save(estimator: Any, directory: str | Path) -> Any:
    """Write a fitted estimator; the folder is created, files are replaced one by one, each atomically."""
    from taskveil.estimators.partitioned import storage as partitioned

    def files(parts: list[dict[str, Any]] | None = None) -> dict[str, bytes]:
        return sealed_files(estimator.certificate_, *described(estimator, parts))

    if hasattr(estimator.models_, "parts") or partitioned.is_remote(directory):
        return partitioned.save(estimator, str(directory), files, write_file)
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        write_file(folder / name, content)
    return folder


def described(estimator: Any, parts: list[dict[str, Any]] | None = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """model.json and the arrays beside it; models that are in `parts` are not among them."""
    record: RunRecord = estimator.record_
    method = getattr(estimator.method_, "inner", estimator.method_)  # CommonScale follows from the options
    arrays: dict[str, np.ndarray] = {}
    if parts is None:
        arrays |= {f"model/{k}": v for k, v in _models(estimator.models_).items()}
        arrays |= {f"scaling/{k}": np.ascontiguousarray(getattr(estimator.scaling_, k)) for k in SCALING}
    boards, order = _billboards(record.billboards, arrays)
    description = {
        "format": FORMAT,
        SALT: secrets.token_hex(32),
        "class": type(estimator).__name__,
        "options": _plain_options(estimator),
        "method": {"name": record_name(method), "options": _plain(method.get_params(deep=False))},
        "task_names": list(estimator.task_names_),
        "newcomer": len(estimator.task_names_) == 1 != record.public.n_tasks,  # of `adapt`: the run had other tasks
        "feature_names": list(estimator.feature_names_),
        "classes": None if estimator.classes_ is None else np.asarray(estimator.classes_).tolist(),
        "bounds": None if estimator.bounds_ is None else estimator.bounds_.to_dict(),
        "scaling": {"mode": estimator.scaling_.mode, "normalise": estimator.scaling_.normalise},
        "preparation": estimator.preparation_.to_dict(),
        "public": record.public.to_dict(),
        "plan": record.plan.to_dict(),
        "search": _search(record),
        "charged": record.charged,
        "billboards": boards,
        "billboard_order": order,
        "executed": [planned.id for planned in record.executed],
        "randomness": record.randomness,
        "seconds": record.seconds,
        "warnings": list(estimator.warnings_),
        "task_warnings": {name: list(said) for name, said in estimator.task_warnings_.items()},
        **({} if parts is None else {"parts": parts}),
    }
    return description, arrays


def sealed_files(certificate: Certificate, description: dict[str, Any], arrays: dict[str, Any]) -> dict[str, bytes]:
    """The contents of the three files, in the order in which they are written."""
    model = json.loads(json.dumps(description))
    seal = seal_of(json.loads(certificate.to_json()), model, arrays)
    sealed = replace(certificate, seal=seal)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{**arrays, SEAL: np.asarray(seal)})
    described = json.dumps({**model, SEAL: seal}, indent=1).encode()
    return {"arrays.npz": buffer.getvalue(), "certificate.json": sealed.to_json().encode(), "model.json": described}


def load(directory: str | Path) -> Any:
    """The estimator that `save` wrote.

    Parameters
    ----------
    directory : path

    Returns
    -------
    TaskRegressor or TaskClassifier
        Predicts as before. Training rows are never saved, so `gain_` is not available.
    """
    from taskveil.estimators.partitioned import storage as partitioned

    if partitioned.is_remote(directory):
        with partitioned.local_copy(str(directory)) as folder:
            return _loaded(folder, str(directory))
    return _loaded(Path(directory), str(directory))


def _loaded(folder: Path, place: str) -> Any:
    """The estimator in a folder; models in partitions are read from `place` when they are needed."""
    from taskveil.estimators.classifier import TaskClassifier
    from taskveil.estimators.regressor import TaskRegressor

    about, arrays, certificate = read_folder(folder)
    kinds = {"TaskRegressor": TaskRegressor, "TaskClassifier": TaskClassifier}
    if about.get("format") not in READABLE or str(about.get("class")) not in kinds:
        raise DataError(
            f"{folder} holds a model of format {about.get('format')!r}; this version reads format {FORMAT}. "
            "Use the version of taskveil that wrote it."
        )
    with total(str(folder / "model.json")):
        method, record, prepared = saved_run(about, arrays, folder, place)
        asked = method.inner if isinstance(method, CommonScale) else method
        estimator = kinds[about["class"]](**{**about["options"], "method": asked})
        check_parameters(estimator)
        _restore(estimator, method, record, prepared, about, arrays)
    estimator.certificate_ = certificate
    return estimator


def _restore(
    estimator: Any, method: Method, record: RunRecord, prepared: PublicPart, about: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Fitted attributes out of checked content."""
    estimator.task_names_, estimator.feature_names_ = tuple(about["task_names"]), tuple(about["feature_names"])
    estimator.n_features_in_ = len(estimator.feature_names_)
    estimator.classes_ = None if about["classes"] is None else np.asarray(about["classes"])
    estimator.bounds_ = None if about.get("bounds") is None else PublicBounds.from_dict(_wide(about["bounds"]))
    estimator.task_warnings_ = {name: tuple(said) for name, said in about.get("task_warnings", {}).items()}
    estimator.method_, estimator.record_, estimator.models_ = method, record, record.models
    estimator.n_iter_, estimator.preparation_, estimator.warnings_ = record.rounds, prepared, about["warnings"]
    if "parts" in about:
        from taskveil.estimators.partitioned import fit

        estimator.scaling_ = fit.first_scaling(record.models)  # type: ignore[arg-type]
        fit.set_coefficients(estimator, record.models)  # type: ignore[arg-type]
        return
    shift, scale, y_shift, y_scale = (arrays[f"scaling/{k}"] for k in SCALING)
    scaling = Scaling(about["scaling"]["mode"], shift, scale, y_shift, y_scale, about["scaling"]["normalise"])
    scaling = replace(scaling, own_target=prepared.own_target)
    estimator.scaling_ = scaling
    estimator._set_coefficients(method, scaling, record.models)


def _wide(bounds: dict[str, Any]) -> dict[str, Any]:
    """Declared ranges of a saved model: version 0.1 let low = high pass and scaled by one, as this width does."""
    features = {k: [v[0] - 1, v[1] + 1] if v[0] == v[1] else v for k, v in bounds.get("features", {}).items()}
    return {**bounds, "features": features}


def saved_run(
    about: dict[str, Any], arrays: dict[str, np.ndarray], folder: Path = Path(), place: str | None = None
) -> tuple[Method, RunRecord, PublicPart]:
    """The record of a run as its folder describes it; entries and arrays are checked first."""
    from taskveil import methods

    check_description(about, str(folder / "model.json"))
    method = methods.get(about["method"]["name"], **about["method"]["options"])
    check_options(method)
    check_arrays(about, arrays, method.linear, str(folder / "arrays.npz"))
    if about["scaling"]["mode"] == "private":
        method = CommonScale(method, about["options"]["scaling_share"])
    plan = Plan.from_dict(about["plan"])
    record = RunRecord(
        _models_from(about, arrays, str(folder) if place is None else place),
        _billboards_from(about, arrays), plan, PublicInfo(**about["public"]),
        executed_releases(about["executed"], {p.id: p for p in plan.releases}), about["randomness"], seconds=about["seconds"],
        charged=about.get("charged"),
    )  # fmt: skip
    search = about.get("search")
    if search is not None:
        record.search = Plan.from_dict(search["plan"]), search["randomness"]
    return method, record, _prepared(about)


def _prepared(about: dict[str, Any]) -> PublicPart:
    """How the table was prepared. Version 0.1.0 noted no facts, but what else there is to know follows from its other entries."""
    names = tuple(about["task_names"]), tuple(about["feature_names"])
    if about.get("preparation") is not None:
        return PublicPart.from_dict(about["preparation"], *names)
    kind, mode, bounds = about["public"]["kind"], about["scaling"]["mode"], about.get("bounds") or {}
    own_target = kind == "regression" and mode == "declared" and bounds.get("target") is None
    return PublicPart(*names, kind, "y", mode, own_target, declared_labels=bounds.get("classes") is not None)


def _search(record: RunRecord) -> dict[str, Any] | None:
    if record.search is None:
        return None
    plan, randomness = record.search
    return {"plan": plan.to_dict(), "randomness": randomness}


def record_name(method: Any) -> str:
    return str(method.name)


def read_folder(
    folder: Path, record: str = "model.json", values: str = "arrays.npz"
) -> tuple[dict[str, Any], dict[str, np.ndarray], Certificate]:
    """The three files of a saved run, as they are."""
    for name in (record, values, "certificate.json"):
        if not (folder / name).is_file():
            raise DataError(f"{folder} is not a saved model: {name} is missing")
    about = read_json(folder / record)
    if not isinstance(about, dict):
        raise DataError(f"{folder / record} is not a description of a model")
    with total(str(folder / "certificate.json")):
        certificate = Certificate.from_dict(read_json(folder / "certificate.json"))
    return about, read_arrays(folder / values), certificate


def _models(models: Models) -> dict[str, np.ndarray]:
    arrays = {"coef": models.coef, "intercept": models.intercept}
    if models.kept is not None:
        arrays["kept"] = models.kept
    return arrays | {f"extra/{k}": v for k, v in models.extra.items()}


def _models_from(about: dict[str, Any], arrays: dict[str, np.ndarray], place: str) -> Any:
    if "parts" in about:
        from taskveil.estimators.partitioned import storage as partitioned

        return partitioned.saved_models(about, place)
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
    dropped = {"method", "ledger", "account", "progress", "run_dir", "person", "bounds", "prior", "client"}
    options = {k: v for k, v in estimator.get_params(deep=False).items() if k not in dropped}
    if isinstance(estimator.method_, CommonScale):
        options["scaling_share"] = estimator.method_.share  # what was paid, where the method chose
    return _plain(options)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """JSON values; NumPy scalars become Python numbers, anything else must already be plain."""
    return {
        k: v.item() if isinstance(v, np.generic) else v.tolist() if isinstance(v, np.ndarray) else v
        for k, v in options.items()
    }


def write_file(path: Path, content: bytes) -> None:
    """Write beside, then rename: a reader or a crash never sees half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
