"""What was saved is found good by the check that finds every edit: all methods, a search, a federation's results, the books."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import taskveil as tv
from taskveil import methods
from taskveil.estimators.check_folder import check_folder
from taskveil.estimators.search import TaskSearch
from taskveil.methods.base import Billboard
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.randomness import system_noise
from taskveil.privacy.seal import SALT, SEAL, seal_of
from taskveil.runtime.federation.config import load_federation
from taskveil.runtime.federation.server.training import write_results
from taskveil.runtime.round import Position

OBSERVERS = ("other-tasks", "server", "public")
RUNS = {
    **{name: {"method": name} for name in ("subspace", "local", "pooled", "dp-aggr")},
    "several rounds": {"method": methods.get("low-rank", rounds=3)},
    "records": {"method": methods.get("mean", rounds=2), "unit": "record"},
    "records, published": {"method": methods.get("async", rounds=1, refine=False), "unit": "record", "observer": "public"},
    "secure sum": {"method": "mean", "aggregation": "secure", "observer": "server"},
    "null neighbours": {"neighbours": "add-remove", "aggregation": "local"},
}


@pytest.fixture(scope="module")
def data():
    return tv.get_synthetic("tiny").train


@pytest.mark.parametrize("case", RUNS)
def test_an_untouched_run_follows_from_its_record_and_stands_in_the_books(case, data, tmp_path):
    url = f"sqlite:///{tmp_path / 'l.db'}"
    unit, neighbours = RUNS[case].get("unit", "task"), RUNS[case].get("neighbours", "replace-one")
    for observer in OBSERVERS:
        Book(url).set_limit(Key("h", unit, neighbours, observer), 2.0, 1e-5)
    run = tv.TaskRegressor(epsilon=1.0, ledger=url, account="h", **RUNS[case]).fit(data)
    run.save(tmp_path / "m")
    assert check_folder(tmp_path / "m", url).problems == ()
    stated = {s.observer for s in run.certificate_.statements if run.record_.executed}
    charged = {o for o in OBSERVERS if Book(url).spent(Key("h", unit, neighbours, o))[0] > 0}
    assert charged == stated, "whoever the certificate names is charged, and nobody else"


def test_a_search_is_saved_with_the_plan_it_was_certified_for(data, tmp_path):
    url = f"sqlite:///{tmp_path / 'l.db'}"
    Book(url).set_limit(Key("h"), 2.0, 1e-5)
    base = tv.TaskRegressor("mean", epsilon=1.0, delta=1e-5, ledger=url, account="h")
    search = TaskSearch(base, {"method__rounds": [1, 2]}).fit(data)
    search.best_estimator_.save(tmp_path / "m")
    assert check_folder(tmp_path / "m", url).problems == ()
    about = json.loads((tmp_path / "m" / "model.json").read_text())
    about["search"] = None
    (tmp_path / "m" / "model.json").write_text(json.dumps(about))
    assert len(check_folder(tmp_path / "m").problems) > 1


FEDERATION = """
[data]
kind = "regression"
features = ["a", "b"]
[run]
epsilon = 1.0
aggregation = "local"
[[sites]]
name = "north"
[[sites]]
name = "south"
"""


@pytest.fixture
def results(tmp_path):
    """What a server writes at the end of a run."""
    (tmp_path / "federation.toml").write_text(FEDERATION)
    federation = load_federation(tmp_path / "federation.toml")
    plan = federation.plan()
    done = Position({}, [Billboard(1, {"U": np.eye(2)})], list(plan.releases), [None], [1, 1])
    write_results(tmp_path / "results", federation, plan, done, system_noise(), SimpleNamespace(refusals=[]))
    return tmp_path / "results"


def test_the_results_of_a_federation_follow_from_its_public_file(results):
    assert check_folder(results).problems == ()


def edited(results, name, edit):
    path = results / name
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


EDITS = {
    "observer": lambda r: edited(r, "certificate.json", lambda d: d["statements"][0].update(observer="public")),
    "assumptions": lambda r: edited(r, "certificate.json", lambda d: d.update(assumptions=[])),
    "a release less": lambda r: edited(r, "run.json", lambda d: d["executed"].pop()),
    "refusals": lambda r: edited(r, "run.json", lambda d: d.update(refusals=["north"])),
    "billboard": lambda r: np.savez(r / "billboard.npz", U=np.zeros((2, 2))),
    "federation": lambda r: (r.parent / "federation.toml").write_text(FEDERATION.replace("1.0", "3.0")),
    "no federation": lambda r: (r.parent / "federation.toml").unlink(),
}


@pytest.mark.parametrize("case", EDITS)
def test_edited_results_of_a_federation_are_found(results, case):
    EDITS[case](results)
    assert check_folder(results).problems


def test_the_seal_on_a_certificate_does_not_confirm_a_guess_at_the_rows(data, tmp_path):
    """Billboards are public and models follow from them and from rows, so whoever guesses the rows can make all three files."""
    folder = tv.TaskRegressor("mean").fit(data).save(tmp_path)
    shown, about = (json.loads((folder / name).read_text()) for name in ("certificate.json", "model.json"))
    with np.load(folder / "arrays.npz") as stored:
        arrays = dict(stored)
    guess = {k: v for k, v in about.items() if k != SALT}
    assert seal_of(shown, about, arrays) == shown[SEAL]
    assert seal_of(shown, guess, arrays) != shown[SEAL]
    assert seal_of(shown, {**about, SALT: "00" * 32}, arrays) != shown[SEAL] and len(about[SALT]) == 64
    again = json.loads((tv.load(folder).save(tmp_path / "again") / "model.json").read_text())
    assert again[SALT] != about[SALT] and not check_folder(tmp_path / "again").problems
