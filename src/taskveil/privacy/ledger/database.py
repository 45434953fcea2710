"""Opening a ledger and writing to it, one transaction at a time.

SQLite: BEGIN IMMEDIATE takes the write lock before the first read, so two processes never decide on the same balance;
synchronous=FULL makes a commit durable before it returns. PostgreSQL: the account's row is locked (SELECT ... FOR UPDATE),
which serialises all that happens to one account. Whatever goes wrong below us (read-only or full disk, a broken file, an
unreachable server) becomes LedgerUnavailable: nothing is released.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import ArgumentError, DatabaseError, InterfaceError, NoSuchModuleError, OperationalError

from taskveil.errors import EnvironmentMissing, LedgerUnavailable, OptionError
from taskveil.privacy.ledger.migrations import migrate

WAIT_SECONDS = 60
MOST_KEPT = 4  # ledgers whose connections stay open; a process rarely has a second one


class Database:
    """One ledger file or server."""

    def __init__(self, url: str):
        self.url = url
        self._engine = _kept_engine(url) or _new_engine(url)
        self._begin = "BEGIN IMMEDIATE" if self._engine.dialect.name == "sqlite" else None
        before = _place(self._engine)
        with self.transaction() as connection:
            migrate(connection)
        if before is not None and before == _place(self._engine):
            _keep(url, before, self._engine)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Everything inside is written together and durably, or not at all."""
        try:
            with self._engine.begin() as connection:
                if self._begin is not None:
                    connection.exec_driver_sql(self._begin)
                yield connection
        except (OperationalError, DatabaseError, InterfaceError) as error:
            reason = str(error.orig).splitlines()[0] if error.orig is not None else type(error).__name__
            raise LedgerUnavailable(
                f"the ledger at {shown(self.url)} cannot be used: {reason}. Nothing was released. "
                "Check that the file or server exists, is a taskveil ledger and can be written."
            ) from None

    def close(self) -> None:
        if _kept.get(self.url, (None, None))[1] is self._engine:
            del _kept[self.url]
        self._engine.dispose()

    @property
    def locks_rows(self) -> bool:
        return self._engine.dialect.name != "sqlite"


def shown(url: str) -> str:
    """The address without a password."""
    from sqlalchemy.engine import make_url

    return make_url(url).render_as_string(hide_password=True)


_kept: dict[str, tuple[Any, Engine]] = {}
_left_to_the_parent: list[Any] = []


def _kept_engine(url: str) -> Engine | None:
    """The engine this process used last for the URL, with its connections and statements, unless the file is another one.

    Opening, compiling and closing were most of what a ledger cost a fit. A file that was deleted and made anew has
    another number: a number is not given out again while a connection of ours holds the old file open.
    """
    place, engine = _kept.get(url, (None, None))
    return engine if engine is not None and place == _place(engine) else None


def _keep(url: str, place: Any, engine: Engine) -> None:
    _kept.pop(url, None)
    _kept[url] = place, engine
    while len(_kept) > MOST_KEPT:
        oldest = next(iter(_kept))
        _kept.pop(oldest)[1].dispose()  # whoever still uses it connects again


def _place(engine: Engine) -> Any:
    """What tells one ledger from another behind the same URL: the file's number; None where there is none to tell."""
    if engine.dialect.name != "sqlite":
        return engine.url
    try:
        found = Path(engine.url.database or "").stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if engine.url.database not in (None, "", ":memory:") else None


def _after_fork() -> None:
    """A connection must not be used on both sides of a fork, nor closed by the child."""
    _left_to_the_parent.append(dict(_kept))
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _new_engine(url: str) -> Engine:
    if "://" not in url:
        raise OptionError(f"a ledger is given as a URL such as sqlite:///budget.db or postgresql://...; got {url!r}")
    if url.startswith(("postgresql://", "postgres://")):
        url = "postgresql+psycopg://" + url.partition("://")[2]
    try:
        engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"))  # a server may have been restarted
    except (ArgumentError, NoSuchModuleError):
        raise OptionError(f"{url!r} is not a database URL; expected sqlite:///file or postgresql://host/name") from None
    except ModuleNotFoundError as error:
        raise EnvironmentMissing(f"this ledger needs the package {error.name!r}: pip install 'taskveil[postgres]'") from None
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _set_up_sqlite)
    return engine


def _set_up_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    cursor = connection.cursor()
    for pragma in (f"busy_timeout={WAIT_SECONDS * 1000}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
