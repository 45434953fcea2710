"""Releases that are chosen as a run goes on: the total is fixed, stated and kept, whatever is asked (spending.md#adaptive)."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from taskveil.errors import BudgetExceeded, DataError, OptionError
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.accountants.pld import Pld
from taskveil.privacy.certificate import Certificate, build_certificate
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.events import NOTHING_LEFT, Charge, GaussianEvent, GaussianTotal, PureEvent
from taskveil.privacy.guarantees import gaussian_epsilon, gaussian_mu
from taskveil.privacy.plan import Budget, Plan, Request, make_plan
from taskveil.privacy.planned import spent_share
from taskveil.privacy.release import MemoryAccount
from taskveil.privacy.units import Neighbours

DELTA, EXACT = 1e-5, {"source": "system", "seeded": False, "exact": True}


def requests(rounds=3, options=("a", "b")):
    return [
        Request(name, t + 1, VectorSum((3 + k,), 1.0), weight=math.sqrt((1 + t) / (1 + k)))
        for t in range(rounds)
        for k, name in enumerate(options)
    ]


def plan(epsilon=1.0, delta=DELTA, policy="probe", **options) -> Plan:
    return make_plan(requests(), Budget(epsilon, delta, **options), policy)


# --------------------------------------------------------------------- plans


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_a_run_that_makes_the_dearest_releases_costs_what_a_fixed_plan_of_them_costs(epsilon):
    chosen, dearest = plan(epsilon), [r for r in requests() if r.name == "a"]
    fixed = make_plan(dearest, Budget(epsilon, DELTA))
    made = [r for r in chosen.releases if r.name == "a"]
    assert [r.event.noise_multiplier for r in made] == pytest.approx([r.event.noise_multiplier for r in fixed.releases], rel=1e-9)
    assert chosen.epsilon() == pytest.approx(best_epsilon([Charge(r.event) for r in made], DELTA)[0], rel=1e-9)
    assert epsilon * (1 - 1e-6) < chosen.epsilon() <= epsilon
    assert spent_share(chosen, made) == pytest.approx(1.0, rel=1e-9)


def test_the_total_reads_as_one_gaussian_in_closed_form_and_by_dp_accounting():
    chosen = plan()
    mu = 1 / chosen.total.noise_multiplier
    assert chosen.epsilon() == pytest.approx(gaussian_epsilon(DELTA, mu), rel=1e-12)
    assert mu == pytest.approx(gaussian_mu(1.0, DELTA), rel=1e-9)
    assert Pld().epsilon(chosen.charges(), DELTA) == pytest.approx(chosen.epsilon(), rel=2e-3)


def test_what_is_made_of_a_plan_does_not_change_what_is_stated():
    chosen = plan()
    for made in (0, 1, 3):
        assert replace(chosen, releases=chosen.releases[:made]).epsilon() == chosen.epsilon()
    assert chosen.spent_after(1) == chosen.epsilon()


def test_a_plan_can_be_written_and_read_and_a_fixed_one_is_written_as_ever():
    chosen = plan()
    assert Plan.from_dict(json.loads(json.dumps(chosen.to_dict()))) == chosen
    assert set(make_plan(requests(), Budget(1.0, DELTA)).to_dict()) == {"version", "budget", "releases"}


@pytest.mark.parametrize("event", [GaussianTotal(1e3).to_dict(), GaussianEvent(1.0).to_dict()])
def test_a_total_that_what_is_possible_exceeds_is_no_plan(event):
    with pytest.raises((OptionError, DataError), match="total"):
        Plan.from_dict({**plan().to_dict(), "total": event})


@pytest.mark.parametrize("event", [PureEvent(0.1), GaussianTotal(1e3)])
def test_a_total_is_of_single_gaussian_releases_only(event):
    chosen = plan()
    with pytest.raises(OptionError, match="only unsampled Gaussian"):
        replace(chosen, releases=(replace(chosen.releases[0], event=event), *chosen.releases[1:]))


def test_other_neighbours_cost_at_most_twice_mu():
    chosen = plan(neighbours="add-remove")
    (twice,) = chosen.charges(Neighbours.REPLACE_ONE)
    assert twice.event.noise_multiplier == chosen.total.noise_multiplier / 2
    left = twice.event
    for planned in (r for r in chosen.releases if r.name == "a"):
        left = left.without(planned.event_under(Neighbours.REPLACE_ONE, chosen.budget))
        assert left is not None


@pytest.mark.parametrize(
    "options",
    [{"epsilon": None}, {"delta": 0.0}, {"mechanism": "l2-laplace"}, {"aggregation": "secure"}, {"task_epsilons": (1.0, 0.5)}],
)
def test_what_has_no_gaussian_total_is_refused(options):
    with pytest.raises(OptionError, match="adaptive"):
        plan(**options)


def test_sampled_releases_are_refused():
    with pytest.raises(OptionError, match="unsampled"):
        make_plan([replace(r, rate=0.5) for r in requests()], Budget(1.0, DELTA), "probe")


# ------------------------------------------------------------------ accounts


def test_squares_are_taken_from_a_total_until_nothing_is_left():
    whole = GaussianTotal(1 / math.sqrt(3))
    left = whole.without(GaussianEvent(1.0)).without(GaussianEvent(1.0))
    assert 1 / left.noise_multiplier**2 == pytest.approx(1.0)
    assert left.without(GaussianEvent(0.99)) is None and left.without(PureEvent(1e-9)) is None
    empty = GaussianTotal(2.0).without(GaussianEvent(2.0))
    assert empty == GaussianTotal(NOTHING_LEFT) and empty.without(GaussianEvent(1e100)) is None
    assert whole.without(whole) is None, "a total is no release"


def test_an_account_refuses_what_exceeds_the_total_whatever_is_asked():
    """Both releases of the first two rounds are on the list of what is possible; together they are more than the total."""
    chosen, account = plan(), MemoryAccount()
    account.reserve(chosen)
    with pytest.raises(BudgetExceeded, match="total"):
        account.commit(*chosen.releases)
    assert account.spent() == [], "all or none"
    done = []
    for planned in chosen.releases[::-1]:
        try:
            account.commit(planned)
            done.append(planned)
        except BudgetExceeded:
            break
    assert 0 < len(done) < len(chosen.releases) and spent_share(chosen, done) <= 1.0
    fixed = MemoryAccount()
    fixed.reserve(replace(chosen, total=None))  # the twin: without the total all of it passes
    fixed.commit(*chosen.releases)
    assert best_epsilon(fixed.spent(), DELTA)[0] > 1.05


def test_the_next_plan_of_an_account_starts_with_its_own_total():
    chosen, account = plan(), MemoryAccount()
    for _ in range(2):
        account.reserve(chosen)
        account.commit(*(r for r in chosen.releases if r.name == "a"))
        account.finish()


# -------------------------------------------------------------- certificates


def certificate(made=1) -> Certificate:
    chosen = plan()
    return build_certificate("m", replace(chosen, releases=tuple(r for r in chosen.releases if r.name == "a")[:made]), EXACT)


def test_a_certificate_states_the_total_and_lists_what_was_made():
    one, all_ = certificate(1), certificate(3)
    assert one.statements == all_.statements and one.verify() and all_.verify()
    assert sum(e["count"] for e in one.events) == 1
    text = str(one)
    assert "total of mu = " in text and "17 %" in text and "no smaller claim holds" in text and "'probe'" in text
    assert one.profile().mu == pytest.approx(1 / plan().total.noise_multiplier)
    assert Certificate.from_json(one.to_json()) == one
    assert "total" not in build_certificate("m", make_plan(requests(), Budget(1.0, DELTA)), EXACT).to_dict()


def edited(change, made=1) -> Certificate:
    document = json.loads(certificate(made).to_json())
    change(document)
    return Certificate.from_dict(document)


def smaller_total(document):
    document["total"]["event"]["noise_multiplier"] *= 2


def statement_of_what_was_made(document):
    """The false claim: epsilon of the one release that was made, and no word of a total."""
    event = document["events"][0]["event"]
    document["statements"][0]["epsilon"] = gaussian_epsilon(DELTA, 1 / event["noise_multiplier"])


def no_total(document):
    del document["total"]


def listed_again(document):
    document["events"][0].update(count=20, rounds=[[1, 20]])


def another_kind(document):
    document["total"]["event"] = GaussianEvent(1.0).to_dict()


@pytest.mark.parametrize("change", [smaller_total, statement_of_what_was_made, no_total, listed_again, another_kind])
def test_an_edited_total_or_list_is_refused(change):
    assert not edited(change).verify()


def test_an_unreadable_total_is_no_certificate():
    with pytest.raises(DataError, match="total"):
        edited(lambda document: document.update(total={"policy": "probe"}))


# --------------------------------------------------- why the total is stated


def deltas(steps=64, mu=1.0, delta=0.01, runs=200_000) -> tuple[float, float]:
    """Smallest delta of the claims "epsilon of what was made" and "epsilon of the total", where a policy stops when it likes.

    Releases of mu/sqrt(steps) each. The policy, a function of the transcript, stops once the loss exceeds by `margin` what is
    claimed of the releases so far. Delta is E[(1 - exp(epsilon - loss))+] in the first world.
    """
    rng, each, margin = np.random.default_rng(0), mu / math.sqrt(steps), 0.1
    losses = np.cumsum(each * rng.standard_normal((runs, steps)).astype(np.float32) + each**2 / 2, axis=1)
    claimed = np.array([gaussian_epsilon(delta, each * math.sqrt(t + 1)) for t in range(steps)])
    over = losses > claimed + margin
    stopped = np.where(over.any(axis=1), over.argmax(axis=1), steps - 1)
    loss = losses[np.arange(runs), stopped].astype(np.float64)

    def smallest(epsilon):
        return float(np.mean(np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0)))))

    return smallest(claimed[stopped]), smallest(np.full(runs, claimed[-1]))


def test_a_claim_about_what_was_made_is_false_and_the_total_is_true():
    """Standard error below 4e-4 over 200,000 runs: five of them decide (false alarm below 1e-6)."""
    of_what_was_made, of_the_total = deltas()
    assert of_what_was_made > 0.03, "claimed: 0.01"
    assert of_the_total < 0.01 + 5 * 4e-4
