"""An account of a name that already has runs starts with what those runs have spent against its observer.

Entries of earlier runs are copied from the accounts they stand in, run by run, and chained anew; so the total, every column and
the right to go on with a run that is still open follow from the new account's own entries.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from taskveil.errors import OptionError
from taskveil.privacy.ledger import statements as say
from taskveil.privacy.ledger.holdings import Holdings, Limit
from taskveil.privacy.ledger.posting import append, entry
from taskveil.privacy.ledger.reach import NULL, REPLACE, Key, Reach
from taskveil.privacy.ledger.replay import first_plan_cost, replayed

if TYPE_CHECKING:
    from taskveil.privacy.ledger.database import Transaction


def carry_all(transaction: Transaction) -> None:
    """Every account of a ledger that charged one observer only gets what it was not charged, and its sentence in its chain."""
    for row in transaction.rows(say.ALL_ACCOUNTS):
        body = {"epsilon": row.epsilon, "delta": row.delta, **Key.of(row).sentence()}
        append(transaction, row, [entry("limit", json.dumps(body))], epsilon=row.epsilon, delta=row.delta)
        carry_over(transaction, Key.of(row), refuse=False)


def carry_over(transaction: Transaction, key: Key, refuse: bool = True) -> None:
    """Copy into account `key` the runs of its name that reach it and do not stand in it.

    One whose cost under the account's neighbours was not written down is refused, or (in an old ledger) left where it is.
    """
    rows = transaction.rows(say.ACCOUNTS, {"name": key.name})
    (row,) = [r for r in rows if Key.of(r) == key]
    there = {state.run for state in transaction.rows(say.RUNS_OF, {"account": row.id})}
    copied: list[dict[str, str]] = []
    for other in rows:
        for state in transaction.rows(say.RUNS_OF, {"account": other.id}):
            entries = [e for e in transaction.rows(say.HISTORY, {"account": other.id}) if e.run == state.run]
            if state.run in there or not _reaches(entries, Key.of(other), key, refuse):
                continue
            there.add(state.run)
            copied += [entry(e.kind, _carried(e), e.run, e.release) for e in entries]
            transaction.run(say.OPEN_RUN, {**state._asdict(), "account": row.id})
    if copied:
        _append_history(transaction, row, copied)


def _append_history(transaction: Transaction, row: Any, copied: list[dict[str, str]]) -> None:
    """The copies, under the rule and with the total that they give this account."""
    history = [*transaction.rows(say.HISTORY, {"account": row.id}), *map(_Copy, copied)]
    first = first_plan_cost(history)
    rule = row.rule if first is None else Limit(row.epsilon, row.delta, row.rule).decided(first).rule
    for one in copied:
        if one["kind"] == "reserve":
            one["body"] = json.dumps({**json.loads(one["body"]), "rule": rule})
    held = Holdings(replayed([*history[: -len(copied)], *map(_Copy, copied)]).cost)
    append(transaction, row, copied, held=held.to_json(), rule=rule)


class _Copy:
    """An entry that is about to be written, read like one that is."""

    def __init__(self, fields: dict[str, str]):
        self.run, self.kind, self.release, self.body = fields["run"], fields["kind"], fields["release"], fields["body"]


def _reaches(entries: list[Any], source: Key, target: Key, refuse: bool) -> bool:
    """Whether a run in account `source` is to be charged to `target` too; priced as it was for `source`."""
    stored = next((json.loads(e.body).get("reach") for e in entries if e.kind == "reserve"), None)
    reach = Reach(stored["unit"], stored["neighbours"], tuple(stored["observers"])) if stored else Reach.of(source)
    relation = reach.relation(target)
    if relation != REPLACE or reach.relation(source) != NULL:
        return relation is not None
    if refuse:
        raise OptionError(
            f"account {source} holds runs with {NULL} neighbours, whose cost with {REPLACE} neighbours was not written down; "
            "open this account under another name"
        )
    return False


def _carried(one: Any) -> str:
    return json.dumps({**json.loads(one.body), "carried": True}) if one.kind == "reserve" else one.body
