"""Sites as parties of a secure sum: the site protocol, restarts, and what a site never does twice."""

import json

import numpy as np
import pytest
from tests.support.secure_runs import parties
from tests.support.small import related_tasks

from taskveil.errors import SecureSumRefused
from taskveil.methods import get
from taskveil.methods.base import PublicInfo
from taskveil.privacy.contributions import OuterSum, VectorSum
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.secure_options import SecureOptions
from taskveil.privacy.spending import MemoryAccount
from taskveil.runtime import in_process, thread_grid
from taskveil.runtime.driver import Rules
from taskveil.runtime.secure import Identity, SecureServer, keys, messages, storage
from taskveil.runtime.secure.parties import Membership, SecureParty, noisy_totals, party_settings
from taskveil.runtime.site import Volatile
from taskveil.tasks.prepare.scaling import fit_scaling


def plan_of(n_tasks, colluders=1, min_cohort=None):
    options = SecureOptions.for_tasks(n_tasks, colluders=colluders, min_cohort=min_cohort)
    budget = Budget(1.0, 1e-5, aggregation="secure", secure=options)
    return make_plan([Request("a", 1, OuterSum(3, 1.0)), Request("b", 1, VectorSum((2,), 1.0))], budget)


def make_parties(sizes, plan):
    identities = [Identity() for _ in sizes]
    roster = {i: person.public for i, person in enumerate(identities)}
    return [SecureParty(Membership(i, person, roster, sizes), Volatile()) for i, person in enumerate(identities)]


def test_a_round_of_parties_gives_the_total_of_all_releases():
    plan, sizes = plan_of(6), [1, 2, 3]
    releases = list(plan.releases)
    settings = party_settings(releases, sizes)
    assert settings.length == 6 + 2 and settings.bits == max(r.mechanism.bits for r in releases)
    members = make_parties(sizes, plan)
    own = np.random.default_rng(0).integers(-50, 50, (3, 8))
    server = SecureServer(settings)
    outgoing = server.start()
    first = True
    while outgoing is not None:
        replies = {}
        for site, message in outgoing.items():
            data = messages.encode(message)
            answer = members[site].enter(0, releases, own[site], data) if first else members[site].answer(0, data)
            if not first:
                assert members[site].answer(0, data) == answer  # asked again: the very same bytes
            replies[site] = messages.decode(answer)
        outgoing, first = server.step(replies), False
    totals = noisy_totals(releases, settings.ring.centre(server.total))
    for planned, part in zip(releases, (own.sum(axis=0)[:6], own.sum(axis=0)[6:])):
        assert np.array_equal(totals[planned.name], planned.mechanism.finish(planned.contribution, part))
    for member in members:
        assert json.loads(member.memory.load_secure())["client"] == ""


def test_tolerances_in_tasks_become_tolerances_in_sites():
    """Any `min_cohort` sites hold enough tasks; no coalition with few enough tasks has as many sites as the
    threshold."""
    releases = list(plan_of(12, colluders=3, min_cohort=8).releases)
    settings = party_settings(releases, [1, 1, 2, 3, 5])
    assert settings.min_cohort == 5  # the four smallest hold seven tasks only
    assert settings.colluders == 2  # two sites with one task each; three would hold four
    assert party_settings(releases, [4, 4, 4]).colluders == 0
    assert party_settings(releases, [4, 4, 4]).min_cohort == 2


def test_a_site_never_sends_a_second_masked_message():
    plan, sizes = plan_of(3), [1, 1, 1]
    releases = list(plan.releases)
    members = make_parties(sizes, plan)
    own = np.arange(24).reshape(3, 8)

    def first_steps(count):
        server = SecureServer(party_settings(releases, sizes))
        outgoing = {site: messages.encode(m) for site, m in server.start().items()}
        for step in range(count):
            replies = {}
            for site, data in outgoing.items():
                if step:
                    answer = members[site].answer(0, data)
                elif members[site].memory.load_secure() is None:
                    answer = members[site].enter(0, releases, own[site], data)
                else:
                    answer = members[site].again(0, releases, data)
                replies[site] = messages.decode(answer)
            outgoing = {site: messages.encode(m) for site, m in server.step(replies).items()}

    first_steps(2)  # the server dies before any masked message
    first_steps(3)  # and starts again: fine, up to the masked messages
    with pytest.raises(SecureSumRefused, match="never repeated"):
        first_steps(1)


def test_a_client_survives_being_written_down_between_all_steps():
    settings = party_settings(list(plan_of(4).releases), [1, 1, 1, 1])
    own = np.random.default_rng(1).integers(-9, 9, (4, settings.length))
    server, clients = parties(own, settings)
    outgoing = server.start()
    while outgoing is not None:
        replies = {}
        for task, message in outgoing.items():
            clients[task] = storage.load(storage.dump(clients[task]), clients[task].identity, clients[task].roster)
            replies[task] = clients[task].step(message)
        outgoing = server.step(replies)
    assert np.array_equal(settings.ring.centre(server.total), own.sum(axis=0))


def test_node_keys_sign_for_sites(tmp_path):
    from taskveil.runtime.federation.keys import make_node_key

    public = make_node_key(tmp_path, "north")
    identity = keys.NodeIdentity((tmp_path / "north.key").read_bytes())
    assert identity.public == keys.node_public(public.read_bytes())
    signature = identity.sign(b"cohort")
    assert keys.verify(identity.public, signature, b"cohort")
    assert not keys.verify(identity.public, signature, b"another cohort")
    assert not keys.verify(Identity().public, signature, b"cohort")


def run_both(n_tasks=5, **options):
    tasks = related_tasks(n_tasks=n_tasks, rows=(8, 9), n_features=3)
    block = fit_scaling(tasks, "own", private=True).apply(tasks)
    public = PublicInfo(n_tasks=n_tasks, n_features=3, n_outputs=1, kind="regression")
    method = get("subspace", rounds=1)
    figures = SecureOptions.for_tasks(n_tasks, **options)
    budget = Budget(1.0, 1e-5, aggregation="secure", secure=figures)
    plan = make_plan(method.requests(public, budget), budget)

    def go(runtime, **more):
        return runtime.run(method, block, public, plan, MemoryAccount(), insecure_seeded_noise(4), **more)

    return go


def test_the_network_path_gives_the_same_models_as_one_process():
    go = run_both()
    here, there = go(in_process), go(thread_grid)
    assert np.array_equal(here.models.coef, there.models.coef)
    assert [p.id for p in here.executed] == [p.id for p in there.executed]


def test_a_silent_site_beyond_the_tolerance_ends_the_run_with_nothing_released(monkeypatch):
    from taskveil.runtime.site import Site

    answered = Site.handle

    def silent(self, data):
        reply = answered(self, data)
        if self.name == "site-1" and b'"secure"' in data[:200]:  # leaves after its keys
            raise RuntimeError("gone")
        return reply

    monkeypatch.setattr(Site, "handle", silent)
    go = run_both()
    with pytest.raises(SecureSumRefused):
        go(thread_grid, rules=Rules(deadline=20.0, attempts=1))
