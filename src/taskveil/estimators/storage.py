"""Load fitted estimators, and what a saved one looks like: arrays in npz, everything else in JSON. Never pickle.

    model/
      model.json         what was fitted, with which options; names of tasks and features
      arrays.npz         models, scaling, billboards
      certificate.json   the guarantee

model.json holds the record of the run from which certificate.json follows (method, sizes, plan, what was executed, randomness,
preparation), and each of the three carries a seal over all of them (privacy/seal.py): see check_folder.py.

A task's own model and scaling are private to it. The folder as a whole is for someone entitled to all rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from taskveil.checks import Place
from taskveil.errors import DataError
from taskveil.estimators.parameters import check_parameters
from taskveil.estimators.saved_model import FORMAT, READABLE, check_arrays, check_description
from taskveil.methods.base import Billboard, Method, Models, PublicInfo
from taskveil.methods.common_scale import CommonScale
from taskveil.methods.options import check_options
from taskveil.names import canary_names
from taskveil.privacy.certificate import Certificate
from taskveil.privacy.plan import Plan
from taskveil.privacy.seal import broken_seals, is_sealed
from taskveil.privacy.verification import check_events
from taskveil.runtime.run import RunRecord, executed_releases
from taskveil.saved import read_arrays, read_json, total, under
from taskveil.tasks.prepare.scaling import ARRAYS, Scaling, link_of
from taskveil.tasks.prepare.step import PublicPart
from taskveil.tasks.public_bounds import PublicBounds

FILES = ("model.json", "arrays.npz")
CLASSES = ("TaskRegressor", "TaskClassifier", "TaskSurvival")  # what a folder may hold


def load(directory: str | Path) -> Any:
    """Load an estimator that `save` wrote.

    Parameters
    ----------
    directory : path

    Returns
    -------
    TaskRegressor, TaskClassifier or TaskSurvival
        It predicts as before. Training rows are never saved, so `gain_` is not available.
    """
    from taskveil.estimators.partitioned import storage as partitioned

    Place().check("the folder of a model", directory)
    if partitioned.is_remote(directory):
        with partitioned.local_copy(str(directory)) as folder:
            return _loaded(folder, str(directory))
    return _loaded(Path(directory), str(directory))


def _loaded(folder: Path, place: str) -> Any:
    """The estimator in a folder; models in partitions are read from `place` when they are needed."""
    import taskveil

    about, arrays, certificate = read_folder(folder)
    if about.get("format") not in READABLE or str(about.get("class")) not in CLASSES:
        raise DataError(
            f"{folder} holds a model of format {about.get('format')!r}; this version reads format {FORMAT}. "
            "Use the version of taskveil that wrote it."
        )
    with total(str(folder / "model.json")):
        method, record, prepared = saved_run(about, arrays, folder, place)
        inner = method.inner if isinstance(method, CommonScale) else method
        estimator = getattr(taskveil, about["class"])(**{**about["options"], "method": inner})
        check_parameters(estimator)
        _restore(estimator, method, record, prepared, about, arrays)
    with total(str(folder / "certificate.json")):
        check_events(certificate)
    old = about["format"] == READABLE[0] and not is_sealed(certificate.to_dict(), about, arrays)
    wrong = [] if old else seal_problems(about, arrays, certificate)
    if wrong:
        raise DataError(f"{folder}: {wrong[0]}; `taskveil certify` says more")
    estimator.certificate_ = certificate
    return estimator


def seal_problems(
    about: dict[str, Any], arrays: dict[str, np.ndarray], certificate: Certificate, names: tuple[str, str] = FILES
) -> list[str]:
    """Whether the three files are those that were saved together."""
    broken = broken_seals(certificate.to_dict(), about, arrays, ("certificate.json", *names))
    if not broken:
        return []
    return [f"the files do not belong together: the seal in {', '.join(broken)} is not that of this folder's contents"]


def _restore(
    estimator: Any, method: Method, record: RunRecord, prepared: PublicPart, about: dict[str, Any], arrays: dict[str, np.ndarray]
) -> None:
    """Fitted attributes out of checked content."""
    estimator.task_names_, estimator.feature_names_ = tuple(about["task_names"]), tuple(about["feature_names"])
    estimator.n_features_in_ = len(estimator.feature_names_)
    estimator.classes_ = None if about["classes"] is None else np.asarray(about["classes"])
    estimator.bounds_ = None if about.get("bounds") is None else PublicBounds.from_dict(_wide(about["bounds"]))
    estimator.task_warnings_ = {name: tuple(sentences) for name, sentences in about.get("task_warnings", {}).items()}
    estimator.method_, estimator.record_, estimator.models_ = method, record, record.models
    estimator.n_iter_, estimator.preparation_, estimator.warnings_ = record.rounds, prepared, about["warnings"]
    units = {"own_target": prepared.own_target, "link": link_of(record.public.kind, record.public.loss)}
    scaling = Scaling.stored({k: arrays[f"scaling/{k}"] for k in ARRAYS}, {**about["scaling"], **units})
    estimator.scaling_ = scaling
    if "parts" in about:
        from taskveil.estimators.partitioned import fit

        fit.set_coefficients(estimator, record.models)  # type: ignore[arg-type]
    else:
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
    plan = Plan.from_dict(about["plan"])
    method = method.under(str(plan.budget.unit), plan.budget.variant)
    if about["scaling"]["mode"] == "private":
        method = CommonScale(method, about["options"]["scaling_share"])
    record = RunRecord(
        _models_from(about, arrays, str(folder) if place is None else place),
        _billboards_from(about, arrays), plan, PublicInfo(**about["public"]),
        executed_releases(about["executed"], {p.id: p for p in plan.releases}), about["randomness"], seconds=about["seconds"],
        charged=about.get("charged"), canaries=about.get("canaries", 0),
    )  # fmt: skip
    search = about.get("search")
    if search is not None:
        record.search = Plan.from_dict(search["plan"]), search["randomness"]
    return method, record, _prepared(about)


def _prepared(about: dict[str, Any]) -> PublicPart:
    """How the table was prepared. Version 0.1.0 noted no facts, but what else there is to know follows from its other entries."""
    names = (*about["task_names"], *canary_names(about.get("canaries", 0))), tuple(about["feature_names"])
    if about.get("preparation") is not None:
        return PublicPart.from_dict(about["preparation"], *names)
    kind, mode, bounds = about["public"]["kind"], about["scaling"]["mode"], about.get("bounds") or {}
    own_target = kind == "regression" and mode == "declared" and bounds.get("target") is None
    return PublicPart(*names, kind, "y", mode, own_target, declared_labels=bounds.get("classes") is not None)


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


def _models_from(about: dict[str, Any], arrays: dict[str, np.ndarray], place: str) -> Any:
    if "parts" in about:
        from taskveil.estimators.partitioned import storage as partitioned

        return partitioned.saved_models(about, place)
    return Models(arrays["model/coef"], arrays["model/intercept"], arrays.get("model/kept"), under(arrays, "model/extra/"))


def _billboards_from(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> list[Billboard]:
    boards = [
        Billboard(d["round"], {n: arrays[f"billboard/{i}/{n}"] for n in d["names"]}, frozenset(d["per_task"]))
        for i, d in enumerate(about["billboards"])
    ]
    return [boards[i] for i in about["billboard_order"]]
