"""The law of isolation, tested on one configuration: what one unit holds reaches others through releases only
(docs/theory/preparation.md#isolation).

Two worlds are trained with the same noise. The second one's server publishes the first one's billboards, whatever it is sent:
with the billboards held fixed, nothing that others get may differ by a single bit. What differs is a leak that no noise covers,
so no epsilon holds.

    seen          every other task's rows as encoded, messages, model, scaling and gain: others see the difference without noise
    unproved      unit record: more than one encoded row, one summand of a message, or any scaling; a release
                  that moves further than planned: no sensitivity bounds it
    both          plan, public sizes, names, labels, certificate, shapes and number of the billboards, who took part

An estimator that refuses a table before anything was released speaks to its operator; that lies outside the law and is noted. A
failure after the first message is a leak. Words for someone entitled to all rows are not
looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from taskveil.audits.canaries import CANARY
from taskveil.audits.rehearsal import RunLog, Trained
from taskveil.methods.base import Message
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.bounds import Bounded
from taskveil.tasks.block import TaskBlock

CLAIMS = ("method", "variant", "statements", "events", "assumptions", "not_protected")  # of a certificate
SEEN = "others see it without noise: "
UNPROVED = "no sensitivity bounds it: "
ROUNDING = 1e-5  # of a sum and its noise


def leaks(first: Trained, second: Trained) -> list[str]:
    """What others would see differ although the billboards are the same; empty where the law holds."""
    if first.error is not None or second.error is not None:
        return _failures(first, second)
    differences = [] if len(first.logs) == len(second.logs) else [SEEN + "the number of runs"]
    for one, other in zip(first.logs, second.logs):
        differences += _run_leaks(one, other)
    if not hasattr(first.estimator, "estimator"):  # a search ends with a choice, which is itself a paid release
        differences += _differing(_results(first.estimator, first.logs[0]), _results(second.estimator, second.logs[0]))
        differences += _scaling_leaks(first.estimator, second.estimator)
    return list(dict.fromkeys(differences))


def _failures(first: Trained, second: Trained) -> list[str]:
    if any(t.error is not None and not t.refused for t in (first, second)):
        kinds = {type(t.error).__name__ for t in (first, second) if t.error is not None}
        if (first.error is None) != (second.error is None) or len(kinds) > 1:
            return [f"{SEEN}the run fails in one world only ({', '.join(sorted(kinds))}), after rows were used"]
    return []


def _run_leaks(one: RunLog, other: RunLog) -> list[str]:
    unit = str(one.plan.budget.unit)
    differences = _differing(_public(one), _public(other))
    if unit == "task":
        differences += _differing(_encoded_rows(one.block), _encoded_rows(other.block))
    else:
        differences += _rows_changed(one.block, other.block)
    if len(one.messages) != len(other.messages):
        return [*differences, SEEN + "the number of messages"]
    for (number, a), (_, b) in zip(one.messages, other.messages):
        differences += _message_leaks(number, a, b, unit, one.block.n_tasks)
    return [*differences, *_moved_too_far(one, other)]


def _moved_too_far(one: RunLog, other: RunLog) -> list[str]:
    """With the same noise, two noisy sums differ by what the unit moved them: at most the planned sensitivity."""
    if one.plan.budget.variant != "sound" or one.plan.budget.aggregation == "secure":  # a secure sum rounds at random
        return []
    allowed = {p.name: (p.contribution.sensitivity("replace-one").l2, p.mechanism.scale) for p in one.plan.releases}
    moved = {
        name for a, b in zip(one.releases, other.releases) for name in a
        if name in allowed and a[name].shape == b[name].shape
        and np.linalg.norm(a[name] - b[name]) > allowed[name][0] + ROUNDING * sum(allowed[name])
    }  # fmt: skip
    return [f"{UNPROVED}release {name!r} moves further than planned" for name in sorted(moved)]


def _public(log: RunLog) -> dict[str, Any]:
    """What a run may be known by, before and besides its releases."""
    shapes = [
        (b.round, b.done, sorted((n, np.shape(v), str(np.asarray(v).dtype)) for n, v in b.values.items())) for b in log.made
    ]
    took_part = [None if b.accepted is None else np.delete(b.accepted, CANARY).tolist() for b in log.made]
    return {
        "the plan of releases": log.plan.to_dict(), "the public sizes": log.public.to_dict(),
        "the shapes of the billboards": shapes, "who took part": took_part,
        "the options of the method": repr(log.method.flat_options()),
    }  # fmt: skip


def _encoded_rows(block: TaskBlock) -> dict[str, Any]:
    others = slice(int(block.offsets[CANARY + 1]), None)
    return {
        "other tasks' encoded rows": np.asarray(block.X[others]), "other tasks' encoded targets": np.asarray(block.y[others]),
        "other tasks' sizes": block.sizes[CANARY + 1 :],
    }  # fmt: skip


def _rows_changed(one: TaskBlock, other: TaskBlock) -> list[str]:
    """Unit record: at most one encoded row differs."""
    if one.X.shape != other.X.shape or not np.array_equal(one.offsets, other.offsets):
        return [UNPROVED + "one raw row changed, the number of encoded rows or columns differs"]
    changed = ~(_same_rows(one.X, other.X) & _same_rows(one.y, other.y))
    return [] if changed.sum() <= 1 else [UNPROVED + "one raw row changed, several encoded rows differ"]


def _same_rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.all((a == b) | (np.isnan(a) & np.isnan(b)), axis=tuple(range(1, a.ndim)))


def _message_leaks(side: int, a: Message, b: Message, unit: str, n_tasks: int) -> list[str]:
    if side != CANARY:  # asynchronous: a side per task
        return _differing(_plain(a), _plain(b), SEEN + "other tasks' messages: ")
    differences = []
    for name in a:
        one, other = a[name], b.get(name)
        if isinstance(one, RowGradients) and isinstance(other, RowGradients):
            differences += _gradient_leaks(one, other, unit)
        elif isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and one.shape[:1] == (n_tasks,):
            differences += _differing({name: one[CANARY + 1 :]}, {name: other[CANARY + 1 :]}, SEEN + "other tasks' messages: ")
    return differences


def _gradient_leaks(one: RowGradients, other: RowGradients, unit: str) -> list[str]:
    if unit == "task":
        a, b = (np.concatenate([g.X, g.slopes], axis=1)[g.offsets[CANARY + 1] :] for g in (one, other))
        return [] if _same(a, b) else [SEEN + "other tasks' messages: row gradients"]
    if one.X.shape != other.X.shape:
        return [UNPROVED + "the number of summands differs"]
    changed = ~(_same_rows(one.X, other.X) & _same_rows(one.slopes, other.slopes))
    return [] if changed.sum() <= 1 else [UNPROVED + "one raw row changed, several summands of a message differ"]


def _plain(message: Message) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, raw in message.items():
        if isinstance(raw, RowGradients):
            values |= {f"{name} rows": raw.X, f"{name} slopes": raw.slopes}
        else:
            values[name] = raw.contribution.total(raw) if isinstance(raw, Bounded) else raw
    return values


def _results(est: Any, log: RunLog) -> dict[str, Any]:
    """What others hold in the end."""
    public = "public" in log.method.disclosure(log.public, log.plan).observers
    keep = slice(0 if public else CANARY + 1, None)
    certificate = {k: v for k, v in est.certificate_.to_dict().items() if k in CLAIMS}
    results: dict[str, Any] = {
        "the certificate": certificate, "the names of tasks": est.task_names_, "the names of columns": est.feature_names_,
        "the labels": None if est.classes_ is None else np.asarray(est.classes_).tolist(),
    }  # fmt: skip
    m, own = len(est.task_names_), est.task_names_[CANARY]
    warned = getattr(est, "task_warnings_", {})
    results["other tasks' warnings"] = {name: words for name, words in warned.items() if name != own}
    arrays = {"coef": est.models_.coef, "intercept": est.models_.intercept, "kept": est.models_.kept, **est.models_.extra}
    for name in ("coef_", "intercept_"):
        arrays[name] = getattr(est, name, None)
    measured = est.method_.linear and not est.method_.shares_nothing
    if measured:
        arrays |= {f"gain_.{n}": getattr(est.gain_, n) for n in ("error_alone", "error_shared", "kept_shared")}
    for name, value in arrays.items():
        if value is not None and np.shape(value)[:1] == (m,):
            part = slice(CANARY + 1, None) if name.startswith("gain_") else keep
            results[f"other tasks' models: {name}"] = np.asarray(value)[part]
    return results


def _scaling_leaks(first: Any, second: Any) -> list[str]:
    """A task's own scaling stays with it; where single rows are protected no scaling may follow them."""
    record = str(first.unit) == "record"
    part = slice(None) if record else slice(CANARY + 1, None)
    a, b = ({f"the scaling ({n})": np.array(v[part]) for n, v in est.scaling_.arrays.items()} for est in (first, second))
    return _differing(a, b, UNPROVED if record else SEEN)


def _differing(first: Mapping[str, Any], second: Mapping[str, Any], prefix: str = SEEN) -> list[str]:
    """Names under which the two do not hold the same bits."""
    return [prefix + name for name in first if not _same(first[name], second.get(name))]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
    return bool(a == b)
