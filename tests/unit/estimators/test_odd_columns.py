"""Columns as pandas hands them over: its own kinds of gaps, durations and dates, text where numbers belong."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import DataError

N = 60
RNG = np.random.default_rng(0)
SITE = np.repeat(["a", "b", "c"], N // 3)
X = RNG.normal(size=(N, 2))
Y = RNG.normal(size=N)
TIME, SEEN = RNG.exponential(10.0, N), RNG.random(N) < 0.6
GAP = np.arange(N) % 7 == 0
DURATION = pd.to_timedelta(TIME, unit="D")


def numbers() -> dict[str, np.ndarray]:
    return {"Int64": np.arange(N) % 11, "boolean": np.arange(N) % 2 == 1, "Float64": Y}


@pytest.mark.parametrize("kinds", [["Int64"], ["boolean"], ["Float64"], ["Int64", "boolean", "Float64"]])
@pytest.mark.parametrize("missing", ["impute-own", "impute-bounds"])
def test_gaps_of_pandas_are_filled_as_those_of_numpy(kinds, missing):
    plain = pd.DataFrame({k: np.where(GAP, np.nan, numbers()[k].astype(float)) for k in kinds})
    nullable = pd.DataFrame({k: pd.Series(numbers()[k]).mask(GAP).astype(k) for k in kinds})
    bounds = {"features": {k: [-5, 15] for k in kinds}} if missing == "impute-bounds" else None
    fits = [
        tv.TaskRegressor(epsilon=None, missing=missing, bounds=bounds).fit(table, Y, task=SITE) for table in (plain, nullable)
    ]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert np.array_equal(fits[0].predict(plain, task=SITE), fits[1].predict(nullable, task=SITE))


def test_gaps_of_pandas_that_nothing_fills_are_called_so():
    with pytest.raises(DataError, match="missing or infinite values in column 'b'.*missing="):
        tv.TaskRegressor(epsilon=None).fit(pd.DataFrame({"b": pd.array([None, True, False] * 20)}), Y, task=SITE)


COUNTS = RNG.poisson(2.0, N).astype(float)
TABLE = pd.DataFrame(X, columns=["u", "v"]).assign(weeks=RNG.uniform(1.0, 3.0, N))


@pytest.fixture(scope="module")
def counted():
    return tv.TaskRegressor(loss="poisson", exposure="weeks", epsilon=None).fit(TABLE, COUNTS, task=SITE)


def test_where_nothing_is_to_be_explained_the_score_of_counts_is_zero(counted):
    """As R squared of scikit-learn has it for a constant target."""
    assert counted.score(TABLE, np.zeros(N), task=SITE) == 0.0
    assert counted.score(TABLE, np.full(N, 2.0), task=SITE) == 0.0
    assert counted.score(TABLE, COUNTS, task=SITE) != 0.0


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf, "a"])
def test_exposures_that_are_not_above_zero_are_refused_after_fit_too(counted, wrong):
    table = TABLE.assign(weeks=TABLE["weeks"].astype(object).where(np.arange(N) != 3, wrong))
    for call in (lambda: counted.predict(table, task=SITE), lambda: counted.score(table, COUNTS, task=SITE)):
        with pytest.raises(DataError, match="the exposure"):
            call()


def test_negative_counts_are_refused_by_score(counted):
    with pytest.raises(DataError, match="negative numbers"):
        counted.score(TABLE, COUNTS - 3.0, task=SITE)


@pytest.mark.parametrize("kind", ["boolean", "Int64", object, float])
def test_events_with_gaps_are_left_out_as_any_missing_target(kind):
    event = pd.Series(SEEN).astype("boolean").mask(GAP).astype(kind)
    est = tv.TaskSurvival(epsilon=None).fit(X, pd.DataFrame({"event": event, "time": TIME}), task=SITE)
    plain = np.column_stack([np.where(GAP, np.nan, SEEN), TIME])
    assert np.array_equal(est.coef_, tv.TaskSurvival(epsilon=None).fit(X, plain, task=SITE).coef_)


@pytest.mark.parametrize(
    "target",
    [
        pd.DataFrame({"event": SEEN, "time": DURATION}),
        pd.DataFrame({"event": SEEN, "time": pd.Timestamp("2020-01-01") + DURATION}),
        pd.DataFrame({"event": SEEN, "time": pd.Series(list(DURATION), dtype=object)}),
        np.array(list(zip(SEEN, DURATION.to_numpy(), strict=True)), dtype=[("event", bool), ("time", "m8[ns]")]),
    ],
)
def test_durations_are_no_times_until_somebody_says_of_what_length(target):
    with pytest.raises(DataError, match=r"the time must be a number, got dates or durations.*total_seconds"):
        tv.TaskSurvival(epsilon=None).fit(X, target, task=SITE)


def test_durations_as_targets_of_a_table_are_refused_and_never_taken_for_labels():
    table = pd.DataFrame(X, columns=["u", "v"]).assign(site=SITE, days=DURATION, event=SEEN)
    for options in ({}, {"event": "event", "kind": "survival"}):
        with pytest.raises(DataError, match="'days' holds dates or durations"):
            tv.load_tasks(table, task="site", target="days", **options)
    with pytest.raises(DataError, match="the event must be 0 or 1, got dates or durations; write 1 where"):
        tv.load_tasks(table.assign(days=TIME, event=DURATION), task="site", target="days", event="event")


@pytest.mark.parametrize(
    ("weights", "said"),
    [(["a"] * N, "got text"), (pd.Series(["1.5"] * N), "got text"), (DURATION, "got dates or times"), ([None] * N, "got other")],
)
def test_weights_that_are_no_numbers_are_called_what_they_are(weights, said):
    est = tv.TaskRegressor(epsilon=None)
    with pytest.raises(DataError, match=f"sample_weight must be one number per row, {said}"):
        est.fit(X, Y, task=SITE, sample_weight=weights)


def test_scoring_rows_that_all_weigh_nothing_is_refused_as_in_fit():
    est = tv.TaskRegressor(epsilon=None).fit(X, Y, task=SITE)
    with pytest.raises(DataError, match="at least one weight must be above zero"):
        est.score(X, Y, task=SITE, sample_weight=np.zeros(N))
