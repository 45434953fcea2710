"""Does a saved certificate follow from the run that is saved beside it?

1. The three files belong together: each carries the seal of all of them.
2. The certificate is made again from the record in model.json, by the function that made it (certify.py), and compared: method,
   variant, every statement with its observer, events, assumptions, what is not protected, randomness.
3. Every event and every epsilon is recomputed (privacy/verification.py).
4. The journal that `fit -o` keeps in run/ has the same plan, and no other release.
5. Where a ledger is given, its book holds the same releases, in every account the run reaches.

A folder of version 0.1.0 has no seal and no record of its preparation; legacy.py says which of them were false.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import CheckFailed, DataError, InputError, OptionError
from taskveil.estimators import legacy
from taskveil.estimators.certify import certificate as certificate_of
from taskveil.estimators.partitioned.storage import changed_parts
from taskveil.estimators.saved_model import check_description
from taskveil.estimators.storage import FILES, read_folder, saved_run, seal_problems
from taskveil.privacy.certificate import Certificate, software_versions
from taskveil.privacy.events import Charge, Event, GaussianTotal
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.ledger.reach import Reach
from taskveil.privacy.plan import Budget, PlannedRelease
from taskveil.privacy.seal import is_sealed
from taskveil.privacy.units import Neighbours
from taskveil.privacy.verification import check_events, differences
from taskveil.runtime.run import RunRecord
from taskveil.saved import read_bytes, read_json, total

MISSING = "the books do not hold this run{0}: it was not charged there, or model.json names another"


def ledger_problems(url: str, record: RunRecord, observers: list[str]) -> list[str]:
    """What the ledger says otherwise; empty where it agrees, or where there was nothing to charge."""
    plan = record.plan if record.search is None else record.search[0]
    releases = record.executed if record.search is None else plan.releases
    if plan.budget.epsilon is None or not releases:
        return []
    book = Book(url)
    broken_links = [f"the ledger was changed: {text}" for text in book.verify()]
    if record.charged is None:
        return [*broken_links, MISSING.format("")]
    name, run = record.charged["account"], record.charged["run"]
    keys = [Key.of(row) for row in book.accounts() if row.name == name]
    reach = Reach(plan.budget.unit.value, plan.budget.neighbours.value, tuple(observers))
    reached = [(key, relation) for key in keys if (relation := reach.relation(key)) is not None]
    if not reached:
        return [*broken_links, MISSING.format(f" ({name} has no such account)")]
    problems = []
    for key, relation in reached:
        committed, reserved = book.committed(key, run), book.reserved(key, run)
        relations = {Neighbours(relation), Neighbours.REPLACE_ONE}  # a run carried into the account may stand there at more
        prices = [_charges(releases, plan.budget, neighbours) for neighbours in relations]
        if not committed:
            problems.append(MISSING.format(f" in account {key}"))
        elif totals(reserved) not in [totals(plan.charges(neighbours)) for neighbours in relations]:
            problems.append(f"account {key} holds another total of this run than is stated")
        elif committed not in prices:
            problems.append(
                f"account {key} was charged {len(committed)} release(s) for this run that are not its {len(releases)}"
            )
    return broken_links + problems


def totals(charges: Sequence[Charge]) -> list[Event]:
    """What was set aside for releases that are chosen as a run goes on."""
    return [c.event for c in charges if isinstance(c.event, GaussianTotal)]


def _charges(releases: Sequence[PlannedRelease], budget: Budget, relation: Neighbours) -> list[tuple[str, Event]]:
    """What each release costs there; one that was made again is charged as such."""
    seen: set[str] = set()
    charges: list[tuple[str, Event]] = []
    for planned in releases:
        event = planned.event_under(relation, budget)
        charges.append((planned.id, event.made_again() if planned.id in seen else event))
        seen.add(planned.id)
    return charges


RESULTS = ("run.json", "billboard.npz")
CLAIMS = ("method", "variant", "statements", "events", "total", "randomness")
WORDS = ("assumptions", "not_protected")  # sentences, which another version may put in other words
EXPECTED = "expected a folder written by fit; give certificate.json itself to check it without its run"
UNREADABLE = (KeyError, TypeError, AttributeError, IndexError)


@dataclass(frozen=True)
class Checked:
    """A certificate, what is wrong with it, and what a reader should know besides."""

    certificate: Certificate
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()


def partly_readable(folder: Path) -> bool:
    """Whether both documents are JSON and one of them is as a run writes it: then what is wrong with the other was done to it."""
    try:
        for name in ("certificate.json", "model.json"):
            json.loads(read_bytes(folder / name))
    except (DataError, ValueError, RecursionError):
        return False
    for name, read in (
        ("certificate.json", Certificate.from_dict),
        ("model.json", partial(check_description, where="model.json")),
    ):
        try:
            with total(name):
                read(read_json(folder / name))
            return True
        except DataError:
            continue
    return False


def check_folder(folder: Path, ledger: str | None = None) -> Checked:
    """Everything that can be checked without a key."""
    if not (folder / "certificate.json").exists():
        raise DataError(f"{folder / 'certificate.json'} is missing: {EXPECTED}")
    if (folder / "run.json").exists() and not (folder / "model.json").exists():
        return _check_results(folder, ledger)
    missing = [name for name in FILES if not (folder / name).exists()]
    if missing:
        raise CheckFailed(f"{folder / missing[0]} is missing, so the certificate cannot be compared with its run: {EXPECTED}")
    about, arrays, certificate = read_folder(folder, *FILES)
    with total(str(folder / "certificate.json")):
        check_events(certificate)
    old = legacy.is_legacy(about, certificate) and not is_sealed(certificate.to_dict(), about, arrays)
    problems = [] if old else seal_problems(about, arrays, certificate)
    problems += _record_problems(about, arrays, certificate, old, ledger)
    problems += changed_parts(folder, about)
    problems += _journal_problems(folder / "run", about)
    problems += certificate.verify().problems
    notes = legacy.notes(about) if old and not problems else []
    return Checked(certificate, tuple(dict.fromkeys(problems)), tuple(notes))


def _check_results(folder: Path, ledger: str | None) -> Checked:
    """The results of a federation's server: its certificate follows from run.json and federation.toml."""
    from taskveil.runtime.federation.server.training import certificate_again

    if ledger is not None:
        raise OptionError("the server of a federation keeps no ledger: every site checks its own, with `taskveil ledger verify`")
    about, arrays, certificate = read_folder(folder, *RESULTS)
    problems = seal_problems(about, arrays, certificate, RESULTS)
    try:
        problems += _differences(certificate, certificate_again(folder.resolve().parent, about), "federation.toml and run.json")
    except (*UNREADABLE, InputError, ValueError, AssertionError) as problem:
        problems.append(f"the certificate cannot be made again from federation.toml and run.json ({type(problem).__name__})")
    return Checked(certificate, tuple(dict.fromkeys([*problems, *certificate.verify().problems])))


def _record_problems(
    about: dict[str, Any], arrays: dict[str, np.ndarray], certificate: Certificate, old: bool, ledger: str | None
) -> list[str]:
    """What the record of the run says otherwise."""
    try:
        method, record, preparation = saved_run(about, arrays)
        derived = certificate_of(method, record, preparation)
        problems = (
            [] if old and legacy.is_search(certificate) else _differences(certificate, derived, "the run in model.json", old)
        )
        if old:
            problems += legacy.problems(about, method, record, certificate)
    except (*UNREADABLE, InputError, ValueError, AssertionError) as problem:
        return [f"model.json is not the record of a run ({type(problem).__name__}): the certificate cannot be made again"]
    if ledger is not None:
        problems += ledger_problems(ledger, record, [s.observer for s in derived.statements])
    return problems


def _journal_problems(run: Path, about: dict[str, Any]) -> list[str]:
    """The run's own journal, where `fit -o` left one: the same plan, and no release that model.json does not list."""
    if not (run / "plan.json").exists():
        return []
    try:
        plan = read_json(run / "plan.json")["plan"]
        lines = read_bytes(run / "commits.jsonl").splitlines() if (run / "commits.jsonl").exists() else []
        commits = Counter(json.loads(line)["id"] for line in lines)
    except (*UNREADABLE, DataError, ValueError, RecursionError):
        return ["the journal in run/ is damaged"]
    same = plan == about.get("plan") and commits <= Counter(about.get("executed", []))
    return [] if same else ["run/ is the journal of another run than model.json describes; remove it if the model was saved anew"]


def _differences(certificate: Certificate, derived: Certificate, source: str, old: bool = False) -> list[str]:
    claims, again = certificate.to_dict(), json.loads(derived.to_json())
    same_version = claims["software"].get("taskveil") == software_versions().get("taskveil")
    compared = (*CLAIMS, *WORDS) if same_version and not old else CLAIMS
    problems = [text for name in compared for text in differences(claims.get(name), again.get(name), name)]
    problems += [f"{name} is empty" for name in WORDS if again[name] and not claims[name] and name not in compared]
    return [f"certificate.json does not follow from {source}: {text}" for text in problems[:8]]
