"""A site answers for the plan it agreed to, from its own files, and for no other."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.support.federation import ROWS, Trial
from tests.support.sites import kind_of

from taskveil.errors import DataError, OptionError
from taskveil.runtime import wire
from taskveil.runtime.federation.config import load_federation
from taskveil.runtime.federation.site.decisions import answer_for, prepare
from taskveil.runtime.federation.site.owner import SPENT, plan_digest
from taskveil.runtime.wire import Packet

RUN = 'method = "subspace"\nepsilon = 5.0\naggregation = "local"'


@pytest.fixture
def agreed(tmp_path) -> Trial:
    """A federation whose site north has joined; no process is started."""
    trial = Trial(tmp_path, RUN)
    prepare(trial.folder / "sites" / "north" / "site.toml", trial.folder / "north.csv")
    return trial


def first_question(trial: Trial) -> bytes:
    federation = load_federation(trial.folder / "federation.toml")
    plan, public = federation.plan(), federation.public()
    view = federation.method().server_side(public, plan).start()[1].view(np.array([0]))
    fields = {"plan": plan_digest(plan, public), "number": 0, "round": 0}
    return wire.encode(Packet("step", fields, wire.view_arrays(view)))


def test_an_asynchronous_site_of_several_tasks_is_refused_when_it_joins_and_when_the_server_starts(agreed, tmp_path):
    """It was only refused when it was asked for its first message."""
    folder = tmp_path / "other"
    folder.mkdir()
    trial = Trial(folder, 'method = "async"\nepsilon = 2.0')
    change(trial, 'tasks = ["north"]', 'tasks = ["north", "east"]')
    change(trial, f"rows = [{ROWS}]", f"rows = [{ROWS}, {ROWS}]", count=1)
    with pytest.raises(OptionError, match="one task"):
        load_federation(trial.folder / "federation.toml").plan()


@pytest.mark.parametrize("method", ["relationship", "dp-mtrl"])
def test_methods_whose_noise_no_site_can_add_alone_are_refused_before_anything_is_charged(tmp_path, method):
    """Sites joined, were charged for every message, and could send none."""
    trial = Trial(tmp_path, f'method = "{method}"\nepsilon = 2.0\naggregation = "local"')
    with pytest.raises(OptionError, match="use 'curator'"):
        prepare(trial.folder / "sites" / "north" / "site.toml", trial.folder / "north.csv")
    change(trial, '"local"', '"curator"')
    assert load_federation(trial.folder / "federation.toml").plan().releases


def test_what_a_site_has_spent_and_may_spend_stays_on_its_machine(agreed):
    """A limit lowered below what the run needs: the server reads one fixed sentence, the owner reads the figures."""
    config = agreed.folder / "sites" / "north" / "site.toml"
    config.write_text(config.read_text().replace("epsilon = 10.0", "epsilon = 0.25"))
    log = agreed.folder / "errors.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TASKVEIL_SITE_LOG", str(log))
        reply = wire.decode(answer_for(str(config))(first_question(agreed)))
    assert reply.kind == "refused" and reply.fields["reason"] == SPENT
    assert not any(c.isdigit() for c in reply.fields["reason"]) and "0.25" in log.read_text()


def change(trial: Trial, old: str, new: str, count: int = -1) -> None:
    path = trial.folder / "federation.toml"
    path.write_text(path.read_text().replace(old, new, count))


def test_a_site_answers_from_its_files_and_repeats_its_bytes_in_another_process(agreed):
    config, asked = str(agreed.folder / "sites" / "north" / "site.toml"), first_question(agreed)
    reply = answer_for(config)(asked)
    assert kind_of(reply) == "message" and answer_for(config)(asked) == reply


@pytest.mark.parametrize(
    ("old", "new"),
    [("epsilon = 5.0", "epsilon = 6.0"), ("[-1, 1]", "[-2, 2]"), ("x2", "x9"), ('tasks = ["south"]', 'tasks = ["elsewhere"]')],
)
def test_a_changed_federation_is_not_answered_with_old_state(agreed, old, new):
    """Columns and ranges are in no plan, so the fingerprint of the plan does not notice them; that of the file does."""
    config, asked = agreed.folder / "sites" / "north" / "site.toml", first_question(agreed)
    change(agreed, old, new)
    with pytest.raises(DataError, match="changed after this site agreed"):
        answer_for(str(config))(asked)
    change(agreed, new, old)
    assert kind_of(answer_for(str(config))(asked)) == "message"


def test_joining_again_with_a_changed_federation_needs_a_new_state_folder(agreed):
    change(agreed, "[-3, 3]", "[-4, 4]")
    with pytest.raises(DataError, match="use a new state folder"):
        prepare(agreed.folder / "sites" / "north" / "site.toml", agreed.folder / "north.csv")


def test_an_agreement_of_version_0_1_is_still_answered(agreed):
    path = agreed.state("north") / "run.json"
    old = json.loads(path.read_text())
    del old["federation"]
    path.write_text(json.dumps(old))
    assert kind_of(answer_for(str(agreed.folder / "sites" / "north" / "site.toml"))(first_question(agreed))) == "message"
