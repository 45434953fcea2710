"""A public prior: free, recorded, weighed by each task's own rows, and harmless where it is wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.errors import DataError, OptionError
from taskveil.estimators.check_folder import check_folder
from taskveil.estimators.metrics import evaluate
from taskveil.tasks.synthetic import get_synthetic


def nmse(train, test, prior=None, epsilon=0.3, method="subspace", seed=0):
    est = tv.TaskRegressor(method, epsilon=epsilon, delta=1e-5, prior=prior, insecure_noise_seed=seed)
    return float(evaluate(est.fit(train), test, "nmse"))


def few(tasks, names):
    return tasks.take_tasks([tasks.index_of(name) for name in names])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of all hospitals but fifteen, and those fifteen."""
    data = get_synthetic("hospitals", 1)
    mine, others = data.train.task_names[:15], data.train.task_names[15:]
    est = tv.TaskRegressor("subspace", epsilon=3.0, delta=1e-3, insecure_noise_seed=0).fit(few(data.train, others))
    path = tmp_path_factory.mktemp("prior") / "model"
    est.save(path)
    return path, few(data.train, mine), few(data.test, mine)


@pytest.mark.parametrize("method", ["subspace", "mean", "low-rank"])
def test_fifteen_tasks_gain_by_what_others_published(folder, method):
    """At epsilon 0.3 fifteen tasks find nothing by themselves: half of the gap to learning without noise and more."""
    path, train, test = folder
    alone, best = nmse(train, test, method="local"), min(nmse(train, test, path, None), nmse(train, test, None, None))
    assert nmse(train, test, method=method) == pytest.approx(alone, rel=0.01)
    assert (alone - nmse(train, test, path, method=method)) / (alone - best) > 0.5


@pytest.mark.parametrize("relation", ["related", "unrelated", "noise"])
def test_a_wrong_prior_hurts_nobody_by_more_than_two_percent(relation):
    """180 tasks of six rows and fourteen features, priors of two lengths in a random direction, four draws."""
    ratios = []
    for seed in range(2):
        data = get_synthetic("tiny", seed, relation=relation)
        w = np.random.default_rng(seed).standard_normal(14)
        for length in (0.3, 3.0):
            wrong = {"coef": (length * w / np.linalg.norm(w)).tolist(), "origin": "a textbook about something else"}
            ratios.append(nmse(data.train, data.test, wrong, seed=seed) / nmse(data.train, data.test, seed=seed))
    assert np.mean(ratios) <= 1.02


def test_a_prior_believed_without_doubt_would_hurt(monkeypatch):
    """The twin: full weight, as for what a release has shown."""
    monkeypatch.setattr("taskveil.methods.shared_prior.STATED", 0.0)
    with pytest.raises(AssertionError):
        test_a_wrong_prior_hurts_nobody_by_more_than_two_percent("unrelated")


def test_the_charge_and_every_release_are_the_same_with_any_prior():
    tasks = related_tasks(n_tasks=8, rows=(8, 8), n_features=3)
    options = {"epsilon": 1.0, "insecure_noise_seed": 2}
    plain = tv.TaskRegressor(**options).fit(tasks)
    given = tv.TaskRegressor(**options, prior={"coef": [1.0, 0.0, -1.0], "origin": "a textbook"}).fit(tasks)
    assert given.certificate_.events == plain.certificate_.events
    assert given.certificate_.statements == plain.certificate_.statements
    for one, other in zip(plain.record_.billboards, given.record_.billboards, strict=True):
        assert all(np.array_equal(one.values[n], other.values[n]) for n in one.values)
    assert not np.array_equal(plain.coef_, given.coef_)


def test_the_certificate_says_where_a_prior_came_from_and_survives_the_folder(folder, tmp_path):
    path, train, _ = folder
    stated = tv.TaskRegressor(prior={"coef": {train.feature_names[1]: 0.3}, "origin": "Smith 1999, table 2"}).fit(train)
    assert any("Smith 1999, table 2" in a and "as its owner states" in a for a in stated.certificate_.assumptions)
    est = tv.TaskRegressor(prior=path).fit(train)
    assert any(a.startswith("conditional on the prior (last billboard") for a in est.certificate_.assumptions)
    est.save(tmp_path / "m")
    assert not check_folder(tmp_path / "m").problems
    again = tv.load(tmp_path / "m")
    assert again.record_.public.prior == est.record_.public.prior and len(est.record_.public.prior.sha256) == 64
    changed = json.loads((tmp_path / "m/model.json").read_text())
    changed["public"]["prior"]["origin"] = "public data"
    changed["public"]["prior"]["conditional"] = False
    (tmp_path / "m/model.json").write_text(json.dumps(changed))
    assert check_folder(tmp_path / "m").problems


def test_of_a_model_folder_only_the_billboard_is_read(folder, tmp_path):
    """The same prior from a folder whose models are gone."""
    path, train, _ = folder
    (tmp_path / "model.json").write_bytes((path / "model.json").read_bytes())
    with np.load(path / "arrays.npz") as stored:
        np.savez(tmp_path / "arrays.npz", **{n: stored[n] for n in stored.files if n.startswith("billboard/")})
    one, other = (tv.TaskRegressor(prior=p).fit(train).record_.public.prior for p in (path, tmp_path))
    assert one == other


def test_a_file_of_coefficients_is_a_prior(tmp_path):
    tasks = related_tasks(n_tasks=8, rows=(8, 8), n_features=3)
    (tmp_path / "p.json").write_text('{"coef": [0.1, 0.2, 0.3], "origin": "a survey"}')
    np.savez(tmp_path / "p.npz", coef=np.array([0.1, 0.2, 0.3]), origin=np.array("a survey"))
    read = [tv.TaskRegressor(prior=tmp_path / n).fit(tasks).record_.public.prior for n in ("p.json", "p.npz")]
    assert read[0].mean == read[1].mean == ((0.1, 0.2, 0.3),) and read[0].origin == read[1].origin == "a survey"


@pytest.mark.parametrize(
    "prior",
    [{"coef": [1.0, 2.0, 3.0]}, {"coef": [1.0], "origin": "x"}, {"coef": [1.0, np.nan, 1.0], "origin": "x"},
     {"coef": {"nobody": 1.0}, "origin": "x"}, {"coef": [1e9, 0.0, 0.0], "origin": "x"}, {"origin": "x"}, 7, "nowhere.json"],
    ids=str,
)  # fmt: skip
def test_what_is_no_prior_is_refused(prior):
    with pytest.raises((DataError, OptionError)):
        tv.TaskRegressor(prior=prior).fit(related_tasks(n_tasks=4, rows=(8, 8), n_features=3))


def test_a_model_of_something_else_and_a_method_without_priors_are_refused(folder):
    path, train, _ = folder
    with pytest.raises(OptionError, match="other features"):
        tv.TaskRegressor(prior=path).fit(related_tasks(n_tasks=4, rows=(8, 8), n_features=3))
    with pytest.raises(OptionError, match="other scaling"):
        tv.TaskRegressor(prior=path, scaling="none").fit(train)
    with pytest.raises(OptionError, match="weighs no prior"):
        tv.TaskRegressor("pooled", prior=path).fit(train)
