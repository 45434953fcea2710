"""What the ledger says to its database, built once: putting a statement together costs five times as much as running it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, insert, select, update

from taskveil.privacy.ledger.migrations import accounts, entries, runs

KEY = ("name", "unit", "neighbours", "observer")

ACCOUNT = select(accounts).where(*(accounts.c[part] == bindparam(part) for part in KEY))
ACCOUNT_LOCKED = ACCOUNT.with_for_update()
ALL_ACCOUNTS = select(accounts).order_by(accounts.c.name)
OPEN_ACCOUNT = insert(accounts)

RUN = select(runs).where(runs.c.run == bindparam("run"), runs.c.account == bindparam("account"))
UNFINISHED = select(runs.c.run).where(runs.c.account == bindparam("account"), runs.c.finished == 0)
OPEN_RUN = insert(runs)
COUNT_COMMIT = (
    update(runs).where(runs.c.run == bindparam("which")).values(left=bindparam("left"), committed=bindparam("committed"))
)
FINISH_RUN = update(runs).where(runs.c.run == bindparam("which")).values(finished=1)

HISTORY = select(entries).where(entries.c.account == bindparam("account")).order_by(entries.c.number)
COMMITS = (
    select(entries.c.release, entries.c.body)
    .where(entries.c.account == bindparam("account"), entries.c.run == bindparam("run"), entries.c.kind == "commit")
    .order_by(entries.c.number)
)
COMMITTED_BEFORE = (
    select(entries.c.id)
    .where(entries.c.run == bindparam("run"), entries.c.release == bindparam("release"), entries.c.kind == "commit")
    .limit(1)
)
APPEND = insert(entries)


def advance(*changed: str) -> Any:
    """The account's row after one more entry, with other columns that change along."""
    columns = ("entries", "head", *changed)
    return update(accounts).where(accounts.c.id == bindparam("which")).values({c: bindparam(c) for c in columns})


CHANGES: tuple[tuple[str, ...], ...] = ((), ("held",), ("held", "rule"), ("epsilon", "delta"))
ADVANCE = {changed: advance(*changed) for changed in CHANGES}
