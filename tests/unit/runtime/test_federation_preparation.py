"""Sites prepare their rows by the same step, and with the same refusals, as a run in one process."""

import numpy as np
import pandas as pd
import pytest

from taskveil.errors import DataError, OptionError
from taskveil.runtime.federation.config import load_federation, load_site
from taskveil.runtime.federation.site import own_tasks
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
