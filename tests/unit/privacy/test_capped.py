"""A cap on participations: B releases are charged, nobody takes part in more, and whoever forgets either is found out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import taskveil as tv
from taskveil.errors import OptionError
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import CappedEvent, Charge, GaussianEvent
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.privacy.secure_options import SecureOptions
from taskveil.runtime import in_process
from taskveil.runtime import round as rounds

ROUNDS, MOST, RATE = 12, 3, 0.2


def planned(aggregation="local", most=MOST, rounds=ROUNDS, rate=RATE):
    secure = SecureOptions.for_tasks(40) if aggregation == "secure" else None
    budget = Budget(2.0, 1e-3, aggregation=aggregation, secure=secure)
    what = VectorSum((4,), 1.0)
    return make_plan([Request("update", t + 1, what, rate=rate, most=most) for t in range(rounds)], budget)


@pytest.mark.parametrize("aggregation", ["local", "secure"])
def test_so_many_releases_are_charged_as_a_unit_takes_part_in(aggregation):
    capped, few, all_ = planned(aggregation), planned(aggregation, None, MOST), planned(aggregation, None)
    assert len(capped.releases) == ROUNDS and capped.most_participations == MOST
    assert capped.epsilon() <= 2.0
    scale = [plan.releases[0].mechanism.coordinate_deviation(plan.releases[0].contribution) for plan in (capped, few, all_)]
    assert scale[0] == pytest.approx(scale[1], rel=1e-3)
    assert scale[2] / scale[0] == pytest.approx(np.sqrt(ROUNDS / MOST), rel=0.1)


def test_what_can_fail_in_a_secure_sum_is_counted_in_every_round():
    capped, few = planned("secure"), planned("secure", None, MOST)
    failures = [sum(c.event.failure() for c in plan.charges()) for plan in (capped, few)]
    assert failures[0] == pytest.approx(failures[1] * ROUNDS / MOST)


@pytest.mark.parametrize(("aggregation", "rate"), [("curator", RATE), ("local", None)])
def test_a_cap_needs_cohorts_that_are_drawn_and_may_be_known(aggregation, rate):
    with pytest.raises(OptionError, match="cap on participations"):
        planned(aggregation, rate=rate)


def test_the_event_can_be_written_and_read():
    event = CappedEvent(GaussianEvent(3.0), 5)
    assert event_from_dict(event.to_dict()) == event and event.made_again() == GaussianEvent(3.0)
    with pytest.raises(OptionError, match="whole number"):
        CappedEvent(GaussianEvent(3.0), 0)


def test_capped_releases_alone_certify_nothing():
    assert best_epsilon([Charge(CappedEvent(GaussianEvent(3.0), 5))], 1e-5)[0] == np.inf


# --------------------------------------------------------------------- runs


def data(m=40):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((m * 6, 3))
    return X, np.where(X[:, 0] > 0, "a", "b"), np.repeat(np.arange(m), 6)


def fitted(**options):
    pytest.importorskip("jax")
    method = tv.methods.get("fedavg", model="linear", rounds=ROUNDS, rate=0.5, participations=MOST, **options)
    return tv.TaskClassifier(method=method, epsilon=4.0, delta=1e-2, aggregation="local", seed=1).fit(*data()[:2], task=data()[2])


def most_often(record) -> int:
    return int(np.bincount(np.concatenate(record.schedule)).max())


def test_nobody_takes_part_more_often_and_the_certificate_says_so(monkeypatch):
    kept = []
    run = in_process.run
    monkeypatch.setattr(in_process, "run", lambda *a, **k: kept.append(run(*a, **k)) or kept[-1])
    certificate = fitted().certificate_
    assert most_often(kept[0]) == MOST and len(kept[0].schedule) == ROUNDS
    assert any(f"more than {MOST} of the {ROUNDS} rounds" in said for said in certificate.assumptions)
    observers = {s.observer for s in certificate.statements if s.holds}
    assert "server" in observers
    assert certificate.verify().ok

    monkeypatch.setattr(rounds, "within_cap", lambda active, most, schedule: active)
    fitted()
    assert most_often(kept[1]) > MOST, "the twin: a runtime that forgets the cap is seen by the same count"


def test_a_certificate_that_charges_fewer_than_the_cap_does_not_verify():
    certificate = fitted().certificate_
    paid = [e for e in certificate.events if e["event"]["kind"] != "capped"]
    assert [e["count"] for e in paid] == [MOST]
    fewer = [dict(e, count=MOST - 1, rounds=[[1, MOST - 1]]) if e in paid else e for e in certificate.events]
    forged = replace(certificate, events=fewer)
    assert any("only 2 are charged" in problem for problem in forged.verify().problems)


def test_a_release_made_again_is_charged_in_full(tmp_path):
    book, key = Book(f"sqlite:///{tmp_path / 'ledger.db'}"), Key("here")
    book.set_limit(key, 100.0, 1e-3)
    event = CappedEvent(GaussianEvent(3.0), 1)
    run = book.reserve(key, [Charge(GaussianEvent(3.0)), Charge(event, 2)], 1e-3)
    book.commit(key, run, "2/update", event)
    before = book.spent(key)[0]
    book.commit(key, run, "2/update", event)
    assert book.spent(key)[0] > before * 1.1
    assert [e.kind for _, e in book.committed(key, run)] == ["capped", "gaussian"]
    assert book.verify() == []


def test_a_site_does_not_agree_to_a_cap_it_cannot_check():
    from taskveil.errors import BudgetExceeded
    from taskveil.runtime.federation.site.decisions import allowed_messages

    with pytest.raises(BudgetExceeded, match="cannot check"):
        allowed_messages(planned(), None, None)
    with pytest.raises(AttributeError):  # the twin: without a cap the plan itself is looked at, and needs a site
        allowed_messages(planned(most=None), None, None)
