"""A message that Flower loses is asked for again exactly once; the site repeats its bytes and is charged once."""

from __future__ import annotations

import time

import pytest
from tests.support.require import require
from tests.support.sites import N_TASKS, make_site, run_of

from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount
from taskveil.runtime import wire
from taskveil.runtime.federation.server.driver import Driver, Rules
from taskveil.runtime.run import Run

SHORT = 0.05  # seconds until a lost message is sent again


class Lossy:
    """A site whose process dies with the first `losses` answers, after they were computed and charged."""

    def __init__(self, parts, task: int, losses: int = 0) -> None:
        self.account = MemoryAccount()
        self.account.reserve(parts[2])
        self.site, self.losses, self.answers = make_site(parts, task=task, account=self.account), losses, []

    def __call__(self, data: bytes) -> bytes:
        self.answers.append(self.site.handle(data))
        if len(self.answers) <= self.losses:
            raise SystemExit  # past the guard of `client_app`, as a killed process is
        return self.answers[-1]

    @property
    def charged(self) -> int:
        return len(self.account.spent())


@pytest.fixture
def federation():
    """(driver, sites) over threads that behave like Flower's processes: a failing one is reported, not explained."""
    require("flower")
    from taskveil.runtime.federation.server.flower_grid import GridCarrier, ThreadGrid
    from taskveil.runtime.federation.site.flower_app import client_app

    class Processes(ThreadGrid):
        def _deliver(self, message) -> None:
            app = self.apps[message.metadata.dst_node_id]

            def ends(sent, context):
                try:
                    return app(sent, context)
                except SystemExit:
                    raise RuntimeError("the process ended") from None

            self.apps = {**self.apps, message.metadata.dst_node_id: ends}
            super()._deliver(message)

    grids = []

    def make(losses: int, again: float | None = SHORT):
        parts = run_of("mean", rounds=1)
        sites = [Lossy(parts, t, losses if t == 0 else 0) for t in range(N_TASKS)]
        grid = Processes({t + 1: client_app(lambda context, site=site: site) for t, site in enumerate(sites)}, 1)
        grids.append(grid)
        carrier = GridCarrier(grid, [t + 1 for t in range(N_TASKS)], poll=0.02, again=again)
        account = MemoryAccount()
        method, public, plan = parts
        members = [[t] for t in range(N_TASKS)]
        run = Run(method, public, plan, account, insecure_seeded_noise(1))
        return Driver(run, carrier, members, Rules(deadline=120)), sites

    yield make
    for grid in grids:
        grid.close()


def test_a_lost_answer_is_asked_for_again_repeated_byte_for_byte_and_charged_once(federation):
    driver, sites = federation(losses=1)
    done = driver.run()
    assert driver.refusals == [] and done.billboards[-1].accepted.all()
    first, again = sites[0].answers[:2]
    assert first == again
    assert [site.charged for site in sites] == [len(driver.plan.releases)] * N_TASKS


def test_a_message_lost_twice_leaves_its_site_out_of_the_round_and_is_not_asked_a_third_time(federation):
    driver, sites = federation(losses=2)
    done = driver.run()
    assert driver.refusals == ["site 0: the message failed on the way"]
    assert done.billboards[-1].accepted.tolist() == [False] + [True] * (N_TASKS - 1)
    assert len(sites[0].answers) == 3  # twice its message, once the end


def test_a_site_that_was_never_there_is_given_up_at_once_and_not_at_the_deadline(federation, monkeypatch):
    """Flower refuses such a message without a word: every round waited for it until its deadline."""
    driver, _ = federation(losses=0)
    push = driver.carrier.grid.push_messages
    monkeypatch.setattr(
        driver.carrier.grid, "push_messages", lambda sent: [""] if sent[0].metadata.dst_node_id == 1 else push(sent)
    )
    begun = time.monotonic()
    assert driver.run().billboards[-1].accepted.tolist() == [False] + [True] * (N_TASKS - 1)
    assert time.monotonic() - begun < driver.rules.deadline
    assert driver.refusals == ["site 0: the message failed on the way"] * 2  # its message, and the end


def test_without_asking_again_one_lost_answer_is_an_absent_site(federation):
    driver, _ = federation(losses=1, again=None)
    assert not driver.run().billboards[-1].accepted[0]
    assert driver.refusals == ["site 0: the message failed on the way"]


def test_a_message_that_is_not_ours_is_refused_by_the_site_on_its_clock():
    """It was refused at once, after the rows had been read: how long that took showed how many there are."""
    require("flower")
    from flwr.app import ConfigRecord, Message, RecordDict

    from taskveil.runtime.federation.server.flower_grid import ThreadGrid
    from taskveil.runtime.federation.site.flower_app import client_app

    asked: list[bytes] = []
    refusal = wire.encode(wire.Packet("refused", {"reason": "not a message"}))
    grid = ThreadGrid({1: client_app(lambda context: lambda data: asked.append(data) or refusal)}, 1)
    foreign = Message(RecordDict({"other": ConfigRecord({"a": 1})}), dst_node_id=1, message_type="train")
    grid.send_and_receive([foreign], timeout=60)
    grid.close()
    assert asked == [b""]
