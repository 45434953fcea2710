"""A site's decisions: does it agree to the plan, and what does it answer. Called once per message, in a fresh process."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import BudgetExceeded, DataError
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.ledger import Book, Key, open_account
from taskveil.privacy.plan import Plan
from taskveil.privacy.randomness import system_noise
from taskveil.runtime import wire
from taskveil.runtime.federation.config import Federation, SiteFile, load_federation, load_site
from taskveil.runtime.federation.status import note_answer
from taskveil.runtime.secure.keys import NodeIdentity, node_public
from taskveil.runtime.secure.parties import Membership
from taskveil.runtime.site import NOISE_AT_SITE, Site, plan_digest
from taskveil.runtime.site_state import SiteState
from taskveil.runtime.virtual_clock import longest_prefix
from taskveil.tasks.load import load_tasks
from taskveil.tasks.scaling import fit_scaling
from taskveil.tasks.task import TaskSet


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


def prepare(site_path: str | Path, data: Any) -> Agreement:
    """Read the rows, recompute the plan from public sizes, compare it with the site's own limit and ledger, remember both.

    Raises BudgetExceeded before anything is sent if the site's limit does not cover the plan.
    """
    file = load_site(site_path)
    federation = load_federation(file.federation)
    tasks = own_tasks(federation, file, data)
    plan, public = federation.plan(), federation.public()
    state = SiteState(file.state)
    messages = allowed_messages(plan, file, federation)
    digest, run = plan_digest(plan, public), uuid.uuid4().hex
    known = state.agreed()
    run = known["ledger_run"] if known else run
    account = ledger_account(file, state, plan, federation, run)
    if account is not None:
        account.reserve(
            first_messages(plan, messages)
        )  # BudgetExceeded: the site says no, and nothing was sent
    record = federation.run.get("unit", "task") == "record" and plan.budget.epsilon is not None
    mode = (
        "declared" if federation.bounds() is not None else ("none" if record or public.unit_rows else "own")
    )
    scaling = fit_scaling(
        tasks, mode, normalise=federation.data.get("normalise"), private=plan.budget.epsilon is not None
    )
    state.keep_rows(scaling.apply(tasks), scaling)
    state.agree(
        {"digest": digest, "federation": federation.digest, "ledger_run": run, "plan": plan.to_dict(), "messages": messages}
    )
    limit = file.limit.get("epsilon")
    epsilon = plan.epsilon() if plan.budget.epsilon is not None else float("inf")
    budget = plan.budget
    return Agreement(
        epsilon,
        budget.delta,
        budget.unit.value,
        budget.neighbours.value,
        observer_of(federation, plan),
        messages,
        limit,
    )


def own_tasks(federation: Federation, file: SiteFile, data: Any) -> TaskSet:
    """The site's rows, with exactly the federation's columns, in the federation's order of tasks."""
    member = federation.member(file.name)
    columns: dict[str, Any] = {
        "task": file.data.get("task"),
        "target": file.data.get("target", federation.data.get("target")),
    }
    tasks = load_tasks(
        data,
        **columns,
        bounds=federation.bounds(),
        kind=federation.data["kind"],
        features=federation.data["features"],
    )
    missing = [name for name in member.tasks if name not in tasks.task_names]
    if missing:
        raise DataError(
            f"the data has no rows of task {', '.join(missing)}, which site {member.name!r} answers for"
        )
    chosen = tasks.take_tasks([tasks.index_of(name) for name in member.tasks])
    if federation.data["kind"] == "classification":  # the label set is declared; a site may lack some labels
        chosen = replace(chosen, classes=np.unique(federation.data["classes"]))
    if member.rows is not None and tuple(int(n) for n in chosen.sizes) != member.rows:
        raise DataError(
            f"site {member.name!r} declared other numbers of rows; sizes are public and fixed. Correct federation.toml."
        )
    return chosen


def answer_for(site_path: str) -> Callable[[bytes], bytes]:
    """The site's answers, from its own files."""
    file = load_site(site_path)
    federation = load_federation(file.federation)
    state = SiteState(file.state)
    agreed = state.agreed()
    if agreed is None:
        raise DataError("this site has not agreed to a plan; run `taskveil join` first")
    plan, public = Plan.from_dict(agreed["plan"]), federation.public()
    block, _ = state.rows()
    account = ledger_account(file, state, plan, federation, agreed["ledger_run"]) or NoAccount()
    site = Site(
        file.name, federation.method(), block, federation.positions(file.name), public, plan, account, system_noise(),
        state, agreed["messages"], membership(federation, file) if plan.budget.aggregation == "secure" else None,
    )  # fmt: skip
    if site.digest != agreed["digest"] or agreed.get("federation", federation.digest) != federation.digest:
        raise DataError(
            "federation.toml changed after this site agreed to it; run `taskveil join` with a new state folder"
        )
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
    roster = {}
    for index, member in enumerate(federation.members):
        path = federation.folder / member.key
        if not path.exists():
            raise DataError(
                f"aggregation 'secure' needs the public key of every site: {member.key} is missing beside "
                f"federation.toml. Ask site {member.name!r} or whoever runs the server for it."
            )
        roster[index] = node_public(path.read_bytes())
    identity = NodeIdentity(file.key.read_bytes())
    index = [member.name for member in federation.members].index(file.name)
    if roster[index] != identity.public:
        raise DataError(
            f"the federation knows site {file.name!r} by another key than {file.key.name}; nothing was sent"
        )
    return Membership(index, identity, roster, [len(member.tasks) for member in federation.members])


def allowed_messages(plan: Plan, file: SiteFile, federation: Federation) -> int:
    """All messages of the plan; for asynchronous methods as many as the site's own limit covers."""
    if plan.most_participations is not None:  # the server could ask more often, and the site would not notice
        raise BudgetExceeded("this plan counts on a cap on participations, which a site cannot check yet. Nothing was sent.")
    rounds = [releases for _, releases in plan.rounds()]
    limit = file.limit.get("epsilon")
    if limit is None or plan.budget.epsilon is None:
        if limit is not None:
            raise BudgetExceeded(
                "this run has no privacy guarantee (epsilon none), and this site has a limit. Nothing was sent."
            )
        return len(rounds)
    if federation.method().schedule == "asynchronous":
        return longest_prefix(plan, rounds, float(limit))
    cost, _ = best_epsilon(plan.charges(), plan.budget.delta, plan.budget.accountant)
    if cost > float(limit):
        raise BudgetExceeded(
            f"site {file.name!r} allows epsilon {float(limit):g}; this run plans {cost:.4g} ({len(rounds)} round(s)). "
            "Nothing was sent."
        )
    return len(rounds)


def first_messages(plan: Plan, count: int) -> Plan:
    """The part of a plan that this site will answer."""
    numbers = {number for number, _ in plan.rounds()[:count]}
    return replace(plan, releases=tuple(r for r in plan.releases if r.round in numbers))


def observer_of(federation: Federation, plan: Plan) -> str:
    at_site = federation.method().schedule == "asynchronous" or plan.budget.aggregation in NOISE_AT_SITE
    return "server" if at_site else "other-tasks"


def ledger_account(file: SiteFile, state: SiteState, plan: Plan, federation: Federation, run: str) -> Any:
    """The site's own account: the ledger it names, or one in its state folder with the limit of site.toml."""
    if plan.budget.epsilon is None or not plan.releases:
        return None
    observer = observer_of(federation, plan)
    url, name = ledger_of(file)
    if "ledger" not in file.limit:
        _open_own_book(url, name, file, plan, observer)
    return open_account(url, name, plan, observer, run)


def ledger_of(file: SiteFile) -> tuple[str, str]:
    """Where a site's spending stands, and under which name."""
    own = f"sqlite:///{(file.state.parent / 'ledger.db').resolve()}"
    return file.limit.get("ledger") or own, file.limit.get("account", file.name)


def _open_own_book(url: str, name: str, file: SiteFile, plan: Plan, observer: str) -> None:
    book = Book(url)
    key = Key(name, plan.budget.unit.value, plan.budget.neighbours.value, observer)
    limit = float(file.limit.get("epsilon", plan.budget.epsilon or 1.0))
    delta = float(file.limit.get("delta", plan.budget.delta))
    if not any(a.name == name and a.observer == observer and a.unit == key.unit for a in book.accounts()):
        book.set_limit(key, limit, delta)
    book.close()


class NoAccount:
    """A run without privacy, or without releases: there is nothing to charge."""

    def reserve(self, plan: Plan) -> None: ...

    def commit(self, *planned: Any) -> str:
        return str(planned[-1].id)

    def finish(self) -> None: ...

    def spent(self) -> list[Any]:
        return []
