"""The named steps that brought the ledger's tables where they are.

A step and the record of it share one transaction, so a ledger is never half-migrated. A ledger that holds a step this
program does not know was written by a newer version: it is refused, nothing is released.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection, insert, select, text

from taskveil.errors import LedgerUnavailable
from taskveil.privacy.ledger.carry import carry_all
from taskveil.privacy.ledger.statements import accounts, entries, metadata, runs, steps


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
    columns = 'run, account, delta, "left", committed, finished'
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
