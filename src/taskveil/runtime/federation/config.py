"""The files of a federation, in TOML. federation.toml is public and the same for everybody; site.toml is a site's own.

From federation.toml alone everybody computes the same sizes, the same method and the same plan (hence the same fingerprint):
that is how a site checks what it is asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from taskveil import methods
from taskveil.checks import check_table
from taskveil.errors import DataError, OptionError
from taskveil.methods.base import Method, PublicInfo
from taskveil.privacy.contributions import TaskStack
from taskveil.privacy.plan import Budget, Plan
from taskveil.runtime.federation.entries import FEDERATION, MEMBER, SITE, check_file
from taskveil.runtime.federation.server.driver import Rules
from taskveil.runtime.federation.site.owner import NOISE_AT_SITE, noise_at_site
from taskveil.runtime.run import agreed_beforehand, assemble, budget_for
from taskveil.saved import read_toml
from taskveil.tasks.prepare.encode import encoded_names
from taskveil.tasks.prepare.step import PrepareRules, own_units, scaling_mode
from taskveil.tasks.public_bounds import PublicBounds

SPENDING = ("epsilon", "delta", "unit", "neighbours", "mechanism", "accountant", "aggregation", "secure")  # of [run]


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
    def digest(self) -> str:
        """A fingerprint of all that a run depends on; not of where the server listens or how long it waits."""
        content = {"name": self.name, "data": self.data, "run": self.run, "sites": [asdict(m) for m in self.members]}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

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
        names = ", ".join(m.name for m in self.members)
        raise OptionError(f"the federation has no site {site!r}; it has {names}")

    def method(self) -> Method:
        method = methods.get(self.run.get("method", "subspace"), **self.run.get("options", {}))
        return method.under(self.run.get("unit", "task")).in_own_units()  # sites scale by themselves

    def bounds(self) -> PublicBounds | None:
        return PublicBounds.coerce(self.data.get("bounds"))

    def preparation(self) -> PrepareRules:
        """How every site prepares its rows: the same step, and the same refusals, as a run in one process."""
        unit, private = self.run.get("unit", "task"), self.run.get("epsilon") is not None
        return PrepareRules(unit, private, normalise=self.data.get("normalise"))

    @property
    def columns(self) -> tuple[str, ...]:
        """The features as numbers, one-hot or hashed where declared so: the same at every site, before any row is read."""
        return encoded_names(self.data["features"], self.bounds(), self.data.get("text", ()))

    def own_units(self) -> bool:
        """Whether sites scale by statistics of their own; refuses what the unit does not allow."""
        return own_units(self.preparation(), self.data["kind"], self.bounds(), self.columns)

    def public(self) -> PublicInfo:
        classes = self.data.get("classes", [])
        rows = [m.rows for m in self.members]
        record = self.run.get("unit", "task") == "record"
        if record and any(r is None for r in rows):
            raise OptionError("unit 'record' needs the public number of rows of every task: add rows = [...] to each site")
        return PublicInfo(
            n_tasks=len(self.task_names),
            n_features=len(self.columns),
            n_outputs=len(classes) if len(classes) > 2 else 1,
            kind=self.data["kind"],
            declared_bounds=scaling_mode(self.preparation(), self.data["kind"], self.bounds(), self.columns) == "declared",
            unit_rows=self.data.get("normalise") == "row",
            fit_intercept=bool(self.data.get("fit_intercept", True)),
            seed=self.run.get("seed"),
            task_rows=tuple(n for r in rows for n in r or ()) if record else None,
        )

    def roster(self) -> dict[int, bytes]:
        """Every site's public key, from beside federation.toml: whom Flower lets in, and who may sign in secure sums."""
        from taskveil.runtime.federation.keys import check_public

        roster: dict[int, bytes] = {}
        for index, member in enumerate(self.members):
            key = check_public(self.folder / member.key, member.name)
            if key in roster.values():
                raise DataError(f"{member.key} is the public key of another site too; every site has its own")
            roster[index] = key
        return roster

    def budget(self) -> Budget:
        given = {"epsilon": None, **{name: self.run[name] for name in SPENDING if name in self.run}}
        rows = sum(sum(member.rows or ()) for member in self.members)
        return budget_for(len(self.task_names), rows, sites=[len(member.tasks) for member in self.members], **given)

    def observer(self, plan: Plan) -> str:
        """Against whom all sites are protected."""
        return "server" if noise_at_site(self.method(), plan) else "other-tasks"

    def plan(self) -> Plan:
        """What everybody computes for themselves."""
        self.own_units()
        run = assemble(self.method(), self.public(), self.budget())
        method, plan, budget = run.method, agreed_beforehand(run.plan), run.budget
        several = [m.name for m in self.members if len(m.tasks) > 1] if method.schedule == "asynchronous" else []
        if several:
            raise OptionError(
                f"method {method.name!r} has no rounds: a site answers for one task. Site {several[0]!r} lists several; "
                "start one site for each task"
            )
        whole = any(isinstance(r.contribution, TaskStack) for r in plan.releases)
        if whole and len(self.members) > 1 and budget.aggregation in NOISE_AT_SITE:
            raise OptionError(
                f"method {method.name!r} releases all tasks' messages as one, so a site alone cannot add its noise under "
                f"aggregation {budget.aggregation!r}; use 'curator', or another method"
            )
        return plan


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
    path = Path(os.path.realpath(path))
    content = read_toml(path)
    check_file(content, FEDERATION, path.name, required={"data": ("kind", "features")}, extra=("sites",))
    about, data = content.get("federation", {}), dict(content["data"])
    if data["kind"] == "classification" and "classes" not in data:
        raise DataError(f"{path.name}: classification needs classes = [...]: the label set is public and declared")
    if data["kind"] == "classification" and "bounds" in data:
        data["bounds"] = {"classes": data["classes"], **data["bounds"]}
    if not isinstance(content.get("sites"), list) or not content["sites"]:
        raise DataError(f"{path.name}: [[sites]] must list at least one site with its name")
    sites = tuple(_member(path, entry) for entry in content["sites"])
    names = [t for s in sites for t in s.tasks]
    if len({s.name.casefold() for s in sites}) < len(sites) or len(set(names)) < len(names):
        raise DataError(f"{path.name}: [[sites]]: names (also but for capitals) and tasks must not repeat")
    run = {k: v for k, v in content.get("run", {}).items() if (k, v) != ("epsilon", "none")}
    host = about.get("host", "127.0.0.1")
    made = Federation(
        path.parent, about.get("name", "federation"), host, about.get("port", 9092), data, run, sites,
        Rules(**content.get("rules", {})), tuple(about.get("hosts", [host])),
    )  # fmt: skip
    _check_sizes(path, made)
    return made


def _check_sizes(path: Path, federation: Federation) -> None:
    """What depends on more than one entry: fewer sites than the rules ask for, ranges that PublicBounds refuses."""
    rules, data, n, bounds = federation.rules, federation.data, len(federation.members), federation.bounds()
    declared = {} if bounds is None else {**bounds.features, **bounds.levels}
    odd = [name for name in data.get("text", ()) if name not in data["features"] or name in declared]
    least, clock, limit, target, kind = rules.min_sites, rules.answer_at, rules.deadline, data.get("target"), data["kind"]
    wrong = (
        (least > n, f"rules: min_sites must be at most the number of sites, {n}; got {least}"),
        (clock >= limit, f"rules: answer_at must be below the deadline, {limit:g}, or no answer comes in time; got {clock:g}"),
        (target in data["features"], f"[data]: target must not be one of the features; got {target!r}"),
        ("classes" in data and kind != "classification", f"[data]: classes go with kind classification; got kind {kind!r}"),
        (odd, f"[data]: text must list features that have neither a range nor levels in bounds; got {next(iter(odd), None)!r}"),
    )
    for applies, what in wrong:
        if applies:
            raise DataError(f"{path.name}: {what}")


def load_site(path: str | Path) -> SiteFile:
    """Read and check site.toml."""
    path = Path(os.path.realpath(path))
    content = read_toml(path)
    check_file(content, SITE, path.name, required={"site": ("name", "federation", "server", "authority", "key")})
    site, at = content["site"], path.parent
    return SiteFile(
        path, site["name"], at / site["federation"], site["server"], at / site["authority"], at / site["key"],
        at / site.get("state", "state"), content.get("data", {}), content.get("limit", {}),
    )  # fmt: skip


def _member(path: Path, entry: Any) -> Member:
    check_table(entry, MEMBER, f"{path.name}: [[sites]]", DataError, required=("name",))
    name = entry["name"]
    tasks = tuple(entry.get("tasks", [name]))
    rows = tuple(entry["rows"]) if "rows" in entry else None
    if rows is not None and len(rows) != len(tasks):
        raise DataError(f"{path.name}: site {name!r} needs one number of rows per task")
    return Member(name, tasks, entry.get("key", f"keys/{name}.pub"), rows)
