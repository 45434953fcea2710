"""tv.audit and taskveil audit: both numbers beside each other, nothing of the user's touched, exit codes."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support import audit_faults as faults

import taskveil as tv
from taskveil.audits import audit_estimator
from taskveil.audits.gallery import attacks
from taskveil.audits.methods import prepare, simulation_of
from taskveil.audits.one_run import audit_one_run
from taskveil.errors import OptionError
from taskveil.privacy.certificate import Certificate
from taskveil.report.page import embedded

DRAWN = {"scatter", "bar", "box", "heatmap", "histogram"}  # what the bundle that comes with the package can draw


def fitted(**options):
    rng = np.random.default_rng(0)
    X, ids = rng.normal(size=(40, 3)), np.repeat(np.arange(5), 8)
    return tv.TaskRegressor("dp-aggr", epsilon=1.0, delta=1e-5, **options).fit(X, X[:, 0], task=ids)


def test_the_result_stands_in_the_certificate_and_survives_json():
    est = fitted()
    before = est.coef_.copy()
    result = tv.audit(est, trials=60, seed=1)
    again = Certificate.from_json(est.certificate_.to_json())
    assert again.audit == est.certificate_.audit == est.audit_.to_dict()
    assert again.verify().ok and result.verdict == "consistent"
    assert "lower bound found" in str(again) and "claimed epsilon 1" in str(again)
    assert np.array_equal(before, est.coef_)  # no canary in a released model


def test_a_refuted_audit_fails_the_verification():
    est = fitted()
    with faults.clipping_off():
        assert tv.audit(est, trials=200, seed=1).refuted
    assert not est.certificate_.verify().ok


def test_an_audit_reads_no_rows_and_opens_no_ledger(tmp_path):
    est = tv.TaskRegressor("dp-aggr", epsilon=1.0, ledger=f"sqlite:///{tmp_path}/book.db", run_dir=tmp_path / "run")
    assert tv.audit(est, trials=40, seed=1).note.startswith("a simulation")
    assert list(tmp_path.iterdir()) == []


def test_the_watched_run_is_the_run_of_the_estimator():
    """Same noise seed: the transcript holds the billboards that fit leaves behind."""
    worlds, shape = prepare(simulation_of(tv.TaskRegressor("low-rank", epsilon=1.0)), "largest", 5, None)
    world = worlds[1]
    world.run(7)
    est = simulation_of(tv.TaskRegressor("low-rank", epsilon=1.0))
    est.insecure_noise_seed = 7
    boards = est.fit(shape.tasks(1)).record_.billboards[1:]
    assert len(boards) == len(world.transcript.rounds)
    for board, seen in zip(boards, world.transcript.rounds):
        assert np.array_equal(board.values["second-moment"], seen["second-moment"])


def test_without_an_epsilon_there_is_nothing_to_refute():
    with pytest.raises(OptionError, match="no claim"):
        audit_estimator(tv.TaskRegressor("dp-aggr", epsilon=None))


def test_a_method_that_shares_nothing_is_consistent():
    assert tv.audit(tv.TaskRegressor("local", epsilon=1.0)).verdict == "consistent"


@pytest.mark.parametrize("method", ["dp-aggr", tv.methods.get("mean", strength=1.0, rounds=2)], ids=["dp-aggr", "mean"])
def test_one_run_finds_missing_clipping_and_not_correct_noise(method):
    # the theorem's probability of a false alarm has a term of canaries x delta: delta must be small to refute at 1e-6
    est = tv.TaskRegressor(method, epsilon=1.0, delta=1e-9)
    assert not audit_one_run(est, canaries=100, seed=3).refuted
    with faults.clipping_off():
        broken = audit_one_run(est, canaries=100, seed=3)
    assert broken.refuted and broken.lower_bound > 2


def run(*arguments, capsys):
    from taskveil.cli.main import run as main

    with pytest.raises(SystemExit) as stop:
        main(["audit", *arguments])
    return stop.value.code, capsys.readouterr().out


def test_the_command_prints_the_fixed_keys_and_exits_1_when_refuted(capsys):
    code, out = run("paper-wishart", "--epsilon", "1", "--delta", "1e-5", "--seed", "1", "--json", capsys=capsys)
    found = json.loads(out)
    keys = {"target", "claimed_epsilon", "delta", "lower_bound", "confidence", "attack", "trials", "verdict"}
    assert code == 1 and keys <= set(found)
    assert found["verdict"] == "refuted" and found["lower_bound"] > 3


def test_the_command_exits_0_when_consistent_and_2_for_unknown_targets(capsys):
    code, out = run("laplace", "--epsilon", "1", "--trials", "2000", "--seed", "1", capsys=capsys)
    assert code == 0 and "consistent" in out
    assert run("lapalce", "--epsilon", "1", capsys=capsys)[0] == 2
    assert run("laplace", "--set", "rounds=3", capsys=capsys)[0] == 2


def test_the_gallery_shows_what_its_sentences_say():
    leak, member, gradients, masked, collusion, stories, liar = attacks(seed=0)
    assert all(found["before"]["differs"] and not found["after"]["differs"] for found in liar.data.values())
    assert leak.data["likeness"]["leaked"] > 0.99 > leak.data["likeness"]["protected, sound"]
    assert abs(member.data["below_zero"]["paper-wishart"]["absent"] - member.data["theory"]) < 0.05
    assert member.data["below_zero"]["paper-wishart"]["present"] == 0.0
    assert gradients.data["cosine"]["un-noised gradients"] > 0.999
    assert np.mean(masked.data["cosine"]["masked updates"]) > 0.99
    assert all(row["after"] <= 1 < row["before"] for row in collusion.data["layouts"])
    assert all(row["before"] and not row["after"] for row in stories.data["federations"])
    for attack in (leak, member, gradients, masked, collusion, stories):
        assert embedded(attack.figure()) and {t["type"] for t in attack.figure()["data"]} <= DRAWN
