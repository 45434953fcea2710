"""Pages about models in partitions: counts for whoever is entitled to all rows, an owner's page from its partition alone."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from tests.support.partitions import cluster, table, written
from tests.support.require import require

import taskveil as tv
from taskveil.estimators.summary import change, gain_verdict
from taskveil.report import report_folder, write_report
from taskveil.report.audience import Audience

COLUMNS = {"task": "task", "target": "y"}
OPTIONS = {"epsilon": 8.0, "delta": 1e-3, "insecure_noise_seed": 3}
OWNER = "site-20"  # in the last of three partitions


@pytest.fixture(scope="module")
def here():
    return tv.TaskRegressor("subspace", **OPTIONS).fit(tv.load_tasks(table(), **COLUMNS))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder as `fit --engine dask -o` leaves it, and what it says in words."""
    require("dask")
    place = tmp_path_factory.mktemp("run")
    lazy = tv.load_tasks(written(table(), place / "table"), **COLUMNS, lazy=True, partitions=3)
    with cluster(processes=False) as client:
        there = tv.TaskRegressor("subspace", runtime="dask", client=client, **OPTIONS).fit(lazy)
        there.save(place / "model")
        write_report(there, place / "model")
        return place / "model", there.summary()


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved[0], tmp_path / "model")


def page(folder, *audience) -> str:
    return report_folder(folder, Audience(*audience)).read_text(encoding="utf-8")


def test_the_summary_counts_what_a_run_in_memory_lists(here, saved):
    figures = here.gain_.to_dict()
    changes = np.asarray([change(t) for t in figures.values()])
    found = json.loads((saved[0] / "gain.json").read_text())["summary"]
    assert found["tasks"] == len(figures) == sum(found["counts"].values())
    assert found["kept"] == sum(t["kept"] == "shared" for t in figures.values()) > 0
    assert found["gaining"] == (changes < 0).sum() and found["median_change"] == pytest.approx(np.median(changes), rel=1e-9)
    assert found["counts"]["as alone"] == (changes == 0).sum()
    assert gain_verdict(figures) in page(saved[0]) and gain_verdict(figures)[1:] in saved[1]


def test_an_owner_s_page_is_made_from_its_partition_alone(here, folder):
    """The other partitions are gone; the twin: without its own there is no page."""
    for k in (0, 1):
        (folder / "parts" / f"part-{k:05d}.parquet").unlink()
        (folder / "parts" / f"gain-{k:05d}.parquet").unlink()
    mine = here.gain_.to_dict()[OWNER]
    shared, alone = mine["typical_error_shared"], mine["typical_error_alone"]
    assert f"estimated error {shared:.3g} with what the others share, {alone:.3g} alone" in page(folder, "owner", OWNER)
    (folder / "parts" / "gain-00002.parquet").unlink()
    assert "no estimate of the gain is stored" in page(folder, "owner", OWNER)
    (folder / "parts" / "part-00002.parquet").unlink()
    with pytest.raises(tv.errors.DataError, match="part-00002"):
        page(folder, "owner", OWNER)


def test_counts_over_tasks_are_for_whoever_is_entitled_to_all_rows(folder):
    title = "What sharing brings the tasks"
    assert title in page(folder)
    for audience in (("owner", OWNER), ("public",)):
        text = page(folder, *audience)
        assert title not in text and " tasks gain" not in text and "site-00" not in text


def test_a_summary_that_was_written_by_hand_is_checked(folder):
    gain = json.loads((folder / "gain.json").read_text())
    gain["summary"]["gaining"] = "many"
    (folder / "gain.json").write_text(json.dumps(gain))
    with pytest.raises(tv.errors.DataError, match="summary"):
        page(folder)
