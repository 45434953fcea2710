"""Certificates say whole sentences, recompute themselves, and cannot be touched up."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import taskveil as tv
from taskveil.errors import CheckFailed, DataError
from taskveil.privacy.certificate import Certificate, build_certificate
from taskveil.privacy.contributions import OuterSum, RowSum, VectorSum
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise, system_noise

SYSTEM = system_noise().describe()


def certificate(contribution=None, n=1, randomness=None, rate=None, observers=None, **options):
    contribution = contribution or OuterSum(5, 1.0)
    requests = [Request("S", t + 1, contribution, rate=rate) for t in range(n)]
    plan = make_plan(requests, Budget(**{"epsilon": 1.0, "delta": 1e-4, **options}))
    return build_certificate("low-rank", plan, randomness or SYSTEM, observers=observers)


SOUND = {
    "one release": {},
    "many releases": {"n": 30},
    "pure": {"delta": 0.0, "n": 3},
    "pure, advanced": {"mechanism": "two-sided-wishart", "n": 30},
    "local": {"aggregation": "local"},
    "add-remove": {"neighbours": "add-remove"},
    "sampled": {"contribution": VectorSum((5,), 1.0), "rate": 0.1, "n": 20},
    "rows at the tasks": {
        "contribution": RowSum((5,), 1.0), "rate": 0.1, "n": 20, "unit": "record", "aggregation": "local",
    },
    "public": {"observers": ("other-tasks", "public")},
}  # fmt: skip


@pytest.mark.parametrize("case", SOUND)
def test_a_sound_certificate_holds_and_verifies_after_a_round_trip(case):
    made = certificate(**SOUND[case])
    again = Certificate.from_json(made.to_json())
    assert again == made
    assert made.holds and again.verify().ok, again.verify().problems
    again.verify().require()


def test_a_certificate_has_exactly_the_fields_of_the_design():
    data = json.loads(certificate().to_json())
    assert list(data) == [
        "method", "variant", "statements", "events", "assumptions", "not_protected", "randomness", "software",
    ]  # fmt: skip
    assert {"unit", "neighbours", "observer", "epsilon", "delta", "accountant", "holds"} == set(data["statements"][0])


def test_a_statement_is_a_whole_sentence():
    text = str(certificate())
    for word in ("All data of one task", "replaced by any other", "all other tasks", "epsilon = 1", "delta = 0.0001", "gaussian"):
        assert word in text


TAMPERING = {
    "event with more noise": lambda d: d["events"][0]["event"].update(noise_multiplier=99.0),
    "mechanism with less noise": lambda d: d["events"][0]["mechanism"].update(scale=0.1),
    "mechanism with more noise": lambda d: d["events"][0]["mechanism"].update(scale=99.0),
    "smaller clipping bound": lambda d: d["events"][0]["contribution"].update(bound=0.5),
    "larger clipping bound": lambda d: d["events"][0]["contribution"].update(bound=2.0),
    "fewer releases": lambda d: d["events"][0].update(count=1, rounds=[[1, 1]]),
    "count without rounds": lambda d: d["events"][0].update(count=29),
    "no releases": lambda d: d["events"].clear(),
    "a secret sampling rate": lambda d: d["events"][0].update(rate=0.01),
    "smaller epsilon": lambda d: d["statements"][0].update(epsilon=0.5),
    "smaller delta": lambda d: d["statements"][0].update(delta=1e-12),
    "another observer": lambda d: d["statements"][0].update(observer="server"),
    "another relation": lambda d: d["statements"][0].update(neighbours="add-remove"),
    "another unit": lambda d: d["statements"][0].update(unit="record"),
    "another accountant": lambda d: d["statements"][0].update(accountant="pure"),
    "another aggregation": lambda d: d["events"][0].update(aggregation="secure"),
    "an event of another kind": lambda d: d["events"][0].update(event={"kind": "zero", "version": 1}),
    "an unreadable event": lambda d: d["events"][0].update(event={"kind": "magic", "version": 1}),
    "an event of another version": lambda d: d["events"][0]["event"].update(version=2),
    "a missing field": lambda d: d["events"][0].pop("mechanism"),
    "seeded noise passed off as holding": lambda d: d["randomness"].update(seeded=True),
    "no statements": lambda d: d["statements"].clear(),
}


@pytest.mark.parametrize("change", TAMPERING)
def test_a_tampered_certificate_is_found_out(change):
    data = json.loads(certificate(n=30).to_json())
    TAMPERING[change](data)
    verdict = Certificate.from_dict(data).verify()
    assert not verdict.ok and verdict.problems
    with pytest.raises(CheckFailed, match="does not hold"):
        verdict.require()


@pytest.mark.parametrize("n", [1, 30])
def test_the_papers_noise_is_certified_as_not_holding_with_the_proved_delta(n):
    made = certificate(n=n, variant="paper", epsilon=1.0)
    (statement,) = made.statements
    assert not statement.holds and not made.verify().ok
    assert statement.accountant == "kairouz" and statement.epsilon == 1.0
    assert statement.delta_at_least == pytest.approx(1 - math.exp(-1.0), rel=1e-9)
    assert "positive semidefinite" in statement.reason
    assert "DOES NOT HOLD" in str(made) and "0.632121" in str(made)


def test_touching_up_holds_of_the_papers_noise_is_found_out():
    data = json.loads(certificate(variant="paper").to_json())
    data["statements"][0]["holds"] = True
    verdict = Certificate.from_dict(data).verify()
    assert not verdict.ok and "inf" in verdict.problems[0]


def test_preprint_noise_is_refuted_by_its_own_scale():
    """c = K/eps, so the observer is certain with probability 1 - exp(-K eps/2)."""
    (statement,) = certificate(OuterSum(5, 1.0), variant="preprint", epsilon=1.0).statements
    assert not statement.holds and statement.delta_at_least == pytest.approx(1 - math.exp(-0.5), rel=1e-9)


def test_seeded_noise_voids_the_certificate():
    made = certificate(randomness=insecure_seeded_noise(3).describe())
    (statement,) = made.statements
    assert not statement.holds and "seeded noise" in statement.reason and not made.verify().ok


def test_a_method_that_releases_nothing_is_private_with_epsilon_zero():
    for epsilon in (1.0, None):
        made = build_certificate("local", make_plan([], Budget(epsilon, 1e-4)), SYSTEM)
        (statement,) = made.statements
        assert (statement.epsilon, statement.delta, statement.observer) == (0.0, 0.0, "other-tasks")
        assert made.verify().ok and made.not_protected == ()


def test_a_method_that_releases_nothing_holds_with_seeded_randomness_too():
    made = build_certificate("local", make_plan([], Budget(1.0, 1e-4)), insecure_seeded_noise(1).describe())
    assert made.verify().ok


def test_no_privacy_makes_no_statement_and_says_so():
    made = certificate(epsilon=None)
    assert made.statements == () and not made.holds and not made.verify().ok
    assert "nothing is protected" in made.not_protected[0]
    assert "No privacy statement" in str(made)


def test_the_curator_is_named_as_not_protected_against_and_local_noise_protects_from_the_server():
    assert any("clipped messages" in text for text in certificate().not_protected)
    made = certificate(aggregation="local")
    assert [s.observer for s in made.statements] == ["other-tasks", "server"] and made.not_protected == ()


def test_floating_point_noise_is_listed_among_the_assumptions():
    made = certificate(randomness={**SYSTEM, "exact": False})
    assert any("floating point" in text for text in made.assumptions)
    assert not any("floating point" in text for text in certificate().assumptions)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"method": 1}', "not json", '{"statements": [{"odd": 1}]}'])
def test_what_is_not_a_certificate_is_refused(text):
    with pytest.raises(DataError, match="not a certificate"):
        Certificate.from_json(text)


@pytest.mark.parametrize("unit", ["task", "record"])
def test_one_assumption_says_what_is_public_and_numbers_of_rows_only_where_rows_are_the_unit(unit):
    X, task = np.random.default_rng(0).standard_normal((120, 2)), np.repeat(np.arange(12), 10)
    est = tv.TaskRegressor("mean", epsilon=1.0, unit=unit, scaling="none").fit(X, X[:, 0], task=task)
    said = [text for text in est.certificate_.assumptions if "public and fixed" in text]
    assert len(said) == 1 and "all sizes" not in said[0]
    for known in ("the number of tasks", "the names of the tasks", "the feature columns", "all options of the run"):
        assert known in said[0]
    assert ("the number of rows of every task" in said[0]) == (unit == "record")
    assert ("not how many rows a task has" in said[0]) == (unit == "task")
    assert (est.record_.public.task_rows is None) == (unit == "task")
