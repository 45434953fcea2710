"""Error by size and group, and what clipping took: figures against plain arithmetic, and who gets to see them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import taskveil as tv
from taskveil.cli.main import run as main
from taskveil.errors import DataError
from taskveil.privacy.contributions import VectorSum
from taskveil.report import report_folder
from taskveil.report.audience import Audience
from taskveil.report.by_size import bands_by_group, bands_by_size, median_with_interval, sizes
from taskveil.report.records import Run
from taskveil.report.words import CLIPPING_NOT_MEASURED, clipping_words
from taskveil.report.write import write_report
from taskveil.runtime.round import ClippedShare

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def figures(n: int) -> dict:
    return {
        f"t{i}": {"error_alone": 2.0, "error_shared": 1.0 + i, "kept": "shared", "rows": 3 + i, "clipped": i / 10}
        for i in range(n)
    }


def test_bands_hold_every_task_once_with_the_medians_of_its_own():
    bands = bands_by_size(figures(9))
    assert sum(b.tasks for b in bands) == 9 and len(bands) == 4
    assert (bands[0].name, bands[0].tasks, bands[0].shared, bands[0].clipped) == ("3 to 5 rows", 3, 2.0, pytest.approx(0.1))


def test_groups_are_the_declared_ones_and_the_rest():
    north, rest = bands_by_group(figures(4), {"t0": "A", "t1": "A"})[0], bands_by_group(figures(4), {"t0": "A", "t1": "A"})[1]
    assert (north.name, north.tasks, north.shared) == ("A", 2, 1.5) and (rest.name, rest.tasks) == ("no group", 2)


def test_the_interval_of_a_median_covers_it_as_often_as_it_says():
    """2,000 samples of 25; the interval misses in at most 5 % plus six deviations (null: exactly 5 %; alarm below 1e-6)."""
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(2000):
        low, high = median_with_interval(rng.normal(size=25)).split("interval ")[1].split(" to ")
        missed += not float(low) <= 0.0 <= float(high)
    assert missed / 2000 <= 0.05 + 6 * np.sqrt(0.05 * 0.95 / 2000)
    assert "too few" in median_with_interval([1.0, 2.0])


def test_the_share_that_clipping_takes_is_what_is_missing_of_the_length():
    what, kept = VectorSum((2,), 1.0), ClippedShare(3)
    for raw in (np.array([[4.0, 0.0], [0.5, 0.0], [0.0, 0.0]]), np.array([[2.0, 0.0], [1.0, 0.0], [0.0, 0.0]])):
        kept.note(raw, what.clip(raw), None)
    assert kept.shares().tolist() == pytest.approx([(0.75 + 0.5) / 2, 0.0, 0.0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tasks of 3 to 12 rows; one differs so much that its messages are cut."""
    place = tmp_path_factory.mktemp("sizes") / "model"
    rng = np.random.default_rng(0)
    sizes = 3 + np.arange(20) % 10
    task = np.repeat([f"site-{i:02d}" for i in range(20)], sizes)
    X = rng.normal(size=(len(task), 3))
    y = X[:, 0] * np.where(task == "site-07", 50.0, 1.0)
    method = tv.methods.get("mean", strength=0.1, rounds=2, clip=0.5)
    est = tv.TaskRegressor(method, epsilon=3.0, delta=1e-5, scaling="none").fit(X, y, task=task)
    est.save(place)
    write_report(est, place)
    return place, est


def test_the_task_that_differs_most_is_told_how_much_less_it_counts(folder):
    place, est = folder
    gain = est.gain_.to_dict()
    assert gain["site-07"]["clipped"] == max(t["clipped"] for t in gain.values()) > 0.5
    page = report_folder(place, Audience("owner", "site-07")).read_text()
    assert f"Clipping cut {100 * gain['site-07']['clipped']:.2g} %" in page


def test_figures_by_size_are_on_the_full_page_and_on_no_other(folder, tmp_path):
    place, _ = folder
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"site-00": "A<b>", "site-01": "A<b>"}))
    full = report_folder(place, Audience(), groups).read_text()
    assert "Error by size of task" in full and "Error by group" in full and "A<b>" not in full and "A&lt;b&gt;" in full
    for audience in (Audience("public"), Audience("owner", "site-03")):
        text = report_folder(place, audience).read_text()
        assert "Error by size" not in text and "site-07" not in text
    assert "Clipping cut" not in report_folder(place, Audience("public")).read_text()


def test_a_group_of_a_task_that_is_not_there_is_refused(folder, tmp_path):
    groups = tmp_path / "groups.toml"
    groups.write_text('nobody = "A"')
    with pytest.raises(DataError, match="no task of this run"):
        report_folder(folder[0], Audience(), groups)


def test_the_check_list_has_figures_only_where_somebody_asked_for_them(folder, capsys):
    place, _ = folder
    texts = []
    for more in ([], ["--with-figures"]):
        with pytest.raises(SystemExit):
            main(["certify", str(place), "--export", "nist", *more])
        texts.append(capsys.readouterr().out)
    plain, full = (json.loads(t.split("```json\n")[1].rsplit("\n```", 1)[0])["items"] for t in texts)
    assert [i["status"] for i in plain[7:9]] == ["not answered"] * 2 and "median error" not in texts[0]
    assert [i["status"] for i in full[7:10]] == ["answered"] * 3 and "Not to pass on" in texts[1]
    assert "95 % interval" in full[7]["answer"][0] and "rows" in full[8]["answer"][0]
    assert "of a message's length was cut off" in full[9]["answer"][1]
    assert "site-07" not in texts[1]


def test_where_clipping_was_not_measured_every_page_says_so():
    """As in a federation, whose sites keep no such figure."""
    bare = {name: {k: v for k, v in mine.items() if k != "clipped"} for name, mine in figures(9).items()}
    assert clipping_words(bare["t1"]) == [CLIPPING_NOT_MEASURED] != clipping_words(figures(9)["t1"])
    for gain, said in ((bare, True), (figures(9), False)):
        assert (CLIPPING_NOT_MEASURED in sizes(Run(gain=gain))[0].summary) == said
