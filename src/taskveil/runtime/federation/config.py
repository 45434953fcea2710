"""The files of a federation, in TOML. federation.toml is public and the same for everybody; site.toml is a site's own.

From federation.toml alone everybody computes the same sizes, the same method and the same plan (hence the same fingerprint):
that is how a site checks what it is asked for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from taskveil import methods
from taskveil.errors import DataError, OptionError
from taskveil.methods.base import Method, PublicInfo
from taskveil.privacy.guarantees import check_new_delta
from taskveil.privacy.plan import Budget, Plan, make_plan
from taskveil.privacy.secure_options import SecureOptions
from taskveil.runtime.driver import Rules
from taskveil.tasks.prepare.step import PrepareRules, own_units
from taskveil.tasks.public_bounds import PublicBounds

SECTIONS = {
    "federation": {"name", "host", "port", "hosts"},
    "data": {"kind", "features", "target", "classes", "bounds", "fit_intercept", "normalise"},
    "run": {
        "method",
        "options",
        "epsilon",
        "delta",
        "unit",
        "neighbours",
        "mechanism",
        "accountant",
        "aggregation",
        "secure",
        "seed",
    },
    "rules": {"deadline", "min_sites", "attempts", "pause", "max_bytes", "answer_at"},
}
SITE_SECTIONS = {
    "site": {"name", "federation", "server", "authority", "key", "state"},
    "data": {"task", "target"},
    "limit": {"epsilon", "delta", "record_epsilon", "record_delta", "ledger", "account"},
}


@dataclass(frozen=True)
class Member:
    """A site as the federation knows it: public name, its tasks, its public key, declared numbers of rows."""

    name: str
    tasks: tuple[str, ...]
    key: str
    rows: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Federation:
    """federation.toml, checked."""

    folder: Path
    name: str
    host: str
    port: int
    data: dict[str, Any]
    run: dict[str, Any]
    members: tuple[Member, ...]
    rules: Rules = field(default_factory=Rules)
    hosts: tuple[str, ...] = ()

    @property
    def task_names(self) -> list[str]:
        return [task for member in self.members for task in member.tasks]

    def positions(self, site: str) -> list[int]:
        """Places of a site's tasks among all tasks."""
        names = self.task_names
        return [names.index(task) for task in self.member(site).tasks]

    def member(self, site: str) -> Member:
        for member in self.members:
            if member.name == site:
                return member
        known = ", ".join(m.name for m in self.members)
        raise OptionError(f"the federation has no site {site!r}; it has {known}")

    def method(self) -> Method:
        method = methods.get(self.run.get("method", "subspace"), **self.run.get("options", {}))
        return method.under(self.run.get("unit", "task"))

    def bounds(self) -> PublicBounds | None:
        return PublicBounds.coerce(self.data.get("bounds"))

    def preparation(self) -> PrepareRules:
        """How every site prepares its rows: the same step, and the same refusals, as a run in one process."""
        unit, private = self.run.get("unit", "task"), self.run.get("epsilon") is not None
        return PrepareRules(unit, private, normalise=self.data.get("normalise"))

    def own_units(self) -> bool:
        """Whether sites scale by statistics of their own; refuses what the unit does not allow."""
        return own_units(self.preparation(), self.data["kind"], self.bounds(), self.data["features"])

    def public(self) -> PublicInfo:
        classes = self.data.get("classes", [])
        rows = [m.rows for m in self.members]
        record = self.run.get("unit", "task") == "record"
        if record and any(r is None for r in rows):
            raise OptionError(
                "unit 'record' needs the public number of rows of every task: add rows = [...] to each site"
            )
        return PublicInfo(
            n_tasks=len(self.task_names),
            n_features=len(self.data["features"]),
            n_outputs=len(classes) if len(classes) > 2 else 1,
            kind=self.data["kind"],
            declared_bounds="bounds" in self.data,
            unit_rows=self.data.get("normalise") == "row",
            fit_intercept=bool(self.data.get("fit_intercept", True)),
            seed=self.run.get("seed"),
            task_rows=tuple(n for r in rows for n in r or ()) if record else None,
        )

    def roster(self) -> dict[int, bytes]:
        """Every site's public key, from beside federation.toml: who may sign in secure sums."""
        from taskveil.runtime.secure.keys import node_public

        roster = {}
        for index, member in enumerate(self.members):
            path = self.folder / member.key
            if not path.exists():
                raise DataError(
                    f"aggregation 'secure' needs the public key of every site: {member.key} is missing beside "
                    f"federation.toml. Ask site {member.name!r} or whoever runs the server for it."
                )
            roster[index] = node_public(path.read_bytes())
        return roster

    def budget(self) -> Budget:
        run, record = self.run, self.run.get("unit", "task") == "record"
        size = len(self.task_names)
        if record:
            size = sum(sum(m.rows or ()) for m in self.members)
        delta = run.get("delta", min(1e-6 if record else 1e-5, 1 / (10 * max(size, 1))))
        named: dict[str, Any] = {
            k: run[k] for k in ("neighbours", "mechanism", "accountant", "aggregation") if k in run
        }
        if run.get("aggregation") == "secure" and run.get("epsilon") is not None:
            sizes = [len(member.tasks) for member in self.members]
            named["secure"] = SecureOptions.parse(len(self.task_names), run.get("secure"), sites=sizes)
        return Budget(run.get("epsilon"), check_new_delta(delta), run.get("unit", "task"), **named)

    def plan(self) -> Plan:
        """What everybody computes for themselves."""
        method, public = self.method(), self.public()
        budget = method.adjust(self.budget())
        method.check(public, budget)
        self.own_units()
        return make_plan(method.requests(public, budget), budget)


@dataclass(frozen=True)
class SiteFile:
    """site.toml, checked; paths are absolute."""

    path: Path
    name: str
    federation: Path
    server: str
    authority: Path
    key: Path
    state: Path
    data: dict[str, Any]
    limit: dict[str, Any]


def load_federation(path: str | Path) -> Federation:
    """Read and check federation.toml."""
    path = Path(path).resolve()
    content = _read(path)
    _check_sections(path, content, SECTIONS, extra={"sites"})
    about, data = content.get("federation", {}), content.get("data", {})
    if data.get("kind") not in ("regression", "classification") or not data.get("features"):
        raise DataError(
            f"{path.name}: [data] needs kind = 'regression' or 'classification' and features = [...]"
        )
    if data["kind"] == "classification" and len(data.get("classes", [])) < 2:
        raise DataError(
            f"{path.name}: classification needs classes = [...]: the label set is public and declared"
        )
    if data["kind"] == "classification" and "bounds" in data:
        data["bounds"] = {"classes": data["classes"], **data["bounds"]}
    sites = tuple(_member(path, entry) for entry in content.get("sites", []))
    names = [t for s in sites for t in s.tasks]
    if not sites or len({s.name for s in sites}) < len(sites) or len(set(names)) < len(names):
        raise DataError(
            f"{path.name}: [[sites]] must list at least one site; names and tasks must not repeat"
        )
    host, port = about.get("host", "127.0.0.1"), int(about.get("port", 9092))
    rules = Rules(**content.get("rules", {}))
    run = {k: v for k, v in content.get("run", {}).items() if v != "none"}
    return Federation(
        path.parent,
        about.get("name", "federation"),
        host,
        port,
        data,
        run,
        sites,
        rules,
        tuple(about.get("hosts", [host])),
    )


def load_site(path: str | Path) -> SiteFile:
    """Read and check site.toml."""
    path = Path(path).resolve()
    content = _read(path)
    _check_sections(path, content, SITE_SECTIONS)
    site = content.get("site", {})
    missing = sorted({"name", "federation", "server", "authority", "key"} - set(site))
    if missing:
        raise DataError(f"{path.name}: [site] lacks {', '.join(missing)}")
    at = path.parent
    return SiteFile(
        path, site["name"], at / site["federation"], site["server"], at / site["authority"], at / site["key"],
        at / site.get("state", "state"), content.get("data", {}), content.get("limit", {}),
    )  # fmt: skip


def _member(path: Path, entry: Mapping[str, Any]) -> Member:
    unknown = sorted(set(entry) - {"name", "tasks", "key", "rows"})
    if unknown or "name" not in entry:
        raise DataError(
            f"{path.name}: a site has name, tasks, key and rows; got {', '.join(unknown) or 'no name'}"
        )
    tasks = tuple(entry.get("tasks", [entry["name"]]))
    rows = tuple(int(n) for n in entry["rows"]) if "rows" in entry else None
    if rows is not None and len(rows) != len(tasks):
        raise DataError(f"{path.name}: site {entry['name']!r} needs one number of rows per task")
    return Member(entry["name"], tasks, entry.get("key", f"keys/{entry['name']}.pub"), rows)


def _check_sections(
    path: Path, content: Mapping[str, Any], known: dict[str, set[str]], extra: Set[str] = frozenset()
) -> None:
    for section, values in content.items():
        if section in extra:
            continue
        unknown = sorted(set(values) - known.get(section, set())) if isinstance(values, dict) else [section]
        if section not in known or unknown:
            raise DataError(f"{path.name}: unknown entry {', '.join(unknown) or section!r} in [{section}]")


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; `taskveil serve --init FOLDER` writes one") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path.name} is not valid TOML: {error}") from None
