"""A real process is killed with SIGKILL at every write step of a run, then the run is resumed.

Checked each time: the ledger holds at least as many releases as were ever visible on disk; no noise is used twice; the
certificate states what the ledger says; models exist. Children are forked from a process that has everything imported,
so that a kill costs milliseconds.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.estimators.storage import load
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.events import Charge, Event
from taskveil.privacy.ledger import Book, Key

KEY, ROUNDS = Key("wards"), 3
TASKS = related_tasks(n_tasks=10, rows=(6, 8), n_features=3)
NEVER = 10_000


def fit(folder: Path) -> None:
    """The run under test; seeded noise, so that a repeated draw would be seen."""
    est = tv.TaskRegressor(
        tv.methods.get("low-rank", rounds=ROUNDS, local_steps=1),
        epsilon=1.0,
        delta=1e-5,
        insecure_noise_seed=5,
        ledger=f"sqlite:///{folder / 'budget.db'}",
        account=KEY.name,
        run_dir=folder / "run",
    ).fit(TASKS)
    est.save(folder / "model")


@pytest.fixture(scope="module", autouse=True)
def everything_imported_and_compiled(tmp_path_factory):
    """Forked children inherit it; without this every kill would pay for imports and compilation."""
    folder = tmp_path_factory.mktemp("warm")
    book = Book(f"sqlite:///{folder / 'budget.db'}")
    book.set_limit(KEY, 20.0, 1e-5)
    book.close()
    fit(folder)


def in_a_child(folder: Path, kill_at: int, fit: Callable[[Path], None] = fit) -> bool:
    """Fork, run, and say whether the child came to its end."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.environ["TASKVEIL_KILL_AT"] = str(kill_at)
            fit(folder)
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0, "the run failed instead of being killed"
    return True


def visible_releases(folder: Path) -> dict[str, str]:
    """Round -> hash of the noisy matrix that stands on disk, whole files only."""
    found = {}
    for path in sorted((folder / "run").glob("billboard-*.npz")):
        with np.load(path, allow_pickle=False) as stored:
            if "value/second-moment" in stored.files:
                found[path.stem] = hashlib.sha256(stored["value/second-moment"].tobytes()).hexdigest()
    return found


@cache
def epsilon_of(events: tuple[Event, ...]) -> float:
    """Runs that were killed at different steps often committed the same."""
    return best_epsilon([Charge(event) for event in events], 1e-5)[0]


def check(folder: Path, seen: set[str]) -> None:
    book = Book(f"sqlite:///{folder / 'budget.db'}")
    (row,) = book.accounts()
    commits = [e for e in book.rows(row.id) if e.kind == "commit"]
    assert len(commits) >= len(seen), "something was visible that the ledger does not know"
    assert book.verify() == []
    assert book.open_runs(KEY) == []
    est = load(folder / "model")
    assert est.coef_.shape == (TASKS.n_tasks, TASKS.n_features)
    stated = est.certificate_.statements[0].epsilon
    really = epsilon_of(tuple(event for _, event in book.committed(KEY, commits[0].run)))
    assert stated == pytest.approx(max(really, min(stated, 1.0)), rel=1e-2)
    assert sum(e["count"] for e in json.loads(est.certificate_.to_json())["events"]) == len(commits)
    book.close()


def kills(folder: Path, positions: list[int]) -> None:
    """Kill at each position in turn, resuming the same run, and let it come to its end."""
    folder.mkdir(parents=True)
    book = Book(f"sqlite:///{folder / 'budget.db'}")
    book.set_limit(KEY, 20.0, 1e-5)
    book.close()
    seen: set[str] = set()
    by_round: dict[str, set[str]] = {}
    for position in [*positions, NEVER]:
        ended = in_a_child(folder, position)
        for name, digest in visible_releases(folder).items():
            by_round.setdefault(name, set()).add(digest)
            seen.add(digest)
        if ended:
            break
    assert ended
    check(folder, seen)
    assert in_a_child(folder, NEVER), "resuming a finished run must do nothing"
    check(folder, seen)


def points(tmp_path: Path) -> int:
    """How many write steps a run passes."""
    folder, log = tmp_path / "whole", tmp_path / "points"
    folder.mkdir()
    book = Book(f"sqlite:///{folder / 'budget.db'}")
    book.set_limit(KEY, 20.0, 1e-5)
    book.close()
    os.environ["TASKVEIL_KILL_LOG"] = str(log)
    try:
        assert in_a_child(folder, NEVER)
    finally:
        del os.environ["TASKVEIL_KILL_LOG"]
    passed = Counter(log.read_text().split())
    for expected in ("commit.before", "commit.after", "noise.drawn", "state.npz.written", "state.stored", "finish.before"):
        assert passed[expected], f"no fault point {expected}"
    return sum(passed.values())


@pytest.mark.kills
def test_a_run_killed_at_ten_steps_is_resumed_each_time(tmp_path):
    steps = points(tmp_path)
    for k, position in enumerate(np.linspace(1, steps, 10).astype(int)):
        kills(tmp_path / f"run-{k}", [int(position)])


@pytest.mark.kills
def test_a_run_killed_again_and_again_comes_to_its_end(tmp_path):
    kills(tmp_path / "again", [4, 9, 3, 11, 6])


@pytest.mark.kills
def test_a_repeated_round_gets_fresh_noise(tmp_path):
    """Killed after the noise was drawn and published, before the round was closed: the second draw must differ."""
    folder = tmp_path / "fresh"
    folder.mkdir()
    book = Book(f"sqlite:///{folder / 'budget.db'}")
    book.set_limit(KEY, 20.0, 1e-5)
    book.close()
    log = tmp_path / "log"
    os.environ["TASKVEIL_KILL_LOG"] = str(log)
    try:
        assert not in_a_child(folder, _position_of("billboard-00001.npz.renamed"))
    finally:
        del os.environ["TASKVEIL_KILL_LOG"]
    first = visible_releases(folder)["billboard-00001"]
    assert in_a_child(folder, NEVER)
    second = visible_releases(folder)["billboard-00001"]
    assert first != second
    check(folder, {first, second})


def _position_of(name: str) -> int:
    """The number of a fault point in a first run."""
    order = [
        "plan.json.written", "plan.json.renamed", "reserved", "commit.before", "commit.after", "journal.before",
        "journal.after", "noise.drawn", "billboard-00001.npz.written", "billboard-00001.npz.renamed",
    ]  # fmt: skip
    return order.index(name) + 1


@pytest.mark.kills
def test_when_the_limit_does_not_allow_a_repeat_the_run_ends_early_and_keeps_its_models(tmp_path):
    folder = tmp_path / "poor"
    folder.mkdir()
    book = Book(f"sqlite:///{folder / 'budget.db'}")
    book.set_limit(KEY, 1.1, 1e-5)
    book.close()
    steps = points(tmp_path)
    assert not in_a_child(folder, steps - 12)  # in the last round, after its commit
    est = _fit_here(folder)
    assert any("ended early" in text for text in est.warnings_)
    assert est.record_.billboards[-1].round < ROUNDS
    assert np.isfinite(est.coef_).all()
    assert Book(f"sqlite:///{folder / 'budget.db'}").spent(KEY)[0] <= 1.1 * (1 + 1e-6)


def _fit_here(folder: Path) -> tv.TaskRegressor:
    return tv.TaskRegressor(
        tv.methods.get("low-rank", rounds=ROUNDS, local_steps=1), epsilon=1.0, delta=1e-5, insecure_noise_seed=5,
        ledger=f"sqlite:///{folder / 'budget.db'}", account=KEY.name, run_dir=folder / "run",
    ).fit(TASKS)  # fmt: skip


@pytest.mark.faults
def test_at_least_two_hundred_kills(tmp_path):
    """Every step once, then random sequences of steps, until 200 kills were survived."""
    steps, done, rng = points(tmp_path), 0, np.random.default_rng(0)
    for position in range(1, steps + 1):
        kills(tmp_path / f"step-{position}", [position])
        done += 1
    sequence = 0
    while done < 200:
        chosen = [int(p) for p in rng.integers(1, steps, rng.integers(2, 6))]
        kills(tmp_path / f"sequence-{sequence}", chosen)
        done, sequence = done + len(chosen), sequence + 1
    print(f"\n{done} kills over {steps} write steps: nothing lost, nothing spent twice")


@pytest.mark.kills
def test_the_check_notices_a_resume_that_repeats_noise(tmp_path, monkeypatch):
    """The twin: a resumed run that draws the same noise again would publish the same matrix."""
    import taskveil.runtime.round as loop

    monkeypatch.setattr(loop, "again", lambda source, attempt: source)
    with pytest.raises(AssertionError):
        test_a_repeated_round_gets_fresh_noise(tmp_path)
