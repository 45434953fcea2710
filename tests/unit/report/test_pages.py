"""Pages: the verdict comes first, nothing comes from outside, and a reader sees only what is theirs."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest

import taskveil as tv
from taskveil.audits.configuration import configuration
from taskveil.errors import DataError, OptionError, UnknownName
from taskveil.report import page as page_module
from taskveil.report import report_folder, write_comparison, write_report
from taskveil.report.audience import Audience
from taskveil.report.page import embedded

SECRET = 731846.25  # planted in the rows of one task; no other number on a page begins like it
# Numbers that begin like it; fewer digits, or digits anywhere, would be met by chance in the noise of a billboard.
DIGITS = re.compile(r"(?<![\d.])(?:731[,.]?846|7\.318\d*e\+?0?5|7\.31846|0\.731846)")


@pytest.fixture(autouse=True)
def without_plotly(monkeypatch):
    """The bundle is 5 MB of somebody else's digits; what is searched here is what we wrote."""
    monkeypatch.setattr(page_module, "plotly_script", lambda: "/* plotly */")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Forty tasks; 'victim' has the secret in its target and as every value of one column."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((800, 5)), np.repeat([f"site-{i:02d}" for i in range(39)] + ["victim"], 20)
    y = X @ np.array([1.0, -1.0, 0.5, 0.0, 2.0]) + rng.standard_normal(800)
    X[task == "victim", 2] = SECRET
    y[task == "victim"] += SECRET
    estimator = tv.TaskRegressor(epsilon=2.0).fit(X, y, task=task)
    folder = tmp_path_factory.mktemp("fit")
    estimator.save(folder)
    page_module_plotly = page_module.plotly_script
    page_module.plotly_script = lambda: "/* plotly */"
    write_report(estimator, folder)
    page_module.plotly_script = page_module_plotly
    return estimator, folder


def figures(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.S)[1])


def visible(text: str) -> str:
    """Everything but style and script: what we say about the run, charts included."""
    return re.sub(r"<style>.*?</style>|<script>.*?</script>", "", text, flags=re.S)


def test_the_verdict_and_the_banner_come_before_everything_else(fitted):
    text = visible((fitted[1] / "report.html").read_text())
    places = [
        text.index(part)
        for part in ("For someone entitled to all rows", "tasks gain", "at most epsilon 2", "<figure", "Certificate")
    ]
    assert places == sorted(places)


def test_the_page_refers_to_nothing_outside(fitted):
    text = (fitted[1] / "report.html").read_text()
    assert not re.search(r"(src|href)=[\"'](?!#|data:)", text)
    assert "default-src 'none'" in text


def test_every_chart_has_a_label_and_a_table(fitted):
    text = (fitted[1] / "report.html").read_text()
    names = figures(text)
    assert set(names) >= {"gain", "budget", "noise"}
    assert text.count('role="img" aria-label="') == len(names) == text.count("The figures as a table")


def test_pages_of_other_owners_and_of_the_public_hold_nothing_of_the_victim(fitted):
    """The search finds the secret on the victim's own page and the victim's gain on the full one, so it can find things."""
    estimator, folder = fitted
    theirs = report_folder(folder, Audience("owner", "site-03")).read_text()
    public = report_folder(folder, Audience("public")).read_text()
    own = report_folder(folder, Audience("owner", "victim")).read_text()
    for text in (theirs, public):
        assert not DIGITS.search(visible(text))
        assert "victim" not in text
    assert "victim" in own
    at = estimator.task_names_.index("victim")  # its constant column and its intercept share the secret
    assert estimator.intercept_[at] + estimator.coef_[at, 2] * SECRET == pytest.approx(SECRET, rel=1e-3)


def test_no_figure_of_another_task_is_on_an_owner_or_public_page(fitted):
    """Every other task's errors, as the full page writes them, are searched for; the full page has them all."""
    estimator, folder = fitted
    full = (folder / "report.html").read_text()
    theirs = report_folder(folder, Audience("owner", "site-03")).read_text()
    public = report_folder(folder, Audience("public")).read_text()
    for name, task in estimator.gain_.to_dict().items():
        cells = f"<td>{task['typical_error_alone']:.4g}</td><td>{task['typical_error_shared']:.4g}</td>"
        assert cells in full
        assert (cells in theirs) == (name == "site-03")
        assert cells not in public
        assert json.dumps(task["error_shared"]) not in public


def test_counts_over_tasks_timings_and_warnings_are_only_on_the_full_page(fitted):
    estimator, folder = fitted
    full = visible((folder / "report.html").read_text())
    assert "tasks gain" in full and "training time" in full and "are constant" in full
    for audience in (Audience("owner", "site-03"), Audience("public")):
        text = visible(report_folder(folder, audience).read_text())
        assert "tasks gain" not in text and "training time" not in text and "are constant" not in text


@pytest.mark.parametrize("options", [{"epsilon": None}, {"epsilon": 50.0, "insecure_noise_seed": 3}])
def test_a_billboard_no_statement_covers_is_withheld(tmp_path, options):
    data = tv.get_synthetic("hospitals", n_tasks=30).train
    estimator = tv.TaskRegressor(method="mean", **options).fit(data)
    estimator.save(tmp_path)
    assert "board-mean" in figures(write_report(estimator, tmp_path).read_text())
    text = report_folder(tmp_path, Audience("public")).read_text()
    assert not [name for name in figures(text) if name.startswith("board-")]
    assert "The billboard is not shown here" in text


def test_a_comparison_has_no_page_for_the_public(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps(comparison()))
    assert "curves" in figures(report_folder(tmp_path).read_text())
    with pytest.raises(OptionError, match="entitled to all rows"):
        report_folder(tmp_path, Audience("public"))


def test_curves_carry_spread_and_levels(tmp_path):
    chart = figures(write_comparison(comparison(), tmp_path).read_text())["curves"]
    assert chart["data"][0]["error_y"]["array"] == [0.02, 0.01]
    assert [line["name"] for line in chart["layout"]["shapes"]] == ["each task alone"]


def test_an_audit_of_this_configuration_stands_beside_the_claim_and_says_which(fitted, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(fitted[1], folder)
    about = configuration(tv.load(folder))
    audit = {"target": "subspace", "lower_bound": 0.7, "claimed_epsilon": 2.0, "verdict": "consistent", "configuration": about}
    (folder / "audit.json").write_text(json.dumps(audit))
    page = report_folder(folder).read_text()
    assert [trace["x"] for trace in figures(page)["audit"]["data"]] == [[0.7], [2.0]]
    assert about["digest"][:8] in page


def test_an_audit_of_something_else_is_refused_by_the_page(fitted, tmp_path):
    """A mechanism at epsilon 1 says nothing about a run at epsilon 2; nor does the same method with other ranges or releases."""
    folder = tmp_path / "run"
    shutil.copytree(fitted[1], folder)
    about = configuration(tv.load(folder))
    audit = {"target": "gaussian", "lower_bound": 0.7, "claimed_epsilon": 1.0, "verdict": "consistent"}
    others = [{"epsilon": 1.0}, {"bounds": {"features": {"*": [0, 1]}}}, {"scaling": "none"}, {"claims": "0" * 32}]
    for wrong in [audit, *({**audit, "configuration": {**about, **change}} for change in others)]:
        (folder / "audit.json").write_text(json.dumps(wrong))
        with pytest.raises(DataError, match="audit of something else"):
            report_folder(folder)


def test_names_from_the_data_cannot_become_markup(tmp_path):
    rng = np.random.default_rng(1)
    hostile = "</script><img src=x onerror=alert(1)>"
    task = np.repeat([f"a{i}" for i in range(9)] + [hostile], 12)
    X = rng.standard_normal((120, 3))
    estimator = tv.TaskRegressor(epsilon=1.0).fit(X, X[:, 0], task=task)
    estimator.save(tmp_path)
    text = write_report(estimator, tmp_path).read_text()
    assert "<img" not in text
    assert hostile in json.dumps(figures(text))
    assert "<img" not in report_folder(tmp_path, Audience("owner", hostile)).read_text()


def test_a_billboard_of_zeros_is_said_in_words(tmp_path):
    """Thirty hospitals at epsilon 0.01: the server finds nothing above the noise and publishes zeros."""
    estimator = tv.TaskRegressor(method="mean", epsilon=0.01).fit(tv.get_synthetic("hospitals", n_tasks=30).train)
    estimator.save(tmp_path)
    assert "No signal was stronger than the noise" in write_report(estimator, tmp_path).read_text()


def test_what_is_not_finite_becomes_a_gap():
    assert json.loads(embedded({"y": [1.0, float("nan"), float("inf")]})) == {"y": [1.0, None, None]}


def test_an_unknown_owner_is_refused_without_listing_names(fitted):
    with pytest.raises(UnknownName) as refused:
        report_folder(fitted[1], Audience("owner", "nobody"))
    assert "site-" not in str(refused.value)
    with pytest.raises(UnknownName, match="did you mean 'site-07'"):
        report_folder(fitted[1], Audience("owner", "Site-07"))


def comparison() -> dict:
    said = {"unit": "task", "neighbours": "replace-one", "observer": "other-tasks", "epsilon": 1.0, "delta": 1e-5, "holds": True}
    rows = [
        {"method": "local", "epsilon": None, "mean": 0.8, "std": 0.03, "statements": []},
        {"method": "mean", "epsilon": 0.5, "mean": 0.7, "std": 0.02, "statements": [said]},
        {"method": "mean", "epsilon": 2.0, "mean": 0.6, "std": 0.01, "statements": [said]},
    ]
    rows = [{"variant": "sound", "seconds": 0.1, **r} for r in rows]
    return {
        "metric": "nmse",
        "data": {"tasks": 3, "name": "made up"},
        "results": rows,
        "repeats": 2,
        "seed": 0,
        "note": "not private",
    }
