"""The audit starts where the user starts: faults planted in preparation, in what tasks keep and in how a run fails are refuted.

Isolation compares bits: no false alarms. Where runs are counted, `refuted` on a sound twin has probability at most 1e-6.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.support import audit_faults as faults

import taskveil as tv
from taskveil.audits.result import power
from taskveil.errors import DataError, OptionError
from taskveil.tasks import load
from taskveil.tasks.task import TaskSet

BOUNDS = {"features": {"*": [-1.0, 1.0]}, "target": [-2.0, 2.0]}


def table(tasks=4, rows=50, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (tasks * rows, 3))
    y = X @ [1.0, 0.5, -0.5] + 0.1 * rng.standard_normal(len(X))
    return X, y, np.repeat([f"t{i}" for i in range(tasks)], rows)


def frame_of(X, y, ids):
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, site=ids)


def by_records(kind=tv.TaskRegressor, **options):
    return kind(tv.methods.get("mean", rounds=5), **{"epsilon": 1.0, "unit": "record", "bounds": BOUNDS, **options})


class OwnTargetScale(tv.TaskRegressor):
    """Planted: after preparation every task's target is scaled by its own mean and deviation, then clipped to the range."""

    def fit(self, X, y=None, task=None):
        ids, scaled = np.asarray(task), np.array(y, dtype=float)
        for t in np.unique(ids):
            own = scaled[ids == t]
            scaled[ids == t] = np.clip((own - own.mean()) / own.std(), -2, 2)
        return super().fit(X, scaled, task=task)


class OwnMedian(tv.TaskRegressor):
    """Planted: missing cells get the median of their own task; `Middle` is the twin that fills with a public number."""

    def fill(self, own):
        return np.nanmedian(own, axis=0)

    def fit(self, X, y=None, task=None):
        filled, ids = np.array(X, dtype=float), np.asarray(task)
        for t in np.unique(ids):
            rows = ids == t
            filled[rows] = np.where(np.isnan(filled[rows]), self.fill(filled[rows]), filled[rows])
        return super().fit(filled, y, task=task)


class Middle(OwnMedian):
    def fill(self, own):
        return 0.0


class FoldsBySmallest(tv.TaskRegressor):
    """Planted: how exactly every task's model is computed follows the size of the smallest task."""

    def fit(self, X, y=None, task=None):
        super().fit(X, y, task=task)
        smallest = np.unique(task, return_counts=True)[1].min()
        self.models_ = replace(self.models_, coef=self.models_.coef * (1 + 1e-12 * smallest))
        return self


class StopsAfterwards(tv.TaskRegressor):
    """Planted: one task's extreme value stops everybody, when the noise is drawn already."""

    when = "afterwards"

    def fit(self, X, y=None, task=None):
        extreme = np.abs(y).max() > 1e100
        if extreme and self.when == "before":
            raise DataError("a target is too large")
        super().fit(X, y, task=task)
        if extreme:
            raise DataError("a target is too large")
        return self


class StopsBefore(StopsAfterwards):
    when = "before"


def test_own_scaling_of_the_target_under_unit_record_is_refuted_by_counting_too():
    """One of 200 rows decides how the others are scaled: epsilon 1 is claimed, at least 3.9 is shown."""
    data = table(tasks=1, rows=200)
    broken = tv.audit(by_records(OwnTargetScale), data, trials=800, seed=1)
    assert broken.refuted and broken.lower_bound > 3.9 and broken.refutation_bound > broken.claimed_epsilon
    assert any("several encoded rows differ" in leak for leak in broken.leaks)
    sound = tv.audit(by_records(), data, trials=200, seed=1)
    assert not sound.refuted and sound.leaks == []


def test_a_fill_from_a_tasks_own_rows_under_unit_record_is_refuted():
    """Half of a task's cells are missing, the others are -1 or 1 in equal numbers: one row decides the median."""
    X, y, ids = table(tasks=1, rows=201)
    X[:, 0] = np.where(np.arange(201) % 2, 1.0, -1.0)
    X[100:, 0] = np.nan
    broken = tv.audit(by_records(OwnMedian), (X, y, ids), trials=100, seed=1)
    assert broken.refuted and any("several encoded rows differ" in leak for leak in broken.leaks)
    assert tv.audit(by_records(Middle), (X, y, ids), trials=100, seed=1).verdict == "consistent"


def test_another_tasks_number_of_rows_that_reaches_a_model_is_refuted():
    data = table()
    broken = tv.audit(FoldsBySmallest("mean"), data, trials=40, seed=1)
    assert broken.refuted and any("other tasks' models" in leak for leak in broken.leaks)
    assert "others see it without noise" in str(broken)
    assert tv.audit(tv.TaskRegressor("mean"), data, trials=40, seed=1).verdict == "consistent"


def test_a_failure_in_one_world_is_refuted_once_something_was_released():
    data = table()
    broken = tv.audit(StopsAfterwards("mean"), data, trials=40, seed=1)
    assert broken.refuted and any("fails in one world only" in leak for leak in broken.leaks)
    refusing = tv.audit(StopsBefore("mean"), data, trials=40, seed=1)
    assert not refusing.refuted and "huge numbers" in refusing.details["refused before any release"]


@pytest.mark.parametrize("name", ["dp-aggr", "mean", "together"])
def test_messages_that_are_not_clipped_move_further_than_planned(name):
    data = table()
    with faults.clipping_off():
        broken = tv.audit(tv.TaskRegressor(name), data, trials=40, seed=1)
    assert any("moves further than planned" in leak for leak in broken.leaks)


def test_canaries_stand_in_the_raw_file_and_its_options_prepare_them(tmp_path):
    """The csv is written again with a hole in one row; imputing by declared ranges makes it an ordinary row."""
    path = tmp_path / "visits.csv"
    frame_of(*table()).to_csv(path, index=False)
    est = by_records(bounds=None)
    reading = {"task": "site", "target": "y", "bounds": BOUNDS}
    refused = tv.audit(est, path, trials=20, seed=1, **reading).details["refused before any release"]
    text = ["text in 'a'", "text in 'b'"]
    assert refused == ["missing cells", *text]
    filled = tv.audit(est, path, trials=20, seed=1, missing="impute-bounds", **reading)
    assert filled.details["refused before any release"] == text and not filled.refuted
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_a_table_arrays_and_tasks_are_one_configuration(tmp_path):
    X, y, ids = table()
    frame = frame_of(X, y, ids)
    frame.to_parquet(tmp_path / "visits.parquet")
    tasks = TaskSet.from_arrays(X, y, ids, feature_names=["a", "b", "c"])
    sources = [(tmp_path / "visits.parquet", True), (frame, True), ((X, y, ids), False), (tasks, False)]
    found = [
        tv.audit(tv.TaskRegressor("mean"), data, trials=20, seed=1, **({"task": "site", "target": "y"} if named else {}))
        for data, named in sources
    ]
    assert {a.verdict for a in found} == {"consistent"}
    apart = ("digest", "facts")  # what was taken for granted depends on what a source says of its columns
    assert len({str({k: v for k, v in a.configuration.items() if k not in apart}) for a in found}) == 1
    assert len({a.lower_bound for a in found}) == 1  # the same cells, hence the same runs


def test_without_data_the_table_is_made_up_inside_the_declared_ranges_and_says_so():
    est = by_records(bounds={"features": {"age": [0, 120], "dose": [0, 5]}, "target": [0, 40]})
    found = tv.audit(est, trials=20, seed=1)
    assert "made-up" in found.note and found.configuration["scaling"] == "declared" and found.configuration["features"] == 2
    assert "made-up" not in tv.audit(tv.TaskRegressor("mean"), table(), trials=20, seed=1).note


def test_a_missing_range_of_the_target_never_passes_without_data_either():
    """Refused by preparation, or refuted: never consistent."""
    est = by_records(bounds={"features": {"*": [-1, 1]}})
    try:
        assert tv.audit(est, trials=20, seed=1).refuted
    except OptionError as refusal:
        assert "target" in str(refusal)


@pytest.mark.parametrize("options", [
    {"neighbours": "add-remove"},
    {"aggregation": "local", "observer": "server"},
    {"unit": "record", "bounds": BOUNDS, "neighbours": "add-remove"},
    {"scaling": "declared", "bounds": BOUNDS},
])  # fmt: skip
def test_sound_configurations_are_consistent(options):
    found = tv.audit(tv.TaskRegressor(tv.methods.get("mean", rounds=3), **options), table(), trials=60, seed=2)
    assert found.verdict == "consistent" and found.trials == 60
    assert ("absent" in found.details["neighbours"]) == (options.get("neighbours") == "add-remove")


def test_halved_noise_shows_in_a_configured_audit_of_the_server():
    """A pure mechanism in one dimension: its likelihood ratio is bounded everywhere, so a fault shows in the bulk of the runs."""
    X, y, ids = table()
    est = tv.TaskRegressor(
        "dp-aggr", epsilon=1.0, delta=0.0, mechanism="l2-laplace", aggregation="local", observer="server",
    )  # fmt: skip
    assert not tv.audit(est, (X[:, :1], y, ids), trials=1000, seed=3).refuted
    with faults.noise_halved():
        assert tv.audit(est, (X[:, :1], y, ids), trials=1000, seed=3).refuted


def test_a_search_is_audited_as_a_whole():
    search = tv.TaskSearch(tv.TaskRegressor("mean", epsilon=1.0), {"method__rounds": [1, 2]}, mean_runs=2)
    found = tv.audit(search, table(), trials=20, seed=1)
    assert found.trials == 20 and found.target.startswith("search") and found.refutation_bound <= found.claimed_epsilon
    assert found.details["canaries"] == 11 and found.configuration["search"] == "{'method__rounds': [1, 2]}"


def test_few_runs_say_how_little_they_can_refute():
    """All of n counted runs in one world, none in the other: log((1 - q) / q) with 1 - q = (5e-7)^(1/n)."""
    few = tv.audit(tv.TaskRegressor("mean"), table(), trials=20, seed=1)
    assert few.power == 0.0 and "can refute claims up to epsilon 0" in str(few)
    kept = 5e-7 ** (1 / 260)
    assert power(400, 0.35, 0.0) == pytest.approx(np.log(kept / (1 - kept)))


def test_levels_that_another_rows_text_reads_anew_are_refuted(tmp_path, monkeypatch):
    """'01' is the level '01' in a column with a word, and the number 1 without it."""
    X, y, ids = table()
    codes, path = np.resize(["01", "02", "03"], len(ids)), tmp_path / "table.csv"
    frame_of(X, y, ids).assign(code=codes).to_csv(path, index=False)
    bounds = {**BOUNDS, "levels": {"code": ["01", "02", "03"]}}
    est, read = by_records(bounds=bounds), {"task": "site", "target": "y", "bounds": bounds}
    sound = tv.audit(est, path, trials=40, seed=1, **read)
    assert sound.leaks == [] and sound.verdict == "consistent"
    real, guessed = load.read_table, {"id_columns": ["site"], "text_columns": ["code"]}
    monkeypatch.setattr(load, "read_table", lambda path, **how: real(path, **{**how, **guessed}))
    broken = tv.audit(est, path, trials=40, seed=1, **read)
    assert broken.refuted and any("several encoded rows differ" in leak for leak in broken.leaks)
