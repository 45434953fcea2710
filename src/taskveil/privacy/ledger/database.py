"""Opening a ledger and writing to it, one transaction at a time.

SQLite: BEGIN IMMEDIATE takes the write lock before the first read, so two processes never decide on the same balance;
synchronous=FULL makes a commit durable before it returns. PostgreSQL: all accounts of a name are locked in order (SELECT ... FOR
UPDATE), which serialises all that happens to them; synchronous_commit is raised for every transaction that must last.
Whatever goes wrong below us (read-only or full disk, a broken file, an unreachable server) becomes LedgerUnavailable: nothing
is released.

STEPS are the named steps that brought the tables where they are. A step and the record of it share one transaction, so a ledger
is never half-migrated. A ledger that holds a step this program does not know was written by a newer version: it is refused,
nothing is released.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, create_engine, event, insert, select, text
from sqlalchemy.engine import Dialect, Engine
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import PoolProxiedConnection

from taskveil.checks import Line
from taskveil.errors import EnvironmentMissing, LedgerUnavailable, OptionError, TaskveilError
from taskveil.privacy.ledger import statements as say
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
    past = set(connection.execute(select(steps.c.name)).scalars())
    refuse_newer(past)
    for name, step in STEPS.items():
        if name not in past:
            step(connection, transaction)
            connection.execute(insert(steps).values(name=name))


def refuse_newer(past: set[str]) -> None:
    """A ledger that has been through a step unknown here is left alone."""
    unknown = sorted(past - STEPS.keys())
    if unknown:
        raise LedgerUnavailable(
            f"this ledger was written by a newer version of taskveil (step {unknown[0]!r}); "
            "upgrade to use it. Nothing was released."
        )


WAIT_SECONDS = 60
LOG_PAGES = 64  # of the write-ahead log, before it starts over: a disk syncs blocks it has sooner than new ones
# Whatever the server's, the database's or the user's default: never less than the disk, and what is stricter stays.
WAITS_FOR_THE_DISK = (
    "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') IN ('off', 'local')"
)
UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)  # as a changed cell raises
MOST_KEPT = 4  # ledgers whose connections stay open; a process rarely has a second one


class Transaction:
    """One open transaction on a connection of the driver."""

    def __init__(self, connection: PoolProxiedConnection, dialect: Dialect, durable: bool = True):
        self._dialect = dialect
        self._cursor = connection.cursor()
        if self._dialect.name == "sqlite":
            self._begin_sqlite(connection, durable)
        else:
            self._cursor.execute(WAITS_FOR_THE_DISK if durable else "SET LOCAL synchronous_commit TO OFF")

    def run(self, statement: say.Statement, values: say.Values) -> None:
        """Executes a statement inside this transaction."""
        self._cursor.execute(statement.sql(self._dialect), statement.arranged(self._dialect, values))

    def run_many(self, statement: say.Statement, values: Sequence[say.Values]) -> None:
        """Executes a statement once for each entry of `values`."""
        self._cursor.executemany(statement.sql(self._dialect), [statement.arranged(self._dialect, v) for v in values])

    def rows(self, statement: say.Statement, values: say.Values | None = None) -> list[Any]:
        """What a SELECT finds, as this transaction sees it."""
        self.run(statement, values or {})
        return [statement.row(*row) for row in self._cursor.fetchall()]

    def _begin_sqlite(self, connection: PoolProxiedConnection, durable: bool) -> None:
        """In WAL mode FULL waits for the disk at the end of every transaction, NORMAL does not."""
        if connection.info.get("durable") is not durable:
            self._cursor.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            connection.info["durable"] = durable
        self._cursor.execute("BEGIN IMMEDIATE")


class Database:
    """One ledger file or server."""

    def __init__(self, url: str):
        self.url = url
        kept = _kept_engine(url) if isinstance(url, str) else None
        self._engine = _new_engine(url) if kept is None else kept
        self._checked = False  # a program of another version may have been here since
        if kept is not None:
            return
        before = _place(self._engine)
        with self.errors(), self._engine.begin() as connection:
            migrate(connection, Transaction(connection.connection, self._engine.dialect))
        if before is not None and before == _place(self._engine):
            _keep(url, before, self._engine)

    @contextmanager
    def transaction(self, durable: bool = True) -> Iterator[Transaction]:
        """Everything inside is written together or not at all, seen by all processes, and durable unless asked otherwise.

        What is not durable survives the process, not a power cut; the next durable transaction makes it so.
        """
        with self.errors(), closing(self._engine.raw_connection()) as connection:
            try:
                this = Transaction(connection, self._engine.dialect, durable)
                if not self._checked:
                    refuse_newer({row.name for row in this.rows(say.DONE)})
                    self._checked = True
                yield this
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What the driver or the engine cannot do, and cells that taskveil did not write, in the words of a user."""
        try:
            yield
        except TaskveilError:
            raise
        except UNREADABLE as problem:
            raise LedgerUnavailable(
                f"the ledger at {without_password(self.url)} was changed and cannot be read ({type(problem).__name__}); "
                "`taskveil ledger verify` says where. Nothing was released."
            ) from problem
        except (DBAPIError, self._engine.dialect.loaded_dbapi.Error) as error:
            cause = getattr(error, "orig", error)
            reason = (str(cause) or type(cause).__name__).splitlines()[0]
            raise LedgerUnavailable(
                f"the ledger at {without_password(self.url)} cannot be used: {reason}. Nothing was released. "
                "Check that the file or server exists, is a taskveil ledger and can be written."
            ) from None

    def close(self) -> None:
        """Gives all connections back."""
        if _kept.get(self.url, (None, None))[1] is self._engine:
            del _kept[self.url]
        self._engine.dispose()

    @property
    def open_accounts(self) -> set[Any]:
        """Accounts seen behind this engine. None is ever removed, so they need not be looked for again."""
        return _known.setdefault(self._engine, set())

    @property
    def locks_rows(self) -> bool:
        """Whether single rows can be locked; SQLite locks the whole file."""
        return self._engine.dialect.name != "sqlite"


def without_password(url: str) -> str:
    """The address without a password."""
    from sqlalchemy.engine import make_url

    return make_url(url).render_as_string(hide_password=True)


def check_there(url: str) -> None:
    """Refuse a file that is not there, where opening it would make an empty ledger that has nothing wrong."""
    engine = _new_engine(url)
    if engine.dialect.name == "sqlite" and _place(engine) is None:
        raise OptionError(f"there is no ledger at {without_password(url)}; expected the address of one that runs were charged to")


_kept: dict[str, tuple[Any, Engine]] = {}
_known: WeakKeyDictionary[Engine, set[Any]] = WeakKeyDictionary()
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
        status = Path(str(engine.url.database)).stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _after_fork() -> None:
    """A connection must not be used on both sides of a fork, nor closed by the child."""
    _left_to_the_parent.append(dict(_kept))
    _kept.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _new_engine(url: str) -> Engine:
    if not Line(4096).accepts(url):  # not shown: it may hold a password
        raise OptionError(f"a ledger is given as a URL, {Line(4096).allowed}, such as sqlite:///budget.db")
    if "://" not in url:
        raise OptionError("a ledger is given as a URL such as sqlite:///budget.db or postgresql://...; what came has no ://")
    if url.startswith(("postgresql://", "postgres://")):
        url = "postgresql+psycopg://" + url.partition("://")[2]
    kind = url.partition(":")[0]  # the rest may hold a password
    if kind.partition("+")[0] not in ("sqlite", "postgresql"):
        raise OptionError(
            f"a ledger is kept in SQLite or PostgreSQL, not {kind!r}; the URL is sqlite:///file or postgresql://host/db"
        )
    try:
        engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"))  # a server may have been restarted
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise OptionError(f"this {kind!r} address is no database URL; expected sqlite:///file or postgresql://host/db") from None
    except ModuleNotFoundError as error:
        raise EnvironmentMissing(f"this ledger needs the package {error.name!r}: pip install 'taskveil[postgres]'") from None
    if engine.dialect.name == "sqlite":
        if engine.url.database in (None, "", ":memory:"):
            raise OptionError("a ledger in memory forgets what was spent; name its file, for example sqlite:///budget.db")
        event.listen(engine, "connect", _set_up_sqlite)
    return engine


def _set_up_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    cursor = connection.cursor()
    pragmas = (f"busy_timeout={WAIT_SECONDS * 1000}", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")
    for pragma in (*pragmas, f"wal_autocheckpoint={LOG_PAGES}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
