"""Which configuration an audit attacked, and whether a page or a certificate is about the same one.

A configuration is what decides a guarantee: method and its options, unit, neighbours, epsilon, delta, every statement and planned
release, public sizes, and how rows are prepared (scaling, declared ranges, levels and labels). Seeds, ledgers and folders are not
part of it. An audit of something else says nothing about this run, so it is refused rather than shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from taskveil.errors import DataError
from taskveil.privacy.fingerprint import claims_fingerprint, fingerprint


def configuration(estimator: Any) -> dict[str, Any]:
    """The configuration of a fitted or loaded estimator (or search), with its digest."""
    about: dict[str, Any] = {"claims": claims_fingerprint(estimator.certificate_.to_dict())}
    if hasattr(estimator, "estimator"):  # a search: its claims cover whatever it chooses
        about |= {"search": str(estimator.param_grid), **_options(estimator.estimator)}
    else:
        about |= _options(estimator) | _fitted(estimator)
    return {**about, "digest": fingerprint(about)}


def _options(est: Any) -> dict[str, Any]:
    names = ("unit", "neighbours", "epsilon", "aggregation", "variant", "normalise", "fit_intercept", "loss")
    return {name: _plain(getattr(est, name)) for name in names}


def _fitted(est: Any) -> dict[str, Any]:
    options = {k: _plain(v) for k, v in est.method_.flat_options().items()}
    bounds, prepared = getattr(est, "bounds_", None), getattr(est, "prepared_", None)
    return {
        "method": str(est.method_.name), "method_options": options, "scaling": est.scaling_.mode,
        "bounds": None if bounds is None else _plain(bounds.to_dict()), "tasks": len(est.task_names_),
        "features": int(est.n_features_in_), "facts": [str(f) for f in getattr(prepared, "facts", ())],
        "kind": est.record_.public.kind, "delta": est.record_.plan.budget.delta,
    }  # fmt: skip


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def differences(audit: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """What an audit's configuration and another one differ in; ["everything"] where the audit names none."""
    audited = audit.get("configuration")
    if not isinstance(audited, Mapping):
        return ["everything"]
    apart = {"digest", "claims", *(["facts"] if audited.get("table") == "made up" else [])}  # a made-up table assumes nothing
    names = [k for k in wanted if k not in apart and audited.get(k) != wanted[k]]
    return names or ([] if audited.get("claims") == wanted["claims"] else ["the planned releases"])


def check_same(audit: Mapping[str, Any], wanted: Mapping[str, Any], where: str) -> None:
    """Refuse an audit of another configuration, saying what it audited."""
    differ = differences(audit, wanted)
    if not differ:
        return
    target, claimed = audit.get("target", "?"), audit.get("claimed_epsilon", "?")
    why = "it names no configuration" if differ == ["everything"] else f"different: {', '.join(differ[:6])}"
    raise DataError(
        f"{where} holds an audit of something else ({target} at epsilon {claimed}; {why}), which says nothing about this run. "
        "Audit this configuration with `taskveil audit fit DATA ... -o DIR` (or tv.audit(est)), or remove the file."
    )
