"""A neural round is charged before it is computed, its noise is drawn while it is, and neither changes a bit of the result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jax")

from taskveil.errors import BudgetExceeded
from taskveil.methods.base import PublicInfo
from taskveil.methods.neural import NeuralMean
from taskveil.methods.neural_sides import RELEASE, NeuralTasks
from taskveil.privacy import release
from taskveil.privacy.contribution import seal_clipped_sum
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.plan import Budget, Plan, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount
from taskveil.runtime import in_process
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock

ROOT = Path(__file__).parents[3]
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
TASKS, ROUNDS, KEY = 30, 3, Key("wards")


def case(rate: float | None = 0.4) -> tuple[NeuralMean, TaskBlock, PublicInfo, Plan]:
    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(2, 9, TASKS))])
    X = rng.standard_normal((offsets[-1], 4))
    y = np.where(rng.random((offsets[-1], 1)) < 0.5, 1.0, -1.0)
    method = NeuralMean(model="linear", rounds=ROUNDS, rate=rate, personalise="none", batch_size=4)
    public = PublicInfo(TASKS, 4, 1, "classification", seed=0)
    budget = Budget(1.0, 1e-3)
    return method, TaskBlock(X, y, offsets, kind="classification"), public, make_plan(method.requests(public, budget), budget)


def run(account=None, **options):
    method, block, public, plan = case(**options)
    return in_process.run(Run(method, public, plan, account or MemoryAccount(), insecure_seeded_noise(7)), block)


@pytest.mark.parametrize("rate", [None, 0.4])
def test_models_and_billboards_are_those_of_rounds_one_step_after_the_other(monkeypatch, rate):
    together = run(rate=rate)
    monkeypatch.setattr(NeuralTasks, "begins_ahead", False)
    monkeypatch.setattr(NeuralTasks, "step", lambda self, state, view: _waited(self, state, view))
    after = run(rate=rate)
    for a, b in zip(together.billboards, after.billboards, strict=True):
        np.testing.assert_array_equal(a.values["mean"], b.values["mean"])
    np.testing.assert_array_equal(together.models.extra["params"], after.models.extra["params"])
    assert [p.id for p in together.executed] == [p.id for p in after.executed]


def _waited(side, state, view):
    state, wait = side.begin(state, view)
    return state, wait()


def test_rows_made_ready_for_another_cohort_are_not_used(monkeypatch):
    """The twin: a side that takes whatever is ready computes with the wrong clients, and the models show it."""
    expected = run().models.extra["params"]
    real = NeuralTasks.expect

    def other(self, number, active):
        real(self, number, np.roll(active, 1))

    monkeypatch.setattr(NeuralTasks, "expect", other)
    np.testing.assert_array_equal(run().models.extra["params"], expected)
    monkeypatch.setattr("taskveil.engine.clients.np.array_equal", lambda a, b: True)
    assert (run().models.extra["params"] != expected).any()


class Events(MemoryAccount):
    """An account that writes down what happens, in order; so do the patched side and source."""

    def __init__(self):
        super().__init__()
        self.happened = []

    def commit(self, *planned):
        self.happened.append("charged")
        return super().commit(*planned)


def order_of(monkeypatch, account) -> list[str]:
    begin = NeuralTasks.begin

    def begun(self, state, view):
        account.happened.append("sent off")
        new, wait = begin(self, state, view)
        return new, lambda: (account.happened.append("waited for"), wait())[1]

    def draw(self, contribution, stream):
        account.happened.append("noise")
        return stream.normal(self.scale, contribution.vector_size)

    monkeypatch.setattr(NeuralTasks, "begin", begun)
    monkeypatch.setattr("taskveil.privacy.mechanisms.gaussian.Gaussian.draw", draw)
    run(account)
    return account.happened


def test_every_round_is_charged_then_sent_off_then_noised_then_waited_for(monkeypatch):
    assert order_of(monkeypatch, Events()) == ["charged", "sent off", "noise", "waited for"] * ROUNDS


def test_a_loop_that_charges_when_the_sums_are_there_is_noticed(monkeypatch):
    def late(wanted, start, account):
        wait = start()
        account.commit(*(planned for planned, _ in wanted))
        return release.release_alongside(wanted, lambda: wait, MuteAccount())

    monkeypatch.setattr(in_process, "release_alongside", late)
    assert order_of(monkeypatch, Events())[:2] == ["sent off", "charged"]


class MuteAccount:
    def commit(self, *planned):
        return ""


CHILD = """
import os, signal, sys
from tests.unit.runtime import test_alongside as here
from taskveil.privacy.ledger import open_account

def begin(self, state, view):
    if view.round == 1:  # the second round
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, state, view)

real, here.NeuralTasks.begin = here.NeuralTasks.begin, begin
if sys.argv[2] == "late":
    here.in_process.release_alongside = here.computed_first
here.run(open_account(sys.argv[1], here.KEY.name, here.case()[3]))
"""


def computed_first(wanted, start, account):
    """A planted fault: paid for when it is there."""
    sums = start()()
    return release.release_alongside(wanted, lambda: lambda: sums, account)


def killed_while_computing(folder, when: str) -> int:
    """Commits in the ledger after a process is killed (SIGKILL) in the computation of its second round."""
    url = f"sqlite:///{folder / 'budget.db'}"
    Book(url).set_limit(KEY, 20.0, 1e-3)
    environment = os.environ | {"PYTHONPATH": PATHS}
    done = subprocess.run([sys.executable, "-c", CHILD, url, when], cwd=ROOT, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    book = Book(url)
    (row,) = book.accounts()
    return sum(entry.kind == "commit" for entry in book.rows(row.id))


@pytest.mark.kills
def test_a_run_killed_in_a_computation_has_paid_for_it(tmp_path):
    assert killed_while_computing(tmp_path, "first") == 2


@pytest.mark.kills
def test_a_run_that_pays_for_what_it_has_computed_is_noticed(tmp_path):
    assert killed_while_computing(tmp_path, "late") == 1


def test_a_refused_round_is_neither_computed_nor_noised():
    class Refusing(MemoryAccount):
        def commit(self, *planned):
            raise BudgetExceeded("no")

    plan = case()[3]

    def start():
        raise AssertionError("nothing may be computed before it is paid for")

    with pytest.raises(BudgetExceeded):
        next(release.release_alongside([(plan.releases[0], insecure_seeded_noise(0))], start, Refusing()))


def test_a_sum_bounded_for_something_else_is_refused():
    plan = case()[3]
    account = MemoryAccount()
    account.reserve(plan)
    wrong = seal_clipped_sum(VectorSum((2,), 1.0), np.zeros(2), 1)
    made = release.release_alongside([(plan.releases[0], insecure_seeded_noise(0))], lambda: lambda: [wrong], account)
    with pytest.raises(Exception, match="was planned for"):
        next(made)
    assert plan.releases[0].name == RELEASE and len(account.spent()) == 1  # charged all the same
