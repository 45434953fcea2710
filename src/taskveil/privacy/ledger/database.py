"""Opening a ledger and writing to it, one transaction at a time.

SQLite: BEGIN IMMEDIATE takes the write lock before the first read, so two processes never decide on the same balance;
synchronous=FULL makes a commit durable before it returns. PostgreSQL: the account's row is locked (SELECT ... FOR UPDATE),
which serialises all that happens to one account. Whatever goes wrong below us (read-only or full disk, a broken file, an
unreachable server) becomes LedgerUnavailable: nothing is released.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import ArgumentError, DatabaseError, InterfaceError, NoSuchModuleError, OperationalError

from taskveil.errors import EnvironmentMissing, LedgerUnavailable, OptionError
from taskveil.privacy.ledger.migrations import migrate

WAIT_SECONDS = 60


class Database:
    """One ledger file or server."""

    def __init__(self, url: str):
        self.url = url
        self._engine = _engine(url)
        with self.transaction() as connection:
            migrate(connection)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Everything inside is written together and durably, or not at all."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except (OperationalError, DatabaseError, InterfaceError) as error:
            reason = str(error.orig).splitlines()[0] if error.orig is not None else type(error).__name__
            raise LedgerUnavailable(
                f"the ledger at {shown(self.url)} cannot be used: {reason}. Nothing was released. "
                "Check that the file or server exists, is a taskveil ledger and can be written."
            ) from None

    def close(self) -> None:
        self._engine.dispose()

    @property
    def locks_rows(self) -> bool:
        return self._engine.dialect.name != "sqlite"


def shown(url: str) -> str:
    """The address without a password."""
    from sqlalchemy.engine import make_url

    return make_url(url).render_as_string(hide_password=True)


def _engine(url: str) -> Engine:
    if "://" not in url:
        raise OptionError(f"a ledger is given as a URL such as sqlite:///budget.db or postgresql://...; got {url!r}")
    if url.startswith(("postgresql://", "postgres://")):
        url = "postgresql+psycopg://" + url.partition("://")[2]
    try:
        engine = create_engine(url)
    except (ArgumentError, NoSuchModuleError):
        raise OptionError(f"{url!r} is not a database URL; expected sqlite:///file or postgresql://host/name") from None
    except ModuleNotFoundError as error:
        raise EnvironmentMissing(f"this ledger needs the package {error.name!r}: pip install 'taskveil[postgres]'") from None
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine)
    return engine


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # we say BEGIN ourselves
        cursor = connection.cursor()
        for pragma in (f"busy_timeout={WAIT_SECONDS * 1000}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
