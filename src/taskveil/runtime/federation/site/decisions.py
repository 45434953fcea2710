"""A site's decisions: does it agree to the plan, and what does it answer. Called once per message, in a fresh process.

Its limits: one for whole tasks and one for single records, over all runs, aggregations and observers. The site's own book has two
accounts, both against the other tasks. Every run makes a statement against those, whatever its aggregation, so whatever a site
spends is in them; a run that protects whole tasks is charged to both, a run that protects records to the second
(privacy/ledger/reach.py). What site.toml says counts from the next message on.

Answers on a public clock: how long a site computed does not show in when it answers.

An answer leaves a whole multiple of `seconds` after the question came, computed, repeated or refused alike. An answer that takes
longer than that leaves at the next multiple, which shows how many it took: choose `seconds` well above the slowest site.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from taskveil.errors import BudgetExceeded, DataError
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.ledger import Book, Key, LedgerAccount, open_account
from taskveil.privacy.plan import Plan
from taskveil.privacy.release import SharedAccount
from taskveil.privacy.units import Unit
from taskveil.runtime import wire
from taskveil.runtime.federation.config import Federation, SiteFile, load_federation, load_site
from taskveil.runtime.federation.keys import site_identity
from taskveil.runtime.federation.site.owner import Site, plan_digest
from taskveil.runtime.federation.site.state import SiteState
from taskveil.runtime.federation.status import note_answer
from taskveil.runtime.run import Run
from taskveil.runtime.secure.parties import Membership
from taskveil.runtime.virtual_clock import longest_prefix
from taskveil.tasks.load import load_tasks
from taskveil.tasks.prepare.labels import label_set
from taskveil.tasks.prepare.step import prepare_tasks
from taskveil.tasks.task import TaskSet

Answer = Callable[[bytes], bytes]
COVERED = (
    "sites answer on a public clock, {seconds:g} s after a question: when an answer comes says nothing about rows as long as "
    "every site computes its answer in that time"
)
NOT_COVERED = "when a site answers: its computing time may depend on its rows (rules.answer_at sets a public clock)"


def set_limits(book: Book, name: str, limit: Mapping[str, Any], plan: Plan) -> Key:
    """Bring the accounts of the site's own book in line with site.toml; returns the one this run is named by.

    The neighbours are those of the site's first run: other runs are priced under them.
    """
    rows = [row for row in book.accounts() if row.name == name]
    neighbours = next((row.neighbours for row in rows), plan.budget.neighbours.value)
    limits_unless_named = plan.budget.epsilon or 1.0, plan.budget.delta  # what the first run plans
    for unit in Unit:
        key, before = Key(name, unit.value, neighbours), [row for row in rows if row.unit == unit]
        now = [(row.epsilon, row.delta) for row in before if Key.of(row) == key]
        own, other = wanted(limit, unit), [*now, *((r.epsilon, r.delta) for r in before), limits_unless_named][0]
        chosen = own[0] or other[0], other[1] if own[1] is None else own[1]  # a delta of 0 is a limit too
        if now != [chosen]:
            book.set_limit(key, *chosen)
    return Key(name, plan.budget.unit.value, neighbours)


def lower_limits(book: Book, name: str, limit: Mapping[str, Any]) -> None:
    """In a ledger that somebody else keeps too, site.toml may lower a limit, never raise it."""
    for row in book.accounts():
        epsilon, delta = wanted(limit, Unit(row.unit))
        lower = min(epsilon or row.epsilon, row.epsilon), row.delta if delta is None else min(delta, row.delta)
        if row.name == name and lower != (row.epsilon, row.delta):
            book.set_limit(Key.of(row), *lower)


def wanted(limit: Mapping[str, Any], unit: Unit) -> tuple[float | None, float | None]:
    """(epsilon, delta) of site.toml for a unit; what is said for records only comes before what is said for both."""
    prefix = "record_" if unit is Unit.RECORD else ""
    values = (limit.get(f"{prefix}{part}", limit.get(part)) for part in ("epsilon", "delta"))
    epsilon, delta = (None if value is None else float(value) for value in values)
    return epsilon, delta


CHANGED = "federation.toml changed after this site agreed to it; run `taskveil join` with a new state folder"

OWN_LEDGER, SQLITE = "ledger.db", "sqlite:///"


@dataclass(frozen=True)
class Agreement:
    """What a site is about to agree to, in words a person can check."""

    epsilon: float
    delta: float
    unit: str
    neighbours: str
    observer: str
    messages: int
    limit: float | None

    def __str__(self) -> str:
        return (
            f"{self.messages} message(s), epsilon {self.epsilon:.4g} at delta {self.delta:.2g} for one {self.unit} "
            f"({self.neighbours}), against {self.observer}; own limit {'none' if self.limit is None else f'{self.limit:g}'}"
        )


def prepare(site_path: str | Path, data: Any, agree: Callable[[Agreement], bool] = lambda agreement: True) -> Agreement | None:
    """Read the rows, recompute the plan from public sizes, ask, compare it with the site's own limit and ledger, remember both.

    None where `agree` says no: nothing was reserved or written then. Raises BudgetExceeded before anything is sent if the
    site's limit does not cover the plan.
    """
    file = load_site(site_path)
    federation = load_federation(file.federation)
    tasks = own_tasks(federation, file, data)
    plan, public = federation.plan(), federation.public()
    state = SiteState(file.state)
    messages = allowed_messages(plan, file, federation)
    agreement = _agreement(plan, federation, messages, wanted(file.limit, plan.budget.unit)[0])
    if not agree(agreement):
        return None
    earlier, digest = state.agreed(), plan_digest(plan, public)
    run = earlier["ledger_run"] if earlier else uuid.uuid4().hex
    about = {"digest": digest, "ledger_run": run, "plan": plan.to_dict(), "messages": messages, "federation": federation.digest}
    state.check_same(about)  # before anything of another run is reserved or written here
    account = ledger_account(file, state, plan, federation, run)
    if account is not None:
        account.reserve(first_messages(plan, messages))  # BudgetExceeded: the site says no, and nothing was sent
    prepared = prepare_tasks(tasks, federation.preparation())
    state.keep_rows(prepared.own.block, prepared.own.scaling)
    state.agree(about)
    return agreement


def _agreement(plan: Plan, federation: Federation, messages: int, limit: float | None) -> Agreement:
    epsilon, budget = plan.epsilon() if plan.budget.epsilon is not None else float("inf"), plan.budget
    observer, unit, neighbours = federation.observer(plan), budget.unit.value, budget.neighbours.value
    return Agreement(epsilon, budget.delta, unit, neighbours, observer, messages, limit)


def own_tasks(federation: Federation, file: SiteFile, data: Any) -> TaskSet:
    """The site's rows, with exactly the federation's columns, in the federation's order of tasks."""
    member = federation.member(file.name)
    columns: dict[str, Any] = {"task": file.data.get("task"), "target": file.data.get("target", federation.data.get("target"))}
    if set(columns.values()) & set(federation.data["features"]):
        raise DataError(f"{file.path.name}: [data]: neither task nor target may be one of the federation's features")
    tasks = load_tasks(
        data,
        **columns,
        bounds=federation.bounds(),
        kind=federation.data["kind"],
        features=federation.data["features"],
        text=federation.data.get("text", ()),
        unusable=federation.preparation().unusable,
    )
    undeclared = sorted({name.partition("#")[0] for name in set(tasks.feature_names) - set(federation.columns)})
    if undeclared:
        raise DataError(
            f"column {undeclared[0]!r} holds text, and federation.toml declares none there: every site must make the same "
            "numbers of a column. List it under text in [data], or declare its levels in [data.bounds]."
        )
    missing = [name for name in member.tasks if name not in tasks.task_names]
    if missing:
        raise DataError(f"the data has no rows of task {', '.join(missing)}, which site {member.name!r} answers for")
    chosen = tasks.take_tasks([tasks.index_of(name) for name in member.tasks])
    if federation.data["kind"] == "classification":  # the label set is declared; a site may lack some labels
        facts = tuple(f for f in chosen.facts if f.what != "labels")
        y, classes = label_set(chosen.y, federation.data["classes"])
        chosen = replace(chosen, y=y, classes=classes, facts=facts)
    if member.rows is not None and tuple(int(n) for n in chosen.sizes) != member.rows:
        raise DataError(
            f"site {member.name!r} declared other numbers of rows; sizes are public and fixed. Correct federation.toml."
        )
    return chosen


def answer_for(site_path: str) -> Callable[[bytes], bytes]:
    """The site's answers, from its own files; on the federation's public clock where it has one.

    All that takes longer with more rows happens on the clock, also where it ends in an error.
    """
    begun = time.monotonic()
    file = load_site(site_path)
    federation = load_federation(file.federation)
    return on_the_clock(lambda data: _handler(file, federation)(data), federation.rules.answer_at, begun)


def _handler(file: SiteFile, federation: Federation) -> Callable[[bytes], bytes]:
    """Answers to one message, from the site's files as they are now."""
    state = SiteState(file.state)
    agreed = state.agreed()
    if agreed is None:
        raise DataError("this site has not agreed to a plan; run `taskveil join` first")
    if agreed.get("federation", federation.digest) != federation.digest:  # written since version 0.2.0
        raise DataError(CHANGED)
    plan, public = Plan.from_dict(agreed["plan"]), federation.public()
    block, _ = state.rows()
    account = ledger_account(file, state, plan, federation, agreed["ledger_run"]) or SharedAccount()
    site = Site(
        file.name, Run(federation.method(), public, plan, account), block, federation.positions(file.name), state,
        agreed["messages"], membership(federation, file) if plan.budget.aggregation == "secure" else None,
    )  # fmt: skip
    if site.digest != agreed["digest"]:
        raise DataError(CHANGED)
    return noting(site.handle, file.state)


def noting(handle: Callable[[bytes], bytes], folder: Path) -> Callable[[bytes], bytes]:
    """The same answers, counted for the site's own status."""

    def answer(data: bytes) -> bytes:
        reply = handle(data)
        packet = wire.decode(reply)
        if packet.kind in ("message", "secure"):
            note_answer(folder, packet.fields.get("number"), None)
        elif packet.kind == "refused":
            note_answer(folder, None, str(packet.fields.get("reason")))
        return reply

    return answer


def membership(federation: Federation, file: SiteFile) -> Membership:
    """This site's place in secure sums: its node key, and everybody's public keys from beside federation.toml."""
    roster = federation.roster()
    identity = site_identity(file.key)
    index = [member.name for member in federation.members].index(file.name)
    if roster[index] != identity.public:
        raise DataError(f"the federation knows site {file.name!r} by another key than {file.key.name}; nothing was sent")
    return Membership(index, identity, roster)


def allowed_messages(plan: Plan, file: SiteFile, federation: Federation) -> int:
    """All messages of the plan; for asynchronous methods as many as the site's own limit covers."""
    if plan.most_participations is not None:  # the server could ask more often, and the site would not notice
        raise BudgetExceeded("this plan counts on a cap on participations, which a site cannot check yet. Nothing was sent.")
    rounds = [releases for _, releases in plan.rounds()]
    if plan.budget.epsilon is None and file.limit:  # whatever it limits: this would spend all of it
        raise BudgetExceeded("this run has no privacy guarantee (epsilon none), and this site has a limit. Nothing was sent.")
    limit = wanted(file.limit, plan.budget.unit)[0]
    if limit is None:
        return len(rounds)
    if federation.method().schedule == "asynchronous":
        return longest_prefix(plan, rounds, limit)
    cost, _ = best_epsilon(plan.charges(), plan.budget.delta, plan.budget.accountant)
    if cost > limit:
        raise BudgetExceeded(
            f"site {file.name!r} allows epsilon {limit:g}; this run plans {cost:.4g} ({len(rounds)} round(s)). Nothing was sent."
        )
    return len(rounds)


def first_messages(plan: Plan, count: int) -> Plan:
    """The part of a plan that this site will answer."""
    numbers = {number for number, _ in plan.rounds()[:count]}
    return replace(plan, releases=tuple(r for r in plan.releases if r.round in numbers))


def ledger_account(file: SiteFile, state: SiteState, plan: Plan, federation: Federation, run: str) -> Any:
    """The site's own accounts: in the ledger it names, or in one beside site.toml; with the limits of that file."""
    if plan.budget.epsilon is None or not plan.releases:
        return None
    observer = federation.observer(plan)
    also = [observer, *federation.method().disclosure(federation.public(), plan).observers]
    url, name = ledger_of(file)
    book = Book(url)
    if "ledger" in file.limit:
        lower_limits(book, name, file.limit)
        return open_account(book, name, plan, observer, run, also=also)
    key = set_limits(book, name, file.limit, plan)
    return LedgerAccount(book, key, plan.budget, run, also)


def ledger_of(file: SiteFile) -> tuple[str, str]:
    """Where a site's spending stands, and under which name: beside site.toml, so that a new state folder is no new limit."""
    name = file.limit.get("account", file.name)
    if "ledger" in file.limit:
        return _from_the_folder_of(file.path, file.limit["ledger"]), name
    here, before = file.path.parent / OWN_LEDGER, file.state.parent / OWN_LEDGER
    if before.exists() and not here.exists():  # version 0.1.0 kept it beside the state folder
        raise DataError(f"{before} holds what this site spent; move it to {here}, where it now belongs. Nothing was sent.")
    return f"sqlite:///{here}", name


def _from_the_folder_of(file: Path, url: str) -> str:
    """Paths of SQLite files count from site.toml, like every path in it, and not from where the command was started."""
    place = url.removeprefix(SQLITE)
    return url if place == url or not place else f"{SQLITE}{(file.parent / place).resolve()}"


def on_the_clock(answer: Answer, seconds: float, begun: float) -> Answer:
    """`answer`, at a multiple of `seconds` after `begun` (of time.monotonic); as soon as it is there if `seconds` is 0."""
    if seconds <= 0.0:
        return answer

    def later(data: bytes) -> bytes:
        try:
            return answer(data)
        finally:  # an error shows as a refusal, and waits like one
            passed = time.monotonic() - begun
            time.sleep(max(1, math.ceil(passed / seconds)) * seconds - passed)

    return later
