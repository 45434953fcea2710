"""What leaves a fit (searches, newcomers' models, saved folders, pages) says nothing about a task but what was released."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.isolation import same
from tests.support.laws import Setup, task_law
from tests.support.raw_tables import TASKS, raw_table, replace_task

from taskveil import methods
from taskveil.privacy.seal import SEAL
from taskveil.report import page as page_module
from taskveil.report.audience import Audience, cut
from taskveil.report.records import from_estimator, measured_gain

SIZES, SEED, REPLACED = [6, 9, 7, 8], 3, "east"
OTHERS = [i for i, name in enumerate(TASKS) if name != REPLACED]
HOW = ["more rows", "constant", "huge cell"]


def two_runs(setup, how):
    """Fitted with and without the replacement, under the same billboards."""
    table = raw_table(setup.kind, SIZES, SEED)
    one = setup.trace(table)
    two = setup.trace(replace_task(table, setup.kind, REPLACED, how, SEED), one)
    assert one.refusal is None and two.refusal is None
    return one.estimator, two.estimator


@pytest.mark.parametrize("how", HOW)
def test_a_search_treats_every_task_as_if_the_others_did_not_exist(how):
    """Which rows are held out, what is scored and what is kept: bitwise the same, given the noisy scores."""
    setup = Setup("low-rank", search={"method__rounds": [1, 2]})
    table = raw_table("regression", SIZES, SEED)
    found = task_law(setup, table, replace_task(table, "regression", REPLACED, how, SEED), REPLACED)
    assert not found, found[:5]


@pytest.mark.parametrize("name", ["subspace", "low-rank", "async", "svm"])
def test_a_newcomer_gets_the_same_model_whatever_a_task_held(name):
    new = raw_table("regression", [5, 5, 5, 5], 8)[["a", "b", "c"]].to_numpy()[:6]
    models = [est.adapt(new, new @ np.ones(3)) for est in two_runs(Setup(name), "more rows")]
    for attribute in ("coef_", "intercept_"):
        assert same(*(getattr(m, attribute) for m in models))
    assert same(*(m.gain_.error_shared for m in models))


@pytest.mark.parametrize("name", [n for n in methods.names() if n in ("subspace", "dp-mtrl", "local")])
def test_a_saved_folder_holds_the_same_for_all_other_tasks(name, tmp_path):
    saved = []
    for k, est in enumerate(two_runs(Setup(name), "constant")):
        with np.load(est.save(tmp_path / str(k)) / "arrays.npz") as arrays:
            saved.append({key: arrays[key] for key in arrays.files})
    assert saved[0].keys() == saved[1].keys()
    for key, value in [(k, v) for k, v in saved[0].items() if k != SEAL]:  # the seal is of the whole folder, and salted
        own = key.startswith(("model/", "scaling/"))
        assert all(same(value[i], saved[1][key][i]) for i in OTHERS) if own else same(value, saved[1][key]), key


@pytest.mark.parametrize("how", HOW)
def test_pages_for_other_owners_and_the_public_are_the_same_to_the_letter(how, monkeypatch):
    """With noise of the operating system, so that the certificate holds and the billboard is drawn."""
    monkeypatch.setattr(page_module, "plotly_script", lambda: "/* plotly */")
    runs = [from_estimator(est, measured_gain(est)) for est in two_runs(Setup(options={"insecure_noise_seed": None}), how)]
    assert runs[0].holds
    for audience in (Audience("public"), *(Audience("owner", TASKS[i]) for i in OTHERS)):
        pages = [page_module.render(cut(run, audience), audience) for run in runs]
        assert pages[0] == pages[1], audience
    own = Audience("owner", REPLACED)
    assert page_module.render(cut(runs[0], own), own) != page_module.render(cut(runs[1], own), own)
