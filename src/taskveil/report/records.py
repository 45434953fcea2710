"""What a page is made of: the records of a run or a comparison, read from an estimator or from a folder.

model.json, arrays.npz, certificate.json    written by `fit -o` (estimators.storage)
gain.json                                   every task's own estimate of what sharing brought it; written with the page,
                                            because training rows are never saved; of tasks in partitions a summary,
                                            and parts/gain-*.parquet
results.json                                written by `compare -o` and `demo`
audit.json, audit-*.json                    results of `taskveil audit fit -o`; one of another configuration is refused
certificate.json, billboard.npz, run.json   written by `serve`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from taskveil import saved
from taskveil.checks import Entries, ListOf, Number, Rule, Text, Whole, check_table
from taskveil.errors import DataError
from taskveil.privacy.certificate import Certificate
from taskveil.privacy.fingerprint import claims_fingerprint
from taskveil.privacy.plan import Plan
from taskveil.privacy.seal import SEAL
from taskveil.saved import read_arrays

GAIN = "gain.json"
WORDS = Text(at_least=0, at_most=100_000)
AUDIT: dict[str, Rule] = {  # what a page or an export reads of an audit
    "target": WORDS, "claimed_epsilon": Number(at_least=0), "lower_bound": Number(at_least=0), "verdict": WORDS,
    "delta": Number(at_least=0, at_most=1), "confidence": Number(at_least=0, at_most=1), "unit": WORDS, "neighbours": WORDS,
    "observer": WORDS,
    "note": WORDS, "leaks": ListOf(WORDS, at_least=0),
}  # fmt: skip
FIGURES: dict[str, Rule] = {  # of one task
    "error_alone": Number(), "error_shared": Number(), "kept": WORDS, "rows": Whole(0), "clipped": Number(at_least=0, at_most=1),
    "typical_error_alone": Number(), "typical_error_shared": Number(),
}  # fmt: skip

REQUIRED = ("error_alone", "error_shared", "kept")
SUMMARY: dict[str, Rule] = {  # of tasks in partitions
    "tasks": Whole(1), "kept": Whole(0), "gaining": Whole(0), "median_change": Number(), "counts": Entries(Whole(0)),
}  # fmt: skip


@dataclass(frozen=True)
class Board:
    """One billboard: what everybody saw after a round."""

    round: int
    values: Mapping[str, np.ndarray]
    per_task: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Run:
    """Everything a page may draw on. `audience.cut` removes what a reader may not see before anything is drawn."""

    certificate: Certificate | None = None
    plan: Plan | None = None
    public: Any = None  # PublicInfo
    boards: tuple[Board, ...] = ()
    task_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    gain: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    gain_metric: str = ""
    gain_summary: Mapping[str, Any] = field(default_factory=dict)  # counts over tasks, where models are in partitions
    coefficients: Mapping[str, np.ndarray] = field(default_factory=dict)
    survival: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)  # each task's own curves
    warnings: tuple[str, ...] = ()
    task_warnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # each for the owner of that task
    seconds: float | None = None
    table: str = ""  # name of the file or data set
    comparison: Mapping[str, Any] | None = None
    audits: tuple[Mapping[str, Any], ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)  # of tasks, declared by whoever writes the page

    @property
    def linear(self) -> bool:
        """Whether every task has coefficients."""
        return bool(self.coefficients) or isinstance(self.coefficients, OneByOne)

    @property
    def holds(self) -> bool:
        return self.certificate is not None and self.certificate.holds


def from_estimator(estimator: Any, gain: Mapping[str, Any] | None = None, **more: Any) -> Run:
    """The records of a fitted (or loaded) estimator."""
    record = estimator.record_
    gain = gain or {}
    check_figures(gain)
    own = estimator.certificate_.audit  # what `tv.audit(estimator)` found
    more["audits"] = (*([own] if own else []), *more.get("audits", ()))
    for audit in more["audits"]:
        from taskveil.audits.configuration import check_same, configuration  # with all audits: most pages show none

        check_table(audit, AUDIT, "an audit of this run", DataError, closed=False)
        check_same(audit, configuration(estimator), "this page's folder or certificate")
    linear = bool(estimator.method_.linear)
    return Run(
        certificate=estimator.certificate_,
        plan=record.plan,
        public=record.public,
        boards=tuple(Board(b.round, b.values, b.per_task) for b in _ends(record.billboards)),
        task_names=tuple(map(str, estimator.task_names_)),
        feature_names=tuple(map(str, estimator.feature_names_)),
        options=settings(estimator),
        gain=_own_gains(estimator) if in_partitions(estimator) else gain.get("tasks", {}),
        gain_metric=gain.get("metric", ""),
        gain_summary=gain.get("summary", {}),
        coefficients=_coefficients(estimator) if linear else {},
        survival=_own_curves(estimator),
        warnings=tuple(estimator.warnings_),
        task_warnings=estimator.task_warnings_,
        seconds=record.seconds,
        **more,
    )


def _own_curves(estimator: Any) -> dict[str, dict[str, np.ndarray]]:
    """Kaplan-Meier curve and times of every task of a survival model."""
    extra = getattr(estimator.models_, "extra", {})
    if "curve_kaplan_meier" not in extra:
        return {}
    pairs = zip(map(str, estimator.task_names_), extra["curve_times"], extra["curve_kaplan_meier"])
    return {name: {"times": times, "kaplan_meier": curve} for name, times, curve in pairs}


def _coefficients(estimator: Any) -> Mapping[str, np.ndarray]:
    names, models = estimator.task_names_, estimator.models_
    if in_partitions(estimator):
        return OneByOne(lambda name: np.squeeze(models.take(np.asarray([names.index(name)]))[0].coef[0]))
    return dict(zip(map(str, names), estimator.coef_))


def _own_gains(estimator: Any) -> Mapping[str, Mapping[str, Any]]:
    from taskveil.estimators.partitioned.gain import own_figures

    def read_figures(name: str) -> dict[str, Any]:
        figures = own_figures(estimator.models_, estimator.task_names_, name)
        check_table(figures, FIGURES, "a task's figures", DataError, REQUIRED, closed=False)
        return figures

    return OneByOne(read_figures)


def in_partitions(estimator: Any) -> bool:
    """Whether models are on a cluster or in files of their own."""
    return hasattr(estimator.models_, "parts")


class OneByOne(Mapping[str, Any]):
    """What there is about tasks in partitions: nothing to look through, and one task's out of its own partition."""

    def __init__(self, read: Callable[[str], Any]):
        self.read = read

    def __getitem__(self, name: str) -> Any:
        return self.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def settings(estimator: Any) -> dict[str, Any]:
    """Options of the run, all of them public by the certificate's assumptions; the seed of test noise is not shown."""
    hidden = {
        "method", "ledger", "account", "progress", "run_dir", "person", "bounds", "insecure_noise_seed", "task_column", "client",
    }  # fmt: skip
    hidden |= {"missing"} if estimator.missing == "error" else set()  # a table was filled before, if at all: the notes say so
    hidden |= set() if isinstance(estimator.exposure, str) else {"exposure"}  # one number for every training row
    plain = {k: v for k, v in estimator.get_params(deep=False).items() if k not in hidden and v is not None}
    own = {f"method: {k}": v for k, v in estimator.method_.flat_options().items() if v is not None}
    canaries = {"canary tasks among the tasks": estimator.record_.canaries} if estimator.record_.canaries else {}
    return {"method": estimator.method_.name, **plain, "scaling": estimator.scaling_.mode, **own, **canaries}


def measured_gain(estimator: Any, folder: Path | None = None) -> dict[str, Any]:
    """`gain_` as plain data, or nothing for a method that has none; partitions write theirs into the folder of the models."""
    if not estimator.method_.linear or estimator.method_.shares_nothing:
        return {}
    if in_partitions(estimator):
        from taskveil.estimators.partitioned.gain import write_gain

        loaded = getattr(estimator, "_lazy", None) is None  # from files, without its rows
        return {} if loaded or folder is None else write_gain(estimator, str(folder))
    gain = estimator.gain_
    return {"metric": gain.metric, "tasks": gain.to_dict()}


def read(folder: Path) -> Run:
    """Whatever a command left in a folder: a fit, a comparison, a demo (both), or a federation's results."""
    comparison = read_json(folder / "results.json")
    audits = tuple(a for path in sorted(folder.glob("audit*.json")) for a in _audits(read_json(path)))
    more = {"comparison": comparison, "audits": audits}
    for place in (folder, folder / "model"):
        if (place / "model.json").exists():
            from taskveil.estimators.storage import load

            return from_estimator(load(place), read_json(place / GAIN), table=_table(place), **more)
    if (folder / "certificate.json").exists():
        return _federation(folder, audits)
    if audits:
        raise DataError(f"{folder} holds an audit, but no model it could be about; remove audit*.json")
    if comparison is None:
        raise DataError(
            f"{folder} holds nothing to report: expected what `taskveil fit -o`, `compare -o`, `demo` or `serve` writes there"
        )
    return Run(**more)


def _table(folder: Path) -> str:
    """The table that `fit` read, without its place on the machine; empty where the models were made another way."""
    began = read_json(folder / "run" / "command.json")
    data = began.get("data") if isinstance(began, dict) else None
    return Path(data).name if isinstance(data, str) else ""


def _federation(folder: Path, audits: tuple[Mapping[str, Any], ...]) -> Run:
    """Results of a server: all of it public already."""
    certificate = Certificate.from_dict(saved.read_json(folder / "certificate.json"))
    for audit in audits:
        from taskveil.audits.configuration import check_same

        check_table(audit, AUDIT, "an audit of this run", DataError, closed=False)
        check_same(audit, {"claims": claims_fingerprint(certificate.to_dict())}, "this page's folder")
    boards: tuple[Board, ...] = ()
    if (folder / "billboard.npz").exists():
        stored = read_arrays(folder / "billboard.npz")
        boards = (Board(0, {}), Board(1, {name: value for name, value in stored.items() if name != SEAL}))
    about = read_json(folder / "run.json") or {}
    plain = {k: v for k, v in about.items() if isinstance(v, (str, int, float, bool)) and k != SEAL}
    return Run(certificate=certificate, boards=boards, options={"method": certificate.method, **plain}, audits=audits)


def read_json(path: Path) -> Any:
    """A JSON document, or None where there is no such file."""
    return saved.read_json(path) if path.exists() else None


def _audits(document: Any) -> list[Mapping[str, Any]]:
    """One audit, or several in a list or under 'results'."""
    if isinstance(document, dict):
        document = document.get("results", [document])
    return [a for a in document if isinstance(a, dict)] if isinstance(document, list) else []


def check_figures(gain: Any) -> None:
    """Refuse, in one line, figures of tasks that are no figures: gain.json is not sealed."""
    rules: dict[str, Rule] = {"metric": WORDS, "tasks": Entries(Entries()), "summary": Entries()}
    check_table(gain, rules, GAIN, DataError, closed=False)
    for figures in gain.get("tasks", {}).values():
        check_table(figures, FIGURES, f"{GAIN}: a task", DataError, REQUIRED, closed=False)
    if "summary" in gain:
        check_table(gain["summary"], SUMMARY, f"{GAIN}: the summary", DataError, tuple(SUMMARY))


def read_groups(path: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Declared groups of tasks: {task: group} in a .json or .toml file. A name that is no task here is refused."""
    groups = Entries(Text(1000)).check(f"{path}: the groups of tasks", saved.read_table(path))
    unknown = sorted(set(groups) - set(names))
    if unknown:
        raise DataError(f"{path} names {unknown[0]!r}, which is no task of this run; take it out, or correct the name")
    return dict(groups)


def _ends(billboards: list[Any]) -> list[Any]:
    """Before and after: the first and the last."""
    return [billboards[0], billboards[-1]] if len(billboards) > 1 else list(billboards)
