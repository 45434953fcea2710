"""All runs of an organisation in the same three forms, from its ledger: one check list, record or entry per account.

The books hold limits, charges and times, not models or tables: what they cannot answer says so and points to the export of the
run itself (`taskveil certify DIR --export FORM`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taskveil.privacy.ledger.overview import amount
from taskveil.report.exports.evidence import account_line
from taskveil.report.exports.mlbom import bill_of
from taskveil.report.exports.nist import QUESTIONS, Item, covered_pairs, plain, written
from taskveil.report.exports.registry import FILL, PRIVACY_UNITS, basic, slug, to_yaml
from taskveil.report.ledger_page import words
from taskveil.report.words import OBSERVERS, UNITS

ASK_THE_RUN = "the books hold charges and no run; ask each run's folder: `taskveil certify DIR --export nist`"


@dataclass(frozen=True)
class Books:
    """Accounts as `ledger report` describes them; `problems` of the hash chain and the columns, empty if the ledger is whole."""

    accounts: Sequence[Mapping[str, Any]]
    problems: tuple[str, ...]
    date: str

    @property
    def verdict(self) -> str:
        if self.problems:
            return "THE LEDGER WAS CHANGED: " + "; ".join(self.problems[:5])
        return "the ledger is whole: every entry follows from the one before, every column from the entries"


def nist(books: Books) -> str:
    """The check list of every account, one after another."""
    lines = [
        "# Differential privacy check list: all accounts of a ledger", "",
        f"In the order of NIST SP 800-226 (March 2025). **Verdict: {books.verdict}.** Written {books.date}.", "",
    ]  # fmt: skip
    document: dict[str, Any] = {"verdict": books.verdict, "whole": not books.problems, "accounts": []}
    for account in books.accounts:
        items = check_list(account)
        lines += [f"# {one_line(account['account'])}, {sentence(account)}", "", *written(items)]
        document["accounts"].append({**_plain(account), "items": [plain(i) for i in items]})
    if not books.accounts:
        lines += ["This ledger has no account.", ""]
    return "\n".join([*lines, "```json", json.dumps(document, indent=1).replace("`", "\\u0060"), "```", ""])


def check_list(a: Mapping[str, Any]) -> list[Item]:
    """All items, in order; those the books can answer."""
    at = f"at delta {a['delta']:g}"
    answers: dict[str, list[str]] = {
        "1": [account_line(a) + f", composed by {a['rule']}"],
        "4": [f"{UNITS[a['unit']]}; how its contribution is bounded stands in each run's certificate"],
        "5": [covered_pairs(a["neighbours"]), "whoever sees more than the stated observer: not covered"],
        "6": [f"run {p['run']}, {p['at']}: {p['what']}, epsilon {amount(p['spent'])} after it {at}" for p in a["history"]]
        or ["no run yet"],
        "12": ["a run is reserved whole before its first release; one that does not fit is refused (exit 3)", words(dict(a))],
    }
    return [Item(n, q, tuple(answers.get(n, ())), "" if n in answers else ASK_THE_RUN) for n, q, _ in QUESTIONS]


def registry(books: Books) -> str:
    """One YAML document per account."""
    return "".join(f"---\n{to_yaml(record(a, books))}" for a in books.accounts) or "# this ledger has no account\n"


def record(a: Mapping[str, Any], books: Books) -> dict[str, Any]:
    description = f"{a['runs']} run(s) with {a['releases']} release(s) charged to one account. {words(dict(a))}"
    numbers = {} if a["spent"] is None else {"privacy_parameters": {"epsilon": float(a["spent"]), "delta": float(a["delta"])}}
    name = ("" if not books.problems else "LEDGER CHANGED: ") + f"all runs of account {a['account']}, {sentence(a)}"
    return {
        "url_slug": slug("taskveil ledger", a["account"], a["unit"], a["neighbours"], a["observer"]),
        "status": "Draft",
        "tier": 2,
        "deployment": {
            "basic": basic(name, description, books.date),
            "dp_variant": {"variant_name": "Pure DP" if a["delta"] == 0 else "Approximate DP"},
            "privacy_loss": {
                "privacy_unit": PRIVACY_UNITS[a["unit"]],
                "privacy_unit_details": f"{a['neighbours']} neighbours, against {OBSERVERS[a['observer']]}",
                **numbers,
                "privacy_parameters_details": account_line(a),
            },
            "deployment_model": {
                "model_name": "Varies",
                "model_name_details": FILL + "how each run aggregates, if not by a curator",
                "actors": f"Owners of tasks; whoever runs the ledger. Statements are made against {OBSERVERS[a['observer']]}.",
                "release_type": "Many releases",
                "access_type": "Non-interactive",
            },
            "accounting": {"composition": f"Over runs by the rule {a['rule']}; refused beyond epsilon {a['limit']:g}."},
            "administrative": {"notes": books.verdict, "registry_authors": [FILL + "who submits this record"]},
        },
    }


def mlbom(books: Books) -> str:
    """Every run as a component, with what it was charged to."""
    charged: dict[str, list[str]] = {}
    for a in books.accounts:
        for p in a["history"]:
            after = f"epsilon {amount(p['spent'])} after it of {a['limit']:g} at delta {a['delta']:g}"
            sentence_of_charge = f"account {a['account']}, {sentence(a)}: {p['what']} at {p['at']}, {after}"
            charged.setdefault(str(p["run"]), []).append(sentence_of_charge)
    parts = [
        {"type": "machine-learning-model", "bom-ref": f"run:{run}", "name": run,
         "properties": [{"name": "taskveil:charge", "value": text} for text in lines]}
        for run, lines in charged.items()
    ]  # fmt: skip
    totals = [{"name": "taskveil:ledger", "value": books.verdict}]
    totals += [{"name": "taskveil:account", "value": account_line(a)} for a in books.accounts]
    digest = hashlib.sha256(json.dumps([parts, totals]).encode()).hexdigest()
    ledger: dict[str, Any] = {"type": "application", "bom-ref": "ledger", "name": "runs of a ledger", "properties": totals}
    bill = bill_of(ledger, parts, f"ledger:{digest}", books.date)
    return json.dumps(bill, indent=1, allow_nan=False) + "\n"


def sentence(a: Mapping[str, Any]) -> str:
    return f"one {a['unit']} ({a['neighbours']}) against {a['observer']}"


def one_line(text: str) -> str:
    """A name people chose, as it may stand in a heading."""
    return " ".join(str(text).split())


def _plain(a: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in a.items() if k != "history"}


BOOKS: dict[str, Callable[[Books], str]] = {"nist": nist, "registry": registry, "mlbom": mlbom}
