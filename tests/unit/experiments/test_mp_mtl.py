"""The MP-MTL experiments: scores, shares and claims, on few and small draws."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.common import execute
from experiments.liang_2020 import runs, tradeoff, tuning
from experiments.liang_2020.batch import Batch, model_noise
from experiments.liang_2020.choosing import Folds, tuned
from experiments.liang_2020.starved import compared
from experiments.liang_2020.tradeoff import ALONE, FREE, LOW_RANK, MTL, OURS, STL, Claims, Setting
from experiments.random_settings import ALLOWED, Row
from experiments.registry import ITEMS, get

from taskveil.tasks.synthetic import get_synthetic


def small(r: int):
    data = get_synthetic("low-rank", seed=r, n_tasks=60, n_test=40)
    return data.train, data.test


@pytest.fixture(scope="module")
def measured():
    setting = Setting(small, (1.0, 10.0), 3, quick=True, single=("l2",), folds=1)
    return tradeoff.measure(setting), setting


def test_all_methods_of_the_paper_and_ours_are_scored_in_every_replication(measured):
    scores, setting = measured
    assert set(scores) == {STL, ALONE, MTL, FREE, OURS, *tradeoff.PRINTED}
    assert all(len(v) == setting.repeats for by_epsilon in scores.values() for v in by_epsilon.values())


def test_replications_differ_and_tuning_is_recorded(measured):
    scores, setting = measured
    assert len(set(scores[LOW_RANK][1.0])) == setting.repeats
    assert set(setting.options[LOW_RANK]) == {"1", "10"}


def test_closing_the_whole_gap_is_a_share_of_one(measured):
    scores, _ = measured
    best = tradeoff.best_free(scores, 1).tolist()
    assert tradeoff.shares({**scores, "x": {1.0: best}}, "x", 1.0, 1) == pytest.approx(1.0)
    assert tradeoff.shares({**scores, "x": {1.0: scores[ALONE][None]}}, "x", 1.0, 1) == pytest.approx(0.0)


def test_where_more_is_better_claims_turn_around():
    setting = Setting(small, (1.0,), 3, True, metric="auc")
    claims = Claims({STL: {None: [0.6, 0.61, 0.62]}, LOW_RANK: {1.0: [0.8, 0.82, 0.81]}}, setting)
    claims.better("better", LOW_RANK, STL, (1.0,))
    claims.no_worse("no worse", STL, LOW_RANK, (1.0,))
    claims.no_worse("nearly as good", STL, LOW_RANK, (1.0,), margin=0.5)
    assert [c.holds for c in claims.checks] == [True, False, True]
    assert claims.checks[0].left == pytest.approx(0.81)


def test_one_printed_round_betrays_absence_as_often_as_the_formula_says():
    options = {"rounds": 1, "penalty": 1.0, "clip": 7.0}
    assert runs.certain_of_absence(options, 60, 1.0) == pytest.approx(1 - np.exp(-1.0), rel=1e-3)
    assert runs.certain_of_absence({**options, "rounds": 20}, 60, 1.0) > 1 - np.exp(-1.0)


def test_a_limit_that_predicting_the_mean_meets_is_not_met_by_predicting_the_mean():
    setting = Setting(small, (1.0,), 3, True)
    for values, holds in (([0.3, 0.31, 0.32], True), ([1.03, 1.02, 1.04], False), ([0.1, 0.11, 0.1], False)):
        claims = Claims({LOW_RANK: {1.0: values}}, setting)
        claims.beyond("has nMSE above 0.16", LOW_RANK, 0.16, (1.0,))
        assert [c.holds for c in claims.checks] == [holds]


@pytest.mark.parametrize("name", ["low-rank", "group-sparse"])
def test_many_settings_at_once_are_the_librarys_printed_models(name):
    """At an epsilon whose noise is nothing beside the models; the twin takes another step."""
    train, test = small(5)
    settings = [
        {"rounds": 3, "step": 0.3, "penalty": 1.3, "clip": 1.0},
        {"rounds": 9, "step": 0.2, "penalty": 0.3, "clip": 7.0, "momentum": "none"},
        {"rounds": 6, "step": 0.1, "penalty": 2.0, "clip": 5.0, "momentum": "strong", "strong_convexity": 1e-3},
    ]
    fits = [runs.as_printed(name, o, train, test, 1e9, 0) for o in settings]
    many = Batch(train).errors(name, settings, 1e9, test, 0)
    np.testing.assert_allclose(many, fits, rtol=1e-4)
    assert abs(Batch(train).errors(name, [settings[0] | {"step": 0.25}], 1e9, test, 0)[0] / fits[0] - 1) > 1e-4


def test_noise_of_algorithm_5_has_the_length_its_proof_needs_and_is_nothing_at_a_large_epsilon():
    """Mean length d 2K / eps_t, within 6 deviations of 4,000 draws (about 1e-9); upside down it would be d eps_t / (2K)."""
    scale = np.array([0.5, 40.0])
    lengths = np.linalg.norm(model_noise((4000, 2, 6), scale, np.random.default_rng(0)), axis=2)
    assert (np.abs(lengths.mean(axis=0) - 6 * scale) < 6 * scale * np.sqrt(6 / 4000)).all()
    train, test = small(5)
    setting = [{"rounds": 3, "step": 0.3, "penalty": 1.3, "clip": 1.0}]
    plain, quiet, loud = (Batch(train).errors("low-rank", setting, 1e9, test, 0, e)[0] for e in (None, 1e9, 1.0))
    assert quiet == pytest.approx(plain, rel=1e-4) and loud > 2 * plain


def test_random_settings_reach_beyond_the_grid_on_every_side():
    grid, drawn = runs.proximal_grid(False), runs.random_proximal(400, 300)
    for key in ("rounds", "step", "penalty", "clip"):
        assert min(o[key] for o in drawn) <= min(o[key] for o in grid)
        assert max(o[key] for o in drawn) > max(o[key] for o in grid)


def test_choosing_leaves_the_listed_settings_where_they_are_bad_and_without_generations_it_cannot():
    """One listed setting whose step is a tenth of a good one; judged with noise that chose nothing."""
    rows, listed = Folds(small(1000)[0], 1000), [{"rounds": 5, "step": 0.03, "penalty": 1.3, "clip": 1.0}]
    found, stuck = (tuned("low-rank", rows, 10.0, 2, listed, widths) for widths in ((0.5, 0.5, 0.5), ()))
    assert stuck == listed[0]
    better, listed_score = rows.scores("low-rank", [found, stuck], 10.0, 2, noise=5000)
    assert better < 0.97 * listed_score


def test_a_method_whose_tuning_missed_better_settings_is_called_starved():
    cases = ((0.060, 0.055, True, True), (0.057, 0.055, True, False), (0.70, 0.75, False, True), (0.75, 0.70, False, False))
    for chosen, best, lower, expected in cases:
        assert (Row("LR", "1", 200, chosen, best, lower).behind > ALLOWED) is expected


def test_a_setting_that_was_chosen_badly_is_behind_fresh_ones():
    """The check itself, small: a penalty that flattens every model against five random settings, and against itself."""
    train, _ = small(1000)
    flat = {"rounds": 1, "step": 0.25, "penalty": 1e4, "clip": 7.0}
    row = compared(Folds(train, 1000), Folds(train, 2000), LOW_RANK, flat, 10.0, 5)
    assert Row("LR", "10", 5, row["chosen"], row["best of random"], row["lower is better"]).behind > ALLOWED


def test_what_tuning_chose_is_found_again_and_a_replication_only_for_the_same_question(tmp_path, monkeypatch):
    monkeypatch.setattr(tuning, "FILE", tmp_path / "tuned.json")
    monkeypatch.setattr(tuning, "PARTS", tmp_path / "parts")
    answers = iter(range(10))
    assert [tuning.kept("data", "chosen/LR", e, lambda: next(answers)) for e in (1.0, 1.0, 3.0)] == [0, 0, 1]
    asked = ({"a": 1}, {"a": 1}, {"a": 2})
    assert [tuning.replication("data", a, 0, lambda: next(answers)) for a in asked] == [2, 2, 3]
    assert [tuning.kept("", "chosen/LR", 1.0, lambda: next(answers)) for _ in range(2)] == [4, 5]


def test_the_papers_delta():
    assert runs.paper_delta(320) == pytest.approx(1 / (320 * np.log(320)))


@pytest.mark.reproduce
@pytest.mark.parametrize("name", [n for n in ITEMS if n.startswith("mp-mtl-")])
def test_every_quick_item_runs_in_its_time(name, tmp_path):
    document = execute(get(name), quick=True, seed=1, folder=tmp_path)
    assert document["checks"]
    assert document["run"]["cpu_seconds"] < 40
