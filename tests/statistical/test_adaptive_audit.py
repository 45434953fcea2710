"""Runs whose releases follow earlier ones, against their certificate by exact likelihood ratios, with noise of the system.

Null: the certificate, which states the total, holds whatever the policy does with what it sees: our own, one that stops when
the first coordinate pleases it, one that hunts. No false alarms but the two of tests.support.likelihood (1e-6 each). Twins: a
policy nothing holds back, and a certificate of what happened to be made, are found out.
"""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from tests.support.likelihood import Neighbours, violations
from tests.unit.methods.test_probing import greedy

import taskveil as tv
from taskveil.methods.probing import ProbingServer
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.events import Charge
from taskveil.privacy.release import MemoryAccount

pytestmark = [pytest.mark.statistical, pytest.mark.timeout(600)]

EPSILON, DELTA = 2.0, 0.05  # a delta that some runs can contradict
TOO_FAR = "the sums lie further apart than epsilon allows"
RUNS = [pytest.param(4, id="a few runs"), pytest.param(400, id="many runs", marks=pytest.mark.audit)]
STEEP = {"first": (1.0, 0.0, 0.0), "across": (-0.18, 0.98, 0.0), "opposite": (-1.0, 0.0, 0.0)}


def table(slopes, m=40, n=12):
    """Related tasks; the first is steep along one direction, without noise."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((m * n, 3)), np.repeat([f"t{i:02d}" for i in range(m)], n)
    y = X @ [1.0, 0.5, -0.5] + 0.3 * rng.standard_normal(m * n)
    y[:n] = X[:n] @ np.asarray(slopes)
    return X, y, task


def pair(other="across", **options) -> Neighbours:
    est = tv.TaskRegressor(tv.methods.get("subspace", spending="adaptive"), **{"epsilon": EPSILON, "delta": DELTA, **options})
    return Neighbours.of(est, table(STEEP["first"]), None if other is None else table(STEEP[other]))


def own(self, state, possible, real=ProbingServer.chosen):
    return real(self, state, possible)


def pleased(self, state, possible):
    """Goes on where the first coordinate of the noisy mean is positive, which is what tells the neighbours apart."""
    return possible if possible[0].round == 1 or float(state["seen"][0]) > 0 else []


def hunting(self, state, possible):
    """Stops as soon as a transcript tells the neighbours apart better than it should."""
    return possible if possible[0].round == 1 or abs(float(state["seen"][0])) < 2 * float(state["precision"]) ** 0.5 else []


@contextmanager
def policy(chooses):
    with patch.object(ProbingServer, "chosen", chooses), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("other", ["across", "opposite", None])
@pytest.mark.parametrize("chooses", [own, pleased, hunting])
def test_runs_are_as_private_as_the_total_says_whatever_the_policy(chooses, other, runs):
    with policy(chooses):
        one = pair(other, **({} if other else {"neighbours": "add-remove"}))
        for real in (0, 1):
            assert violations(one, one.runs(runs, real)) == []


def test_the_neighbours_use_up_most_of_the_total():
    """Or the audit would say little."""
    with policy(lambda self, state, possible: possible):
        one = pair()
        (seen,) = one.runs(1)
    assert seen.squares > 0.85 / one.worlds[0].plan.total.noise_multiplier ** 2


def test_a_policy_that_nothing_holds_back_is_found_out():
    """Its second release has half the planned noise, and no account refuses it."""

    def commit(self, *planned):
        return planned[-1].id

    with policy(own):
        one = pair()
    with policy(greedy), patch.object(MemoryAccount, "commit", commit):
        assert "the noise has another deviation than planned" in violations(one, one.runs(20))


def test_a_certificate_of_what_happened_to_be_made_is_found_out():
    """The fitted run ended after its probe; what it then claims is refuted by runs in which the same policy goes on."""
    with policy(lambda self, state, possible: possible if possible[0].round == 1 else []):
        one = pair()
    claim, _ = best_epsilon([Charge(p.event) for p in one.estimator.record_.executed], DELTA)
    (statement, *_) = one.estimator.certificate_.statements
    one.estimator.certificate_ = replace(one.estimator.certificate_, statements=(replace(statement, epsilon=claim),))
    assert claim < 0.6 * EPSILON
    with policy(pleased):
        assert TOO_FAR in violations(one, one.runs(12))
