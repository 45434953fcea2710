"""Sites prepare their rows by the same step, and with the same refusals, as a run in one process."""

import numpy as np
import pandas as pd
import pytest

from taskveil.errors import DataError, OptionError
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime.federation.config import load_federation, load_site
from taskveil.runtime.federation.server.training import make_driver
from taskveil.runtime.federation.site.decisions import answer_for, own_tasks, prepare
from taskveil.tasks.prepare.step import prepare_tasks

TARGET = "target = [-3, 3]\n"


def federation(folder, bounds="", run='method = "mean"\nepsilon = 1.0\nunit = "record"', kind='kind = "regression"'):
    rows = "rows = [8]" if "record" in run else ""
    declared = f'[data.bounds]\nfeatures = {{ "*" = [-1, 1] }}\n{bounds}\n' if bounds is not None else ""
    (folder / "federation.toml").write_text(
        '[federation]\nname = "trial"\nhost = "127.0.0.1"\nport = 9000\n\n[data]\n'
        f'{kind}\nfeatures = ["a", "b"]\ntarget = "y"\n{declared}\n[run]\n{run}\n\n'
        + "".join(f'[[sites]]\nname = "{s}"\ntasks = ["{s}"]\nkey = "keys/{s}.pub"\n{rows}\n' for s in ("north", "south"))
    )
    return load_federation(folder / "federation.toml")


def site_file(folder):
    (folder / "site.toml").write_text(
        '[site]\nname = "north"\nfederation = "federation.toml"\nserver = "127.0.0.1:9000"\nauthority = "ca.crt"\nkey = "k"\n'
        'state = "state"\n[data]\ntask = "task"\n'
    )
    return load_site(folder / "site.toml")


def test_a_federation_for_records_needs_the_target_s_range_before_anything_is_planned(tmp_path):
    with pytest.raises(OptionError, match="Declare the target's range"):
        federation(tmp_path).plan()
    assert federation(tmp_path, TARGET).plan().releases
    assert federation(tmp_path, None).plan().releases, "rows as they come need no range"


def test_a_task_of_a_site_with_an_unusable_value_falls_silent_and_the_others_answer(tmp_path):
    """A site that refused would answer with a fact about one task's rows."""
    made = federation(tmp_path, None, 'method = "mean"\nepsilon = 1.0')
    rows = pd.DataFrame({"a": [1e300, *np.arange(7.0)], "b": np.arange(8.0), "y": np.arange(8.0) + 0.5, "task": "north"})
    site = site_file(tmp_path)
    other = rows.assign(task="unused", a=0.0)
    tasks = own_tasks(made, site, pd.concat([rows, other]))
    assert tasks.set_aside == ("north",)
    assert prepare_tasks(tasks, made.preparation()).own.block.n_rows == 0


def test_a_label_that_the_federation_did_not_declare_never_becomes_another_one(tmp_path):
    """Without declared ranges 'unsure' was silently taken for 'no', or stood beyond the last class."""
    made = federation(tmp_path, None, 'method = "mean"\nepsilon = 1.0', 'kind = "classification"\nclasses = ["no", "yes"]')
    rows = pd.DataFrame({"a": np.arange(8.0), "b": 1.0, "y": ["no", "yes"] * 4, "task": "north"})
    assert own_tasks(made, site_file(tmp_path), rows).classes.tolist() == ["no", "yes"]
    with pytest.raises(DataError, match="outside the declared classes"):
        own_tasks(made, site_file(tmp_path), rows.assign(y=["no", "yes", "unsure", "yes"] * 2))


# ------------------------------------------------------------------------------------------- columns that are no numbers

WARDS = ("east wing", "surgery", "children")
EFFECT = {"east wing": -1.0, "surgery": 0.5, "children": 2.0}


class Direct:
    """Carries questions to sites given as functions, and their answers back at once."""

    def __init__(self, answers) -> None:
        self.answers, self.box = answers, []

    def send(self, site, data) -> None:
        self.box.append((site, self.answers[site](data)))

    def receive(self, seconds):
        box, self.box = self.box, []
        return box


def wards(seed, task):
    rng = np.random.default_rng(seed)
    ward, sex = rng.choice(WARDS, 60), rng.choice(["f", "m"], 60)
    y = np.array([EFFECT[w] for w in ward]) + np.where(sex == "f", 0.5, -0.5)
    return pd.DataFrame({"age": rng.uniform(-1, 1, 60), "ward": ward, "sex": sex, "y": y, "task": task})


def hospital(folder, text='text = ["ward"]'):
    """A federation of two sites without noise, with a text column and one that has declared levels."""
    (folder / "federation.toml").write_text(
        '[federation]\nname = "trial"\nport = 9000\n[data]\nkind = "regression"\nfeatures = ["age", "ward", "sex"]\n'
        f'{text}\ntarget = "y"\n[data.bounds]\nfeatures = {{ age = [-1, 1] }}\ntarget = [-3, 3]\n'
        'levels = { sex = ["f", "m"] }\n'
        '[run]\nmethod = "mean"\nepsilon = "none"\n[[sites]]\nname = "north"\n[[sites]]\nname = "south"\n'
    )
    for name in ("north", "south"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "site.toml").write_text(
            f'[site]\nname = "{name}"\nfederation = "../federation.toml"\nserver = "127.0.0.1:9000"\nauthority = "ca.crt"\n'
            'key = "k"\n[data]\ntask = "task"\n'
        )
    return load_federation(folder / "federation.toml")


def test_sites_learn_together_from_columns_of_text_and_of_declared_levels(tmp_path, monkeypatch):
    """Sizes counted the columns of the table, not what they become: every site's step failed, and zeros were sent instead."""
    made, notes = hospital(tmp_path), tmp_path / "errors.log"
    monkeypatch.setenv("TASKVEIL_SITE_LOG", str(notes))
    assert made.public().n_features == 1 + 16 + 2
    paths = [str(tmp_path / name / "site.toml") for name in ("north", "south")]
    for seed, (path, name) in enumerate(zip(paths, ("north", "south"))):
        prepare(path, wards(seed, name))
    driver = make_driver(made, made.plan(), insecure_seeded_noise(0), Direct([answer_for(path) for path in paths]), None)
    driver.run()
    assert driver.refusals == [] and not notes.exists()
    rows = own_tasks(made, load_site(paths[0]), wards(7, "north"))
    with np.load(tmp_path / "north" / "state" / "models.npz") as models:
        predicted = rows.X @ models["coef"][0, 0] + models["intercept"][0, 0]
    assert np.mean((predicted - rows.y) ** 2) < 0.02 * np.var(rows.y)


def test_text_that_the_federation_did_not_declare_is_refused_at_the_site_before_anything_is_reserved(tmp_path):
    made = hospital(tmp_path, text="")
    with pytest.raises(DataError, match="column 'ward' holds text.*List it under text"):
        prepare(tmp_path / "north" / "site.toml", wards(0, "north"))
    assert made.public().n_features == 1 + 1 + 2
    assert not (tmp_path / "north" / "state" / "run.json").exists()


def test_a_text_column_that_looks_like_numbers_at_one_site_is_hashed_there_too(tmp_path):
    made = hospital(tmp_path)
    rows = wards(0, "north").assign(ward=7)
    assert own_tasks(made, load_site(tmp_path / "north" / "site.toml"), rows).feature_names == made.columns


@pytest.mark.parametrize("text", ['text = ["height"]', 'text = ["sex"]', 'text = ["age"]', 'text = ["ward", "ward"]', "text = 3"])
def test_a_text_column_is_one_of_the_features_without_range_or_levels(tmp_path, text):
    with pytest.raises(DataError, match="text must"):
        hospital(tmp_path, text)
