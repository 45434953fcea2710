"""Sites as parties of a secure sum: the site protocol, restarts, and what a site never does twice."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.support.secure_runs import parties
from tests.support.small import related_tasks

from taskveil.errors import DataError, SecureSumRefused
from taskveil.methods import get
from taskveil.methods.base import PublicInfo
from taskveil.privacy.contributions import OuterSum, VectorSum
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount
from taskveil.privacy.secure_options import SecureOptions
from taskveil.runtime import in_process
from taskveil.runtime.federation import threads as thread_grid
from taskveil.runtime.federation.server.driver import Rules
from taskveil.runtime.federation.site.owner import Volatile
from taskveil.runtime.run import Run
from taskveil.runtime.secure import Identity, SecureServer, keys, messages
from taskveil.runtime.secure.parties import Membership, SecureParty, dump, load, noisy_totals, party_settings
from taskveil.tasks.prepare.scaling import fit_scaling


def plan_of(sizes, **figures):
    options = SecureOptions.for_tasks(sum(sizes), sites=list(sizes), **figures)
    budget = Budget(1.0, 1e-5, aggregation="secure", secure=options)
    return make_plan([Request("a", 1, OuterSum(3, 1.0)), Request("b", 1, VectorSum((2,), 1.0))], budget)


def make_parties(sizes):
    identities = [Identity() for _ in sizes]
    roster = {i: person.public for i, person in enumerate(identities)}
    return [SecureParty(Membership(i, person, roster), Volatile()) for i, person in enumerate(identities)]


def test_a_round_of_parties_gives_the_total_of_all_releases():
    sizes = [1, 2, 3]
    plan = plan_of(sizes)
    releases = list(plan.releases)
    settings = party_settings(releases)
    assert settings.length == 6 + 2 and settings.bits == max(r.mechanism.bits for r in releases)
    members = make_parties(sizes)
    own = np.random.default_rng(0).integers(-50, 50, (3, 8))
    server = SecureServer(settings, members[0].membership.roster)
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


def test_tolerances_count_sites_whatever_they_hold():
    """A colluding site knows one share and has one vote, with one task or with nine."""
    settings = party_settings(list(plan_of([1, 1, 2, 3, 5, 9], colluders=1, min_cohort=4).releases))
    assert (settings.n_sites, settings.colluders, settings.min_cohort, settings.threshold) == (6, 1, 4, 4)
    assert settings.complete  # the default of a federation


def test_a_refusal_is_kept_so_that_no_other_story_can_be_tried():
    """Without the stored refusal the second, smaller lie would be answered by a fresh process."""
    sizes = [1, 1, 1, 1]
    releases, members = list(plan_of(sizes, min_cohort=3).releases), make_parties(sizes)
    server = SecureServer(party_settings(releases), members[0].membership.roster)
    outgoing = server.start()
    for step in range(3):
        answers = {}
        for site, message in outgoing.items():
            data = messages.encode(message)
            integers = np.ones(8, dtype=np.int64)
            answers[site] = members[site].answer(0, data) if step else members[site].enter(0, releases, integers, data)
        outgoing = server.step({site: messages.decode(answer) for site, answer in answers.items()})
    lie, truth = replace(outgoing[0], members=(0, 1)), outgoing[0]
    for asked in (lie, lie, truth):
        with pytest.raises(SecureSumRefused, match="2 sites are left, 3 are needed"):
            members[0].answer(0, messages.encode(asked))
    assert json.loads(members[0].memory.load_secure())["client"] == ""  # its secrets are gone
    assert members[1].answer(0, messages.encode(truth))  # the others go on


def test_an_invitation_to_another_sum_is_refused_before_anything_private_is_touched():
    releases, members = list(plan_of([1, 1, 1]).releases), make_parties([1, 1, 1])
    other = SecureServer(party_settings(list(plan_of([1, 1, 1, 1]).releases)), {})
    for wrong in (messages.encode(other.start()[0]), b"", b"\0\0\0\x02{}"):
        with pytest.raises(SecureSumRefused):
            members[0].check(releases, wrong)
    assert members[0].memory.load_secure() is None


def test_a_site_never_sends_a_second_masked_message():
    sizes = [1, 1, 1]
    plan = plan_of(sizes)
    releases = list(plan.releases)
    members = make_parties(sizes)
    own = np.arange(24).reshape(3, 8)

    def first_steps(count):
        server = SecureServer(party_settings(releases), members[0].membership.roster)
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
    settings = party_settings(list(plan_of([1, 1, 1, 1]).releases))
    own = np.random.default_rng(1).integers(-9, 9, (4, settings.length))
    server, clients = parties(own, settings)
    outgoing = server.start()
    while outgoing is not None:
        replies = {}
        for task, message in outgoing.items():
            clients[task] = load(dump(clients[task]), clients[task].identity, clients[task].roster)
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


def test_a_key_that_others_can_read_is_not_used(tmp_path):
    from taskveil.runtime.federation.keys import make_node_key, site_identity

    make_node_key(tmp_path, "north")
    path = tmp_path / "north.key"
    assert site_identity(path).public
    for mode in (0o640, 0o604, 0o660):
        path.chmod(mode)
        with pytest.raises(DataError, match="north.key can be read or changed by others"):
            site_identity(path)
    with pytest.raises(DataError, match="cannot be read"):
        site_identity(tmp_path / "south.key")


def run_both(n_tasks=5, **options):
    tasks = related_tasks(n_tasks=n_tasks, rows=(8, 9), n_features=3)
    block = fit_scaling(tasks, "own", private=True).apply(tasks)
    public = PublicInfo(n_tasks=n_tasks, n_features=3, n_outputs=1, kind="regression")
    method = get("subspace", rounds=1)
    figures = SecureOptions.for_tasks(n_tasks, **options)
    budget = Budget(1.0, 1e-5, aggregation="secure", secure=figures)
    plan = make_plan(method.requests(public, budget), budget)

    def go(runtime, **more):
        return runtime.run(Run(method, public, plan, MemoryAccount(), insecure_seeded_noise(4)), block, **more)

    return go


def test_the_network_path_gives_the_same_models_as_one_process():
    go = run_both()
    here, there = go(in_process), go(thread_grid)
    assert np.array_equal(here.models.coef, there.models.coef)
    assert [p.id for p in here.executed] == [p.id for p in there.executed]


def test_a_silent_site_beyond_the_tolerance_ends_the_run_with_nothing_released(monkeypatch):
    from taskveil.runtime.federation.site.owner import Site

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


def test_one_lying_site_is_left_out_over_the_network_and_the_run_ends_well(monkeypatch):
    """It signs nothing; version 0.1.0 ended the run although a dropout was tolerated."""
    honest = Identity.sign
    liar = []

    def sign(self, message):
        liar[:] = liar or [self]
        return bytes(64) if self is liar[0] else honest(self, message)

    monkeypatch.setattr(Identity, "sign", sign)
    record = run_both(dropouts=1)(thread_grid, rules=Rules(deadline=20.0, attempts=1))
    assert [line for line in record.extra["refusals"] if "not signed by it" in line]
    assert np.isfinite(record.models.coef).all()


def test_a_huge_message_inside_a_secure_sum_is_not_published(monkeypatch):
    """One site adds what no clipped message can hold; version 0.1.0 published the poisoned total."""
    from taskveil.runtime.federation.site import owner as site_module

    honest = site_module.site_message

    def huge(planned, bounded, source, tasks):
        message = honest(planned, bounded, source, tasks)
        return message + (2 ** (planned.mechanism.bits - 2) if tasks == [3] else 0)

    monkeypatch.setattr(site_module, "site_message", huge)
    with pytest.raises(SecureSumRefused, match="larger than all tasks and their noise"):
        run_both()(thread_grid, rules=Rules(deadline=20.0, attempts=1))
