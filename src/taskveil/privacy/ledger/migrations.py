"""The ledger's tables, and the named steps that brought them there.

A step and the record of it share one transaction, so a ledger is never half-migrated. A ledger that holds a step this
program does not know was written by a newer version: it is refused, nothing is released.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    select,
    text,
)

from taskveil.errors import LedgerUnavailable

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


def _create(connection: Connection, transaction: Any) -> None:
    metadata.create_all(connection, tables=[accounts, runs, entries])
    if connection.dialect.name == "sqlite":  # append-only, also for a hand-written UPDATE
        for verb in ("UPDATE", "DELETE"):
            connection.execute(
                text(
                    f"CREATE TRIGGER taskveil_no_{verb.lower()} BEFORE {verb} ON taskveil_entries "
                    "BEGIN SELECT RAISE(ABORT, 'ledger entries are append-only'); END"
                )
            )


def _every_account(connection: Connection, transaction: Any) -> None:
    """Version 0.1.0 charged one observer: a run may now stand in several accounts, and earlier ones are carried over."""
    from taskveil.privacy.ledger.carry import carry_all

    columns = "run, account, delta, \"left\", committed, finished"
    connection.execute(text("ALTER TABLE taskveil_runs RENAME TO taskveil_runs_before"))
    metadata.create_all(connection, tables=[runs])
    connection.execute(text(f"INSERT INTO taskveil_runs ({columns}) SELECT {columns} FROM taskveil_runs_before"))
    connection.execute(text("DROP TABLE taskveil_runs_before"))
    carry_all(transaction)


Step = Callable[[Connection, Any], None]
STEPS: dict[str, Step] = {"1 accounts, runs and entries": _create, "2 runs in every account they reach": _every_account}


def migrate(connection: Connection, transaction: Any) -> None:
    """Bring the tables up to date inside the caller's transaction."""
    if connection.dialect.name == "postgresql":  # two programs that open an old ledger at once
        connection.execute(text("SELECT pg_advisory_xact_lock(7220391)"))
    if not connection.dialect.has_table(connection, steps.name):
        metadata.create_all(connection, tables=[steps])
    done = set(connection.execute(select(steps.c.name)).scalars())
    refuse_newer(done)
    for name, step in STEPS.items():
        if name not in done:
            step(connection, transaction)
            connection.execute(insert(steps).values(name=name))


def refuse_newer(done: set[str]) -> None:
    """A ledger that has been through a step unknown here is left alone."""
    unknown = sorted(done - STEPS.keys())
    if unknown:
        raise LedgerUnavailable(
            f"this ledger was written by a newer version of taskveil (step {unknown[0]!r}); "
            "upgrade to use it. Nothing was released."
        )
