"""Sites that break the rules: they are named and left out, and the round goes on while dropouts allow.

On version 0.1.0 one site with unsigned or unusable keys, garbage for sealed shares or garbage for opened ones ended a round
in which two dropouts were tolerated.
"""

from dataclasses import replace

import numpy as np
import pytest
from tests.support.secure_runs import parties

from taskveil.errors import SecureSumRefused
from taskveil.privacy.aggregation import secure_messages
from taskveil.privacy.contributions import OuterSum, RowSum, VectorSum
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.privacy.randomness import system_noise
from taskveil.privacy.secure_options import SecureOptions
from taskveil.runtime.secure import SecureSettings, messages, shamir

N = 7


def garbage(parts):
    return tuple(bytes(len(part)) for part in parts)


def swapped(values):
    values = values.copy()
    values[0] ^= 1
    return values


FAULTS = {
    "unsigned keys": lambda m: replace(m, signature=bytes(64)),
    "a key of low order": lambda m: replace(m, mask_key=bytes(32)),
    "a short key": lambda m: replace(m, sealing_key=b"short"),
    "garbage instead of sealed shares": lambda m: replace(m, sealed=garbage(m.sealed)),
    "digests of other shares": lambda m: replace(m, seed_digests=garbage(m.seed_digests)),
    "too few sealed shares": lambda m: replace(m, sealed=m.sealed[1:]),
    "shares for others": lambda m: replace(m, receivers=m.receivers[1:] + m.receivers[:1]),
    "a damaged input": lambda m: replace(m, values=swapped(m.values)),
    "an input of another length": lambda m: replace(m, values=m.values[1:]),
    "complaints about everybody": lambda m: replace(m, unopened=tuple(range(N))),
    "a bad signature on the cohort": lambda m: replace(m, signature=bytes(64)),
    "garbage for opened shares": lambda m: replace(m, self_shares=garbage(m.self_shares)),
    "short opened shares": lambda m: replace(m, self_shares=tuple(s[:3] for s in m.self_shares)),
    "another message": lambda m: messages.Invitation(m.round_id, b""),
    "another sender": lambda m: replace(m, sender=0),
}
STEP = dict(zip(FAULTS, (0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 4, 4, 2, 1)))


def run_with(fault, bad, n=N, **tolerances):
    inputs = np.random.default_rng(3).integers(-99, 99, (n, 5))
    settings = SecureSettings.choose(n, 5, 32, **{"colluders": 1, "min_cohort": n - 2, **tolerances})
    server, clients = parties(inputs, settings)
    outgoing, step = server.start(), 0
    while outgoing is not None:
        replies = {site: clients[site].step(m) for site, m in outgoing.items()}
        replies |= {site: FAULTS[fault](replies[site]) for site in bad if site in replies and STEP[fault] == step}
        outgoing, step = server.step(replies), step + 1
    return server, settings.ring.centre(server.total), inputs[list(server.cohort)].sum(axis=0)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("bad", [{3}, {3, 6}])
def test_a_site_that_breaks_a_rule_is_left_out_and_the_sum_of_the_others_is_right(fault, bad):
    server, total, expected = run_with(fault, bad)
    assert np.array_equal(total, expected)
    assert set(server.excluded) <= bad
    if fault != "complaints about everybody":  # harmless: it merely holds no shares
        assert set(server.excluded) == bad


@pytest.mark.parametrize("fault", [f for f in FAULTS if f not in ("complaints about everybody",)])
def test_more_of_them_than_dropouts_end_the_round_and_nothing_is_released(fault):
    with pytest.raises(SecureSumRefused):
        run_with(fault, {2, 3, 6})


def test_sparse_graphs_leave_bad_sites_out_too():
    for fault in ("unsigned keys", "garbage instead of sealed shares", "garbage for opened shares"):
        server, total, expected = run_with(fault, {3, 17}, n=30, min_cohort=28)
        assert not server.settings.complete and set(server.excluded) == {3, 17}
        assert np.array_equal(total, expected)


def test_a_dealer_whose_shares_do_not_fit_together_is_named_and_nothing_is_released():
    """The one thing a malicious site can do to a round: its mask is in the sum and cannot be opened."""
    settings = SecureSettings.choose(N, 5, 32, colluders=1, min_cohort=N - 2)
    server, clients = parties(np.ones((N, 5), dtype=np.int64), settings)
    outgoing, honest = server.start(), shamir.split
    outgoing = server.step({site: clients[site].step(m) for site, m in outgoing.items()})
    replies = {}
    for site, message in outgoing.items():
        with pytest.MonkeyPatch.context() as patch:
            if site == 3:  # another secret for every holder
                patch.setattr(shamir, "split", lambda s, points, t: {p: honest(s[::-1], points, t)[p] for p in points})
            replies[site] = clients[site].step(message)
    outgoing = server.step(replies)
    for _ in range(2):
        outgoing = server.step({site: clients[site].step(m) for site, m in outgoing.items()})
    with pytest.raises(SecureSumRefused, match=r"site 3 dealt|belong to one secret"):
        server.step({site: clients[site].step(m) for site, m in outgoing.items()})
    assert server.total is None


# ---------------------------------------------------------------- false messages inside a valid masked input


def planned(contribution, n_tasks=12, unit="task", **options):
    figures = SecureOptions.for_tasks(n_tasks, **options)
    budget = Budget(1.0, 1e-5, unit=unit, aggregation="secure", secure=figures)
    return make_plan([Request("sum", 1, contribution)], budget).releases[0]


@pytest.mark.parametrize("law", ["discrete-gaussian", "skellam"])
@pytest.mark.parametrize("contribution", [VectorSum((40,), 1.0), OuterSum(6, 1.0)], ids=lambda c: c.kind)
def test_a_total_no_honest_sites_can_make_is_refused_before_it_is_published(contribution, law):
    """Honest totals, all messages as long as they may be and equal, pass (false alarms below 2^-40); a huge value, one
    beyond all messages together, and garbage all over the ring do not."""
    release = planned(contribution, law=law)
    mechanism = release.mechanism
    longest = contribution.clip(np.full((12, *contribution.message_shape), 9.0))
    honest = secure_messages(release, longest, system_noise(), None).sum(axis=0)
    assert np.isfinite(mechanism.finish(contribution, honest)).all()
    coordinate, norm = mechanism.limits(contribution)
    half = 2 ** (mechanism.bits - 1)
    huge, spread = honest.copy(), np.random.default_rng(0).integers(-half, half, honest.size)
    huge[0] = int(coordinate) + 1
    for false in (huge, spread, np.full(honest.size, int(norm / np.sqrt(honest.size)) + 1)):
        with pytest.raises(SecureSumRefused, match="larger than all tasks"):
            mechanism.finish(contribution, false)


def test_sums_of_rows_have_no_public_bound_and_none_is_checked():
    contribution = RowSum((6,), 1.0)
    mechanism = planned(contribution, n_tasks=4, unit="record").mechanism
    assert mechanism.limits(contribution) == (np.inf, np.inf)


