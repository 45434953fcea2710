"""A server among bad sites: whatever they send, it stays up, the noise stays, and the result stays within the clipping bound."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from tests.support.async_reference import make_block, public_of

from taskveil import methods
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount, SharedAccount
from taskveil.runtime import in_process, wire
from taskveil.runtime.federation.server.driver import Driver, Rules
from taskveil.runtime.federation.server.replies import longest_noisy
from taskveil.runtime.federation.site.owner import Site
from taskveil.runtime.run import Run
from taskveil.runtime.wire import Packet

N_TASKS = 6
BAD_SITE = 2


class DirectCarrier:
    """Calls sites at once; `spoil` may turn one reply into any number of messages."""

    def __init__(self, answers, spoil=None) -> None:
        self.answers, self.spoil, self.box = answers, spoil, []

    def send(self, site: int, data: bytes) -> None:
        reply = self.answers[site](data)
        replies = [reply] if self.spoil is None or site != BAD_SITE else self.spoil(reply)
        self.box += [(site, r) for r in replies]

    def receive(self, seconds: float):
        box, self.box = self.box, []
        return box


def setting(name="low-rank", aggregation="curator", epsilon=2.0, unit="task", **options):
    block = make_block(n_tasks=N_TASKS)
    public = PublicInfo(N_TASKS, block.n_features, 1, "regression", declared_bounds=True)
    if unit == "record":
        public = public_of(block)
    method = methods.get(name, **options)
    budget = method.adjust(Budget(epsilon, 1e-5, unit, aggregation=aggregation, neighbours="add-remove"))
    plan = make_plan(method.requests(public, budget), budget)
    source = insecure_seeded_noise(4)
    run = Run(method, public, plan, SharedAccount(), source)
    sites = [Site(f"s{t}", run, block.take([t]), [t]) for t in range(N_TASKS)]
    return method, public, plan, source, sites


def drive(parts, spoil=None, **rules):
    method, public, plan, source, sites = parts
    carrier = DirectCarrier([s.handle for s in sites], spoil)
    members = [[t] for t in range(N_TASKS)]
    given = Rules(**{"deadline": 0.05, "attempts": 2, "pause": 0.01, **rules})
    driver = Driver(Run(method, public, plan, source=source), carrier, members, given)
    return driver, driver.run()


def changed(reply: bytes, arrays=None, **fields) -> bytes:
    packet = wire.decode(reply)
    if packet.kind != "message":
        return reply
    new = {n: a if arrays is None else arrays(a) for n, a in packet.arrays.items()}
    return wire.encode(Packet("message", {**packet.fields, **fields}, new))


def random_bytes(rng) -> bytes:
    return rng.bytes(int(rng.integers(0, 300)))


def bad_messages(rng):
    """Endless kinds of wrong replies; each is a function from the right reply to a list of what is sent instead."""
    kinds = [
        lambda r: [random_bytes(rng)],
        lambda r: [r[: int(rng.integers(0, len(r)))]],
        lambda r: [changed(r, lambda a: a * np.nan)],
        lambda r: [changed(r, lambda a: np.full_like(a, np.inf))],
        lambda r: [changed(r, lambda a: a * 10.0 ** float(rng.integers(3, 300)))],
        lambda r: [changed(r, lambda a: a.astype(np.float32))],
        lambda r: [changed(r, lambda a: a[:, :1] if a.ndim > 1 else a[:1])],
        lambda r: [changed(r, lambda a: np.zeros((1000, *a.shape)))],
        lambda r: [changed(r, number=int(rng.integers(0, 50)) + 1)],
        lambda r: [changed(r, number="0")],
        lambda r: [changed(r, plan="another")],
        lambda r: [changed(r, summed=["gradient", "model"])],
        lambda r: [r, r, r],
        lambda r: [None],
        lambda r: [],
        lambda r: [wire.encode(Packet("done"))],
        lambda r: [wire.encode(Packet("refused", {"reason": "x" * 5000 + "\x1b[31m"}))],
        lambda r: [wire.encode(Packet("message", {}, {}))],
    ]
    while True:
        yield kinds[int(rng.integers(len(kinds)))]


@pytest.mark.parametrize("aggregation", ["curator", "local"])
def test_a_hundred_bad_messages_leave_the_server_up_and_the_result_within_the_bound(aggregation, monkeypatch):
    """Round by round the noisy sum with one bad site differs from the honest one by no more than that site's share."""
    from taskveil.runtime.federation.server import driver as module

    rng = np.random.default_rng(0)
    stream = bad_messages(rng)
    sent = 0

    def spoil(reply):
        nonlocal sent
        sent += 1
        return next(stream)(reply)

    sums: dict[str, list] = {}
    step = module.Driver._noisy

    def remember(self, billboard, number, releases, active):
        noisy, sites = step(self, billboard, number, releases, active)
        sums.setdefault(self.tag, []).extend((p, noisy[p.name]) for p in releases)
        return noisy, sites

    monkeypatch.setattr(module.Driver, "_noisy", remember)
    runs = 0
    while sent < 100:
        for tag, how in (("honest", None), ("bad", spoil)):
            monkeypatch.setattr(module.Driver, "tag", tag, raising=False)
            drive(setting(aggregation=aggregation), how)
        runs += 1
    first = setting(aggregation=aggregation)[2].releases[0]
    allowed = first.contribution.sensitivity("replace-one").l2
    if aggregation == "local":  # the message and the noise that came with it
        allowed = 2 * longest_noisy(first, 1)
    per_run = len(sums["honest"]) // runs
    for k in range(runs):  # the first round of each run: both start from the same public state
        moved = sums["bad"][k * per_run][1] - sums["honest"][k * per_run][1]
        assert np.linalg.norm(moved) <= allowed * (1 + 1e-9)
    assert all(np.isfinite(v).all() for _, v in sums["bad"])


def test_a_poisoned_message_that_is_not_clipped_again_would_be_noticed(monkeypatch):
    """The twin: without the second clipping one site moves the sum a thousand times further than its share."""
    from taskveil.privacy.bounds import _seal
    from taskveil.runtime.federation.server import replies

    parts = setting()
    planned = parts[2].releases[0]
    huge = np.full((1, *planned.contribution.message_shape), 1e3)
    members = [np.array([t]) for t in range(N_TASKS)]
    honest = replies.combined(planned, {BAD_SITE: huge}, members, np.ones(N_TASKS, dtype=int))
    assert np.linalg.norm(planned.contribution.total(honest)) <= planned.contribution.sensitivity("add-remove").l2
    trusting = _seal(np.concatenate([huge] * N_TASKS), planned.contribution)
    assert np.linalg.norm(planned.contribution.total(trusting)) > 1e3


def test_a_site_that_sends_a_sum_neither_crashes_the_server_nor_silences_the_others():
    from taskveil.privacy.contributions import VectorSum
    from taskveil.privacy.plan import Request
    from taskveil.runtime.federation.server.replies import Refused, checked_arrays, combined

    budget = Budget(1.0, 1e-5, "task", neighbours="add-remove")
    planned = make_plan([Request("v", 1, VectorSum((3,), 1.0))], budget).releases[0]
    members = [np.array([t]) for t in range(N_TASKS)]
    parts = {t: np.full((1, 3), 0.1) for t in range(N_TASKS)} | {BAD_SITE: np.full(3, 1e9)}
    total = planned.contribution.total(combined(planned, parts, members, np.ones(N_TASKS, dtype=int)))
    others = 0.1 * (N_TASKS - 1) * np.ones(3)
    assert np.linalg.norm(total - others) <= 1.0 + 1e-9
    outer = setting()[2].releases[0]
    arrays = {outer.name: np.zeros(outer.contribution.total_shape)}
    packet = Packet("message", {"plan": "p", "number": 0, "summed": [outer.name]}, arrays)
    with pytest.raises(Refused, match="cannot be sent as a sum"):
        checked_arrays(packet, "p", 0, [outer], 1, stacked=True)


@pytest.mark.parametrize("kind", range(4))
def test_asynchronous_arrivals_survive_bad_messages(kind):
    rng = np.random.default_rng(kind)
    stream = bad_messages(rng)
    parts = setting("async", unit="record", rounds=4)
    driver, done = drive(parts, lambda reply: next(stream)(reply))
    honest = [t for t in range(N_TASKS) if t != BAD_SITE]
    assert all(done.sent[t] == 4 for t in honest)
    assert np.isfinite(done.billboards[-1].values["shared"]).all()


def test_a_missing_site_changes_neither_the_noise_nor_the_other_messages(monkeypatch):
    """With one site silent the release is the honest one minus that site's clipped message, noise included."""
    from taskveil.runtime.federation.server import driver as module

    seen = {}
    for tag, spoil in (("all", None), ("without", lambda reply: [])):
        parts = setting(rounds=1)
        sums = []
        keep = module.released

        def remember(run, releases, messages, sums=sums, keep=keep):
            noisy = keep(run, releases, dict(messages))  # which takes messages out as it clips them
            sums.extend((p, messages[p.name].value, noisy[p.name]) for p in releases)
            return noisy

        monkeypatch.setattr(module, "released", remember)
        drive(parts, spoil)
        monkeypatch.setattr(module, "released", keep)
        seen[tag] = sums[0]
    planned, answers, whole = seen["all"]
    own = planned.contribution.total(planned.contribution.clip(answers[[BAD_SITE]]))
    np.testing.assert_allclose(whole - own, seen["without"][2], atol=1e-9)


def test_the_log_names_sites_and_rules_but_no_values(caplog):
    with caplog.at_level(logging.WARNING, "taskveil.federation"):
        drive(setting(), lambda reply: [changed(reply, lambda a: np.full_like(a, 1234.5678))])
        drive(setting(), lambda reply: [changed(reply, lambda a: a * np.nan)])
    assert "site 2" in caplog.text and "1234" not in caplog.text


def test_too_few_sites_release_nothing():
    from taskveil.errors import EnvironmentMissing

    parts = setting()
    method, public, plan, source, sites = parts
    account = MemoryAccount()
    carrier = DirectCarrier([lambda data: b"" for _ in sites])
    driver = Driver(
        Run(method, public, plan, account, source),
        carrier,
        [[t] for t in range(N_TASKS)],
        Rules(deadline=0.02, attempts=2, pause=0.01),
    )
    with pytest.raises(EnvironmentMissing, match="Nothing was released"):
        driver.run()
    assert account.spent() == []


# ---------------------------------------------------------------- the site


def question(parts, **changes) -> bytes:
    method, public, plan, source, sites = parts
    view = method.server_side(public, plan).start()[1].view(np.array([0]))
    fields = {"plan": sites[0].digest, "number": 0, "round": 0, **changes}
    return wire.encode(Packet("step", fields, wire.view_arrays(view)))


def test_asked_twice_a_site_sends_the_same_bytes_and_charges_once():
    parts = setting("async", unit="record", rounds=3)
    method, public, plan, _, _ = parts
    from taskveil.privacy.randomness import system_noise

    account = MemoryAccount()
    account.reserve(plan)
    block = make_block(n_tasks=N_TASKS)
    site = Site("s0", Run(method, public, plan, account, system_noise()), block.take([0]), [0])
    asked = question(parts)
    assert site.handle(asked) == site.handle(asked)
    assert len(account.spent()) == 1
    assert site.handle(question(parts, number=1)) != site.handle(asked)
    assert wire.decode(site.handle(asked)).kind == "refused"  # number 0 is over; it is not computed again


@pytest.mark.parametrize("changes", [{"plan": "other"}, {"number": -1}, {"number": 99}, {"number": True}, {"number": "1"}])
def test_a_site_answers_only_for_the_plan_it_agreed_to(changes):
    parts = setting()
    reply = wire.decode(parts[4][0].handle(question(parts, **changes)))
    assert reply.kind == "refused" and not reply.arrays


@pytest.mark.parametrize("aggregation", ["curator", "local"])
def test_record_level_sums_come_through_the_driver_whole(aggregation):
    """Sums of rows cannot be clipped again row by row: a curator's run ended there, and a site's noisy sum of many rows was cut
    to the length of one. Without noise to speak of, the federation's first total is the one of a single process."""
    method, public, plan, source, sites = setting("mean", aggregation, epsilon=1e7, unit="record", rounds=2)
    driver, done = drive((method, public, plan, source, sites))
    block = make_block(n_tasks=N_TASKS)
    alone = in_process.run(Run(method, public, plan, source=insecure_seeded_noise(4)), block)
    assert driver.refusals == []
    for name, value in alone.billboards[-1].values.items():
        assert np.allclose(done.billboards[-1].values[name], value, atol=1e-3)


def test_a_site_stops_at_its_own_budget():
    method, public, plan, source, _ = setting("async", unit="record", rounds=3)
    block = make_block(n_tasks=N_TASKS)
    parts = (method, public, plan, source, [])
    site = Site("s0", Run(method, public, plan, SharedAccount(), source), block.take([0]), [0], limit=1)
    parts[4].append(site)
    assert wire.decode(site.handle(question(parts))).kind == "message"
    refused = wire.decode(site.handle(question(parts, number=1)))
    assert refused.kind == "refused" and "own limit" in refused.fields["reason"]


def test_a_refusal_never_carries_words_of_an_error_that_depends_on_rows():
    from tests.support.require import require

    require("flower")
    from taskveil.runtime.federation.server.flower_grid import thread_carrier

    def fails(data: bytes) -> bytes:
        raise ValueError("row 17 has value 42.4242")

    carrier = thread_carrier([fails])
    carrier.send(0, b"x")
    ((_, data),) = carrier.receive(5.0)
    carrier.grid.close()
    assert b"42.4242" not in data and wire.decode(data).kind == "refused"
