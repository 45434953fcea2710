"""The ledger's tables, and what it says to its database: built and compiled once, which costs many times as much as running it.

A statement is written in SQLAlchemy, compiled for the database's dialect at its first use, and run on the driver's own cursor.
database.py has the steps that brought the tables where they are.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    insert,
    select,
    update,
)

metadata = MetaData()

steps = Table("taskveil_steps", metadata, Column("name", String(60), primary_key=True))

accounts = Table(
    "taskveil_accounts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("unit", String(20), nullable=False),
    Column("neighbours", String(20), nullable=False),
    Column("observer", String(20), nullable=False),
    Column("epsilon", Float, nullable=False),
    Column("delta", Float, nullable=False),
    Column("rule", String(10), nullable=False),  # "open" until the first run, then "renyi" or "sum", for ever
    Column("held", Text, nullable=False),  # what is committed or reserved, composed (JSON)
    Column("entries", Integer, nullable=False),
    Column("head", String(64), nullable=False),  # hash of the last entry
    UniqueConstraint("name", "unit", "neighbours", "observer"),
)

runs = Table(
    "taskveil_runs",
    metadata,
    Column("run", String(40), primary_key=True),
    Column("account", ForeignKey("taskveil_accounts.id"), primary_key=True),  # a run stands in every account it reaches
    Column("delta", Float, nullable=False),
    Column("left", Text, nullable=False),  # events reserved and not committed, with their counts (JSON)
    Column("committed", Integer, nullable=False),
    Column("finished", Integer, nullable=False),
)

entries = Table(
    "taskveil_entries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account", ForeignKey("taskveil_accounts.id"), nullable=False, index=True),
    Column("number", Integer, nullable=False),  # 1, 2, 3 ... within the account
    Column("run", String(40), nullable=False, index=True),
    Column("kind", String(10), nullable=False),  # limit, reserve, commit, finish
    Column("release", String(200), nullable=False),  # of a commit, else empty
    Column("body", Text, nullable=False),
    Column("at", String(32), nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    UniqueConstraint("account", "number"),
)


Values = Mapping[str, Any]


class Statement:
    """One statement, for every database; `columns` are those an INSERT fills, `row` is what a SELECT finds."""

    def __init__(self, statement: Any, columns: Sequence[str] | None = None):
        self._statement, self._columns = statement, columns
        self._compiled = cache(self._compile)
        self.row = namedtuple("Row", [c.name for c in getattr(statement, "selected_columns", ())])  # type: ignore[misc]

    def sql(self, dialect: Any) -> str:
        """As this database understands it."""
        return self._compiled(dialect.name, dialect)[0]

    def arranged(self, dialect: Any, values: Values) -> Any:
        """Parameters as the driver wants them: in order, or by name."""
        order = self._compiled(dialect.name, dialect)[1]
        return dict(values) if order is None else [values[name] for name in order]

    def _compile(self, name: str, dialect: Any) -> tuple[str, Sequence[str] | None]:
        compiled = self._statement.compile(dialect=dialect, column_keys=self._columns)
        return str(compiled), compiled.positiontup


KEY = ("name", "unit", "neighbours", "observer")
_ACCOUNTS = select(accounts).where(accounts.c.name == bindparam("name")).order_by(accounts.c.id)
_THIS_RUN = (runs.c.run == bindparam("which"), runs.c.account == bindparam("where"))

DONE = Statement(select(steps.c.name))

ACCOUNTS = Statement(_ACCOUNTS)
ACCOUNTS_LOCKED = Statement(_ACCOUNTS.with_for_update())
ALL_ACCOUNTS = Statement(select(accounts).order_by(accounts.c.name, accounts.c.id))
OPEN_ACCOUNT = Statement(insert(accounts), [*KEY, "epsilon", "delta", "rule", "held", "entries", "head"])

RUN = Statement(select(runs).where(runs.c.run == bindparam("run")).order_by(runs.c.account))
RUNS_OF = Statement(select(runs).where(runs.c.account == bindparam("account")).order_by(runs.c.run))
UNFINISHED = Statement(select(runs.c.run).where(runs.c.account == bindparam("account"), runs.c.finished == bindparam("running")))
OPEN_RUN = Statement(insert(runs), ["run", "account", "delta", "left", "committed", "finished"])
COUNT_COMMIT = Statement(update(runs).where(*_THIS_RUN).values({c: bindparam(c) for c in ("left", "committed", "finished")}))
FINISH_RUN = Statement(update(runs).where(*_THIS_RUN).values(finished=bindparam("finished")))

HISTORY = Statement(select(entries).where(entries.c.account == bindparam("account")).order_by(entries.c.number))
COMMITS = Statement(
    select(entries.c.release, entries.c.body)
    .where(entries.c.account == bindparam("account"), entries.c.run == bindparam("run"), entries.c.kind == bindparam("kind"))
    .order_by(entries.c.number)
)
COMMITTED_BEFORE = Statement(
    select(entries.c.id).where(
        entries.c.account == bindparam("account"),
        entries.c.run == bindparam("run"),
        entries.c.release == bindparam("release"),
        entries.c.kind == bindparam("kind"),
    )
)
APPEND = Statement(insert(entries), ["account", "number", "run", "kind", "release", "body", "at", "previous", "hash"])


def advance(*changed: str) -> Statement:
    """The account's row after one more entry, with other columns that change along."""
    columns = ("entries", "head", *changed)
    return Statement(update(accounts).where(accounts.c.id == bindparam("which")).values({c: bindparam(c) for c in columns}))


CHANGES: tuple[tuple[str, ...], ...] = ((), ("held",), ("held", "rule"), ("epsilon", "delta"))
ADVANCE = {changed: advance(*changed) for changed in CHANGES}
