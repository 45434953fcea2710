"""Write a fitted estimator: arrays in npz, everything else in JSON. storage.py says what stands where, and reads it back."""

from __future__ import annotations

import io
import json
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.checks import Place
from taskveil.errors import DataError
from taskveil.estimators.saved_model import COLUMNS, FORMAT, NOT_SAVED
from taskveil.methods.base import Billboard, Models
from taskveil.methods.common_scale import CommonScale
from taskveil.privacy.certificate import Certificate
from taskveil.privacy.seal import SALT, SEAL, seal_of
from taskveil.runtime.run import RunRecord
from taskveil.saved import write_file


def save(estimator: Any, directory: str | Path) -> Any:
    """Write a fitted estimator; the folder is created, files are replaced one by one, each atomically."""
    from taskveil.estimators.partitioned import storage as partitioned

    def files(parts: list[dict[str, Any]] | None = None) -> dict[str, bytes]:
        return sealed_files(estimator.certificate_, *described(estimator, parts))

    Place().check("the folder of a model", directory)
    if hasattr(estimator.models_, "parts") or partitioned.is_remote(directory):
        return partitioned.save(estimator, str(directory), files)
    folder = Path(directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files().items():
            write_file(folder / name, content)
    except OSError as problem:
        raise DataError(
            f"{folder} cannot hold a model ({problem.strerror}): give the name of a folder, new or of yours"
        ) from None
    return folder


def described(estimator: Any, parts: list[dict[str, Any]] | None = None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """model.json and the arrays beside it; models that are in `parts` are not among them."""
    record: RunRecord = estimator.record_
    method = getattr(estimator.method_, "inner", estimator.method_)  # CommonScale follows from the options
    arrays: dict[str, np.ndarray] = {}
    if parts is None:
        arrays |= {f"model/{k}": v for k, v in _models(estimator.models_).items()}
    arrays |= {f"scaling/{k}": np.ascontiguousarray(v) for k, v in estimator.scaling_.arrays.items()}
    boards, order = _billboards(record.billboards, arrays)
    description = {
        "format": FORMAT,
        SALT: secrets.token_hex(32),
        "class": type(estimator).__name__,
        "options": _plain_options(estimator),
        "method": {"name": str(method.name), "options": _plain(method.flat_options())},
        "task_names": list(estimator.task_names_),
        "newcomer": len(estimator.task_names_) == 1 != record.public.n_tasks - record.canaries,  # of `adapt`
        "canaries": record.canaries,
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
        "task_warnings": {name: list(sentences) for name, sentences in estimator.task_warnings_.items()},
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
    about = json.dumps({**model, SEAL: seal}, indent=1).encode()
    return {"arrays.npz": buffer.getvalue(), "certificate.json": sealed.to_json().encode(), "model.json": about}


def _search(record: RunRecord) -> dict[str, Any] | None:
    if record.search is None:
        return None
    plan, randomness = record.search
    return {"plan": plan.to_dict(), "randomness": randomness}


def _models(models: Models) -> dict[str, np.ndarray]:
    arrays = {"coef": models.coef, "intercept": models.intercept}
    if models.kept is not None:
        arrays["kept"] = models.kept
    return arrays | {f"extra/{k}": v for k, v in models.extra.items()}


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


def _plain_options(estimator: Any) -> dict[str, Any]:
    dropped = {*NOT_SAVED, *(name for name in COLUMNS if not isinstance(getattr(estimator, name), str))}
    options = {k: v for k, v in estimator.get_params(deep=False).items() if k not in dropped}
    if isinstance(estimator.method_, CommonScale):
        options["scaling_share"] = estimator.method_.share  # what was paid, where the method chose
    return _plain(options)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """JSON values; NumPy scalars become Python numbers, anything else must already be plain."""
    return {
        k: v.item() if isinstance(v, np.generic) else v.tolist() if isinstance(v, np.ndarray) else v for k, v in options.items()
    }
