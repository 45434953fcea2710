"""How often one run refutes: the experiment's short cut is the run itself, and the page shows what was stored."""

from __future__ import annotations

import json

import numpy as np
import pytest
from experiments.one_run_audit import run as experiment

from taskveil.audits.canary_tasks import PAIRS, Canaries

STORED = json.loads(experiment.FILE.read_text())
FAULTY = [r for r in STORED["results"] if r["fault"] != "none" and r["epsilon"] == 4.0]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_short_cut_publishes_what_a_whole_fit_with_the_same_coins_and_noise_does():
    others, seed = experiment.table(30, 24), 5
    ready = experiment.Rehearsal(experiment.configured(2, 4.0), others, 20)
    for _ in range(2):  # the second time the first round's messages are remembered
        coins = experiment.coins_of(seed, 20)
        boards = ready.ran(seed, coins)[1].billboards
        assert ready.canaries.shape == PAIRS
        whole = experiment.configured(2, 4.0).set_params(insecure_noise_seed=seed)
        whole.fit(Canaries(coins, True, PAIRS).join(others))
        for ours, theirs in zip(boards, whole.record_.billboards, strict=True):
            assert all(np.allclose(ours.values[name], theirs.values[name], rtol=1e-9) for name in theirs.values)
        seed += 1


def test_the_page_shows_the_stored_figures():
    assert experiment.rows(STORED) in experiment.PAGE.read_text()


def test_correct_runs_were_refuted_at_most_at_the_stated_rate():
    """Of 400 runs at a rate of 5 % more than 44 would be refuted with probability below 1e-6."""
    (correct,) = (r for r in STORED["results"] if r["fault"] == "none" and r["epsilon"] == 4.0 and r["runs"] >= 400)
    assert correct["refuted"] <= 0.05 * correct["runs"]


@pytest.mark.parametrize("found", FAULTY, ids=[r["fault"] for r in FAULTY])
def test_every_fault_was_refuted_in_at_least_four_of_five_runs(found):
    assert found["runs"] >= 10 and found["refuted"] >= 0.8 * found["runs"]
    assert {r["fault"] for r in FAULTY} == set(experiment.FAULTS) - {"none"}
