"""A server that lies: two lists of survivors, lists of keys for some, silence between neighbours.

Every attack here opened something on version 0.1.0: a site's message with two stories (6 sites with cohorts of 3, 10
with cohorts of 5), the sum of a group of 18 among 128 (116 honest noise shares were planned).
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.secure_runs import parties

from taskveil.audits.secure_attacks import OldSettings, reads_a_message, site_collusion, two_stories
from taskveil.errors import OptionError, SecureSumRefused
from taskveil.runtime.secure import Identity, SecureClient, SecureSettings, agreement, messages
from taskveil.runtime.secure.keys import AgreementKey

DIGESTS = ("key_digests", "seed_digests", "check_digests")  # begin with the dealer's own


@pytest.mark.parametrize("n_sites", range(3, 9))
def test_two_stories_open_a_message_exactly_where_the_rule_is_broken(n_sites):
    """The rule 2 threshold > holders + colluders is neither too weak nor too strong, and settings cannot break it."""
    for smallest in range(2, n_sites + 1):
        broken = 2 * smallest <= n_sites + 1
        assert reads_a_message(OldSettings(n_sites, 3, 32, 1, smallest, n_sites - 1, smallest)) == broken
        if broken:
            with pytest.raises(OptionError, match="sites > 2 dropouts"):
                SecureSettings.choose(n_sites, 3, 32, 1, smallest)
        else:
            assert not reads_a_message(SecureSettings.choose(n_sites, 3, 32, 1, smallest, complete=True))


class Careless(SecureSettings):
    """Settings nobody checked."""

    def __post_init__(self): ...


def test_every_client_checks_the_shares_it_deals():
    config = Careless(6, 4, 32, 1, 3, 5, 3)
    server, clients = parties(np.zeros((6, 4), dtype=np.int64), config)
    adverts = {i: clients[i].step(m) for i, m in server.start().items()}
    with pytest.raises(SecureSumRefused, match="two stories"):
        clients[0].step(key_list(server, adverts, range(6)))


def test_two_colluders_need_two_more_votes():
    assert reads_a_message(OldSettings(8, 3, 32, 2, 5, 7, 5))  # 10 <= 8 + 2
    assert not reads_a_message(SecureSettings.choose(8, 3, 32, 2, 6))


def test_the_gallery_tells_the_figures_before_and_after():
    collusion = {tuple(row["sites"]): row for row in site_collusion().data["layouts"]}
    assert collusion[1, 9]["before"] == pytest.approx(3.41, abs=0.01)
    assert collusion[1, 1, 28]["before"] == pytest.approx(4.48, abs=0.01)
    assert all(row["after"] <= 1.0 for row in collusion.values())
    for row in two_stories().data["federations"]:
        assert row["before"] and not row["after"]


def advertised(n_sites, **tolerances):
    """A round in which everybody has sent its keys; the server of the test says what comes next."""
    settings = SecureSettings.choose(n_sites, 4, 32, **tolerances)
    server, clients = parties(np.arange(4 * n_sites).reshape(n_sites, 4), settings)
    adverts = {i: clients[i].step(m) for i, m in server.start().items()}
    return server, clients, adverts


def key_list(server, adverts, members):
    columns = zip(*((i, adverts[i].sealing_key, adverts[i].mask_key, adverts[i].signature) for i in sorted(members)))
    return messages.KeyList(server.round_id, *columns)


def test_a_group_of_the_servers_choice_is_refused():
    """128 sites, of which 18 are shown nobody but themselves; version 0.1.0 opened their sum."""
    server, clients, adverts = advertised(128, colluders=6, min_cohort=122)
    for size in (18, 121):
        listed = key_list(server, adverts, range(size))
        with pytest.raises(SecureSumRefused, match="too few"):
            clients[size - 1].step(listed)


def test_shares_go_to_exactly_the_planned_neighbours_worked_out_from_all_keys():
    """A server cannot name neighbours, neither 127 instead of 24 nor others: it can only show a list of all keys."""
    server, clients, adverts = advertised(128, colluders=6, min_cohort=122)
    listed = key_list(server, adverts, range(128))
    roster = agreement.as_roster(server.roster, server.settings)
    graph = agreement.read_keys(listed, server.settings, roster).graph
    for site in (0, 77):
        dealt = clients[site].step(listed)
        assert len(dealt.receivers) == server.settings.degree == 18
        assert dealt.receivers == graph[site]
    changed = {**adverts, 5: advertised(128, colluders=6, min_cohort=122)[2][5]}
    other = replace(key_list(server, changed, range(128)), signatures=listed.signatures)
    with pytest.raises(SecureSumRefused, match="not signed"):  # nor choose the randomness: keys are their owners'
        clients[1].step(other)


def deliveries(server, dealt, receiver, senders):
    places = [dealt[j].receivers.index(receiver) for j in senders]
    sealed = tuple(dealt[j].sealed[at] for j, at in zip(senders, places))
    digests = (tuple(getattr(dealt[j], name)[at + 1] for j, at in zip(senders, places)) for name in DIGESTS)
    challenges = (agreement.challenge(server.round_id, j, *(getattr(dealt[j], name) for name in DIGESTS)) for j in senders)
    return messages.Deliveries(
        server.round_id, tuple(senders), sealed, *digests, tuple(challenges), tuple(dealt[j].proof for j in senders)
    )


def finish_with(server, clients, lists, cohort):
    """Sites are shown the list of keys `lists` has for them, then all the rest as a server would; who opens anything?"""
    dealt = {i: client.step(lists[i]) for i, client in clients.items()}
    opened, signed = {}, {}
    for i, client in clients.items():
        client.step(deliveries(server, dealt, i, [j for j in dealt[i].receivers if j in dealt]))
        signed[i] = client.step(messages.CohortList(server.round_id, cohort))
    votes = messages.CohortSignatures(server.round_id, tuple(signed), tuple(s.signature for s in signed.values()))
    for i in signed:
        try:
            opened[i] = clients[i].step(votes)
        except SecureSumRefused:
            continue
    return opened


def honest_after_two_lists():
    """Site 8 colludes and signs two pairs of keys: half of the others see one list, half the other."""
    server, clients, adverts = advertised(9, colluders=1, min_cohort=7)
    traitor = clients.pop(8)
    pair = AgreementKey().public, AgreementKey().public
    text = agreement.advert_text(server.round_id, server.settings.digest(), 8, *pair)
    second = messages.AdvertisedKeys(server.round_id, 8, *pair, traitor.identity.sign(text))
    lists = [key_list(server, adverts, range(9)), key_list(server, {**adverts, 8: second}, range(9))]
    return finish_with(server, clients, {i: lists[i % 2] for i in clients}, tuple(range(8)))


def test_two_lists_of_keys_find_no_quorum(monkeypatch):
    """The twin: signatures that do not cover the list of keys are taken for one story."""
    assert not honest_after_two_lists()
    monkeypatch.setattr(agreement, "cohort_text", lambda round_id, fingerprint, members: round_id + bytes(members))
    assert len(honest_after_two_lists()) == 8


def test_a_neighbour_declared_silent_to_one_site_cannot_be_in_its_cohort():
    """Otherwise a server could cut masks one by one until a part of the total stands alone."""
    server, clients, adverts = advertised(9, colluders=1, min_cohort=7)
    listed = key_list(server, adverts, range(9))
    dealt = {i: client.step(listed) for i, client in clients.items()}
    others = [j for j in dealt[0].receivers if j != 5]
    clients[0].step(deliveries(server, dealt, 0, others))
    with pytest.raises(SecureSumRefused, match="never sent its shares"):
        clients[0].step(messages.CohortList(server.round_id, tuple(range(9))))


def test_one_key_is_one_vote():
    settings, identity = SecureSettings.choose(3, 2, 16), Identity()
    for roster in ({0: identity.public, 1: identity.public}, {0: identity.public, 3: Identity().public}):
        with pytest.raises(SecureSumRefused, match="same signing key"):
            SecureClient(0, settings, identity, roster, np.zeros(2, dtype=np.int64))
