"""The reproduced figures of two papers: every name leads to a function, and claims are judged the right way round."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from experiments import rejudge
from experiments.paper_page import section
from experiments.ponomarenko_2023 import accuracy, clock, starved, stragglers
from experiments.xie_2017 import data, items, page


@pytest.mark.parametrize("folder", ["xie_2017", "ponomarenko_2023"])
def test_every_item_leads_to_a_function_and_has_its_own_name(folder):
    listed = import_module(f"experiments.{folder}").ITEMS
    for name, where in listed.items():
        module, _, attribute = where.partition(":")
        assert callable(getattr(import_module(f"experiments.{folder}.{module}"), attribute)), name
        assert "-" not in name  # files in results/ are found by the last part of a command's name


def test_the_printed_epsilon_of_one_message_is_refuted_over_ten_thousand():
    result = items.composition(quick=True, seed=0)
    assert [c.holds for c in result.checks] == [False, True, False]  # drawing rows lowers the cost, not to the label
    assert result.series["composed: 0.1 a message"]["y"][-1] > 50
    assert result.series["composed: 1 a message"]["y"][0] == pytest.approx(1.0, rel=1e-3)


def test_seconds_to_the_level_count_double_where_it_is_never_reached():
    found = {
        "All": {"x": [1.0, 2.0, 3.0], "y": [0.5, 0.9, 0.9], "answered": 1.0},
        "10%": {"x": [1.0, 2.0, 3.0], "y": [0.5, 0.6, 0.5], "answered": 0.1},
    }
    figures = stragglers.figures(found)
    assert figures["All"]["seconds"] == pytest.approx(1.0 + 0.391 / 0.4) and figures["10%"]["seconds"] == 6.0
    assert figures["10%"]["fallen"] == pytest.approx(0.1)


def test_stored_verdicts_are_what_the_stored_numbers_give(monkeypatch):
    for name in rejudge.JUDGES:
        stored = rejudge.stored(name)
        again = rejudge.judged(name)
        assert [(c["claim"], c["holds"]) for c in again["checks"]] == [(c["claim"], c["holds"]) for c in stored["checks"]], name
    changed = rejudge.stored("svm-light")
    changed["settings"]["table"]["scores"]["local"] = [0.99] * 5
    monkeypatch.setattr(rejudge, "stored", lambda name: changed)
    assert rejudge.judged("svm-light")["checks"][0]["holds"] is False, "a verdict follows its numbers"


@pytest.mark.parametrize("name", ["svm", "mocha", "local", "pooled"])
def test_random_constants_reach_beyond_the_listed_ones_on_every_side(name):
    listed, drawn = accuracy.candidates(name, quick=False), starved.random_constants(name, 200)
    for key in ("C1",) if name in ("local", "pooled") else ("C1", "C2"):
        assert min(o[key] for o in drawn) < min(o[key] for o in listed) and max(o[key] for o in drawn) > max(
            o[key] for o in listed
        )
    assert [set(o) for o in drawn] == [set(listed[0])] * 200, "nothing but the constants differs"


def test_a_band_is_over_what_each_repeat_had_reached_by_then():
    made = clock.banded([{"x": [0.0, 1.0, 2.0], "y": [0.0, 1.0, 1.0]}, {"x": [0.0, 2.0, 9.0], "y": [0.0, 3.0, 3.0]}], points=3)
    assert made["x"] == [0.0, 1.0, 2.0] and made["y"] == [0.0, 0.5, 2.0]
    assert made["std"] == pytest.approx([0.0, 0.5 * 2**0.5, 2**0.5])


def test_claims_of_a_figure_hold_or_fail_with_the_numbers():
    rng = np.random.default_rng(0)

    def row(seconds: float, final: float) -> dict[str, list[float]]:
        draw = lambda v: (v + 1e-3 * rng.standard_normal(4)).tolist()  # noqa: E731
        return {"seconds": draw(seconds), "final": draw(final), "spread": draw(0.1), "fallen": draw(0.0)}

    table = {"All": row(2.0, 0.9), "75%": row(1.0, 0.9), "45%": row(1.0, 0.9), "20%": row(1.0, 0.5)}
    holds = {c.claim: c.holds for c in stragglers.claims("fig10", table)}
    assert holds["waiting for 75% converges sooner than for All"] is True
    assert holds["waiting for 45% is not sooner than for All"] is False
    assert holds["20 % ends lower than waiting for all"] is True
    assert holds["waiting for 20% ends within 1 % of waiting for all"] is False


def test_the_made_data_have_the_sizes_of_the_papers_table():
    for name, setting in data.SETTINGS.items():
        train, test = data.make_data(setting, 0)
        sizes = train.sizes + test.sizes
        assert train.n_tasks == 20 and train.n_features == (248 if setting.adni else 28), name
        assert (15 <= sizes.min() and sizes.max() <= 27) if setting.adni else set(sizes) == {200}
        assert np.linalg.norm(train.X, axis=1).max() <= 1.0 + 1e-12


def test_the_page_shows_a_failed_claim_as_failed():
    result = items.composition(quick=True, seed=0)
    document = {
        **vars(result), "checks": [vars(c) for c in result.checks],
        "run": {"quick": True, "date": "2000-01-01", "seconds": 1.0, "seed": 0},
    }  # fmt: skip
    assert "**fails**" in section(page, "composition", document)


def test_times_sooner_are_taken_seed_by_seed_and_an_unreached_target_counts_as_never():
    from experiments.xie_2017 import speed

    run = {"preset": "aso", "delays": "heavy tails", "curve": []}
    runs = [{**run, "seed": s, "way": w, "seconds": t} for s, w, t in (
        (0, "asynchronous", 1.0), (0, "synchronous", 4.0), (1, "asynchronous", 2.0), (1, "synchronous", None),
        (0, speed.PROVED, 3.0),
    )]  # fmt: skip
    heavy = next(r for r in speed.summary({"runs": runs}) if r["delays"] == "heavy tails")
    assert heavy["ratios"] == [4.0, np.inf]
    assert heavy["seconds"][speed.PROVED] == 3.0
