"""`prior=`: a model folder, or a file with coefficients, as a public prior of a run (methods/public_prior.py).

folder   of a saved model: values of its last billboard only, never a task's model; features, kind and scaling must agree
.json    {"coef": {feature: value} or a list, "origin": "where it is from"}; features that are not named have 0
.npz     arrays coef (features,) or (outputs, features), and origin (text)
table    the same as the JSON document, in Python
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.checks import Text
from taskveil.errors import DataError, OptionError
from taskveil.methods.base import PublicInfo
from taskveil.methods.public_prior import PublicPrior
from taskveil.saved import read_arrays, read_bytes, read_json, total

LARGEST = 1e3  # of a coefficient: rows are of size one
READ = ("mean", "share", "basis", "features")


def read_prior(given: Any, public: PublicInfo, feature_names: Sequence[str], scaling: str) -> PublicPrior:
    """The prior that was asked for, checked against public sizes before any row is used."""
    if isinstance(given, Mapping):
        return _stated(given, _digest(json.dumps(given, default=str).encode()), public, feature_names)
    if not isinstance(given, str | Path):
        raise OptionError(f"prior must be a model folder, a file or a table; got {type(given).__name__}")
    path = Path(given)
    if os.path.isdir(path):
        return _billboard(path, public, feature_names, scaling)
    table: Any = read_arrays(path) if path.suffix.lower() == ".npz" else read_json(path)
    if not isinstance(table, Mapping):
        raise DataError(f"{path} is no prior: expected coef and origin")
    return _stated(table, _digest(read_bytes(path)), public, feature_names)


def _stated(table: Mapping[str, Any], digest: str, public: PublicInfo, names: Sequence[str]) -> PublicPrior:
    """Coefficients from public data or a textbook."""
    origin = Text(500).check("the origin of a prior", str(table.get("origin", "")) or None, DataError)
    coef = table.get("coef")
    if isinstance(coef, Mapping):
        unknown = sorted(set(map(str, coef)) - set(names))
        if unknown:
            raise DataError(f"the prior names {', '.join(unknown[:5])}, which is no feature here")
        coef = [coef.get(name, 0.0) for name in names]
    with total("the prior"):
        mean = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    _check({"mean": mean}, public)
    return PublicPrior(origin, digest, False, _rows(mean))


def _billboard(folder: Path, public: PublicInfo, names: Sequence[str], scaling: str) -> PublicPrior:
    """The last billboard of a saved model. Of its arrays only those of billboards are opened."""
    about = read_json(folder / "model.json")
    with total(str(folder / "model.json")):
        last = about["billboard_order"][-1]
        board, mode, origin = about["billboards"][last], about["scaling"]["mode"], _origin(about)
        same = (list(about["feature_names"]) == list(names), about["public"]["kind"] == public.kind, mode == scaling)
    if not all(same):
        what = ("features", "kind", "scaling")[same.index(False)]
        raise OptionError(f"the prior's model has other {what} than this run; use the same, or give coefficients in a file")
    path = folder / "arrays.npz"
    with total(str(path)), np.load(path, allow_pickle=False) as stored:
        shared = set(board["names"]) - set(board["per_task"])
        values = {n: stored[f"billboard/{last}/{n}"].astype(np.float64) for n in READ if n in shared}
    if "mean" not in values and "share" not in values and "features" not in values:
        raise OptionError("the prior's last billboard holds neither a mean nor directions; use a model of 'subspace' or 'mean'")
    d, r = public.n_features, public.n_outputs
    values = {"mean": np.zeros((r, d)), **values}
    _check(values, public)
    digest = _digest(b"".join(np.ascontiguousarray(values[n]).tobytes() for n in sorted(values)))
    whole: dict[str, Any] = {n: _rows(v) if v.ndim == 2 else tuple(v.tolist()) for n, v in values.items()}
    return PublicPrior(origin, digest, True, **whole)


def _origin(about: Mapping[str, Any]) -> str:
    epsilon = about["plan"]["budget"]["epsilon"]
    budget = "without privacy" if epsilon is None else f"epsilon {epsilon:g}"
    return f"last billboard of a saved model, method {about['method']['name']}, {budget}"


def _check(values: Mapping[str, np.ndarray], public: PublicInfo) -> None:
    d, r = public.n_features, public.n_outputs
    shapes = {"mean": (r, d), "share": (d,), "basis": (d, d), "features": (d,)}
    for name, value in values.items():
        most = LARGEST if name == "mean" else 1.0 + 1e-6
        if value.shape != shapes[name] or not np.isfinite(value).all() or np.abs(value).max(initial=0.0) > most:
            raise DataError(f"the prior's {name} must be {shapes[name]} finite numbers of size at most {most:g}")


def _rows(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
