"""Damaged saved files: every entry of model.json and certificate.json with every value its rule refuses, or missing; arrays of
wrong shape, type or content; files cut, flipped, emptied. DataError in one line, never a raw exception, never a model."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.support.wrong import label, one_line, wrong_values

import taskveil as tv
from taskveil.cli.main import run
from taskveil.errors import DataError
from taskveil.estimators.saved_model import BOARD, LEFT_OUT, MODEL, OPTIONAL, OPTIONS, PREPARATION, PUBLIC
from taskveil.privacy.planned import BUDGET, PLAN, RELEASE
from taskveil.privacy.statement import AUDIT, CERTIFICATE, EVENT, RANDOMNESS, REQUIRED, REQUIRED_OF_A_STATEMENT, STATEMENT

FILES = ("model.json", "arrays.npz", "certificate.json")


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((60, 3)), np.repeat(np.arange(6), 10)
    bounds = {"features": {"*": [-5, 5]}, "target": [-9, 9]}
    est = tv.TaskRegressor("mean", epsilon=1.0, bounds=bounds).fit(X, X[:, 0], task=task)
    return est.save(tmp_path_factory.mktemp("saved") / "model")


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    for name in FILES:
        shutil.copy(saved / name, tmp_path / name)
    return tmp_path


def refused(folder: Path) -> str:
    with pytest.raises(DataError) as error:
        tv.load(folder)
    one_line(str(error.value))
    return str(error.value)


def named_as_wrong(folder: Path) -> None:
    """Refused by a rule, not merely by the seal, which whoever changes all three files can make again."""
    assert "belong together" not in refused(folder)


def change(path: Path, edit: Callable[[Any], Any]) -> None:
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


def sayable(value: Any) -> bool:
    """Whether JSON can hold it."""
    return isinstance(value, str | int | float | list | tuple | dict | None)


PLACES: dict[str, tuple[str, Callable[[Any], Any], Any]] = {
    "model": ("model.json", lambda d: d, MODEL),
    "public": ("model.json", lambda d: d["public"], PUBLIC),
    "options": ("model.json", lambda d: d["options"], OPTIONS),
    "preparation": ("model.json", lambda d: d["preparation"], PREPARATION),
    "randomness": ("model.json", lambda d: d["randomness"], RANDOMNESS),
    "plan": ("model.json", lambda d: d["plan"], PLAN),
    "budget": ("model.json", lambda d: d["plan"]["budget"], BUDGET),
    "release": ("model.json", lambda d: d["plan"]["releases"][0], RELEASE),
    "billboard": ("model.json", lambda d: d["billboards"][0], BOARD),
    "certificate": ("certificate.json", lambda d: d, CERTIFICATE),
    "statement": ("certificate.json", lambda d: d["statements"][0], STATEMENT),
    "event": ("certificate.json", lambda d: d["events"][0], EVENT),
    "drawn": ("certificate.json", lambda d: d["randomness"], RANDOMNESS),
    "audit": ("certificate.json", lambda d: d.setdefault("audit", {}), AUDIT),
}
ENTRIES = [(place, name) for place, (_, _, table) in PLACES.items() for name in table]
MISSING = [("model", n) for n in MODEL if n not in OPTIONAL]
MISSING += [(place, n) for place, left_out in LEFT_OUT.items() for n in PLACES[place][2] if n not in left_out]
MISSING += (
    [("plan", n) for n in PLAN if n not in ("total", "policy")]
    + [("budget", n) for n in BUDGET if n != "task_epsilons"]
    + [("release", n) for n in RELEASE]
)
MISSING += [("billboard", n) for n in BOARD] + [("certificate", n) for n in REQUIRED]
MISSING += [("statement", n) for n in REQUIRED_OF_A_STATEMENT]


def test_the_undamaged_model_is_read(folder):
    assert tv.load(folder).certificate_.verify().ok


@pytest.mark.parametrize("place, name", ENTRIES)
def test_a_wrong_entry_is_refused(place, name, folder):
    """With every value that its rule refuses and JSON can hold."""
    file, find, table = PLACES[place]
    whole = (folder / file).read_text()
    values = [value for value in wrong_values(table[name]) if sayable(value)]
    assert values
    for value in values:
        (folder / file).write_text(whole)
        change(folder / file, lambda d, value=value: find(d).update({name: value}))
        named_as_wrong(folder)


@pytest.mark.parametrize("place, name", MISSING)
def test_a_missing_entry_is_refused(place, name, folder):
    file, find, _ = PLACES[place]
    change(folder / file, lambda d: find(d).pop(name))
    named_as_wrong(folder)


@pytest.mark.parametrize("place", PLACES)
def test_every_entry_of_a_fresh_file_has_a_rule(place, saved):
    file, find, table = PLACES[place]
    assert set(find(json.loads((saved / file).read_text()))) <= set(table)


OTHERS = ("é", True, None, [[]], {}, "3")
INNER = [("model.json", "plan", "releases"), ("certificate.json", "events")]


@pytest.mark.parametrize("where", INNER, ids=lambda where: where[0])
@pytest.mark.parametrize("part", ["contribution", "mechanism", "event"])
@pytest.mark.parametrize("value", OTHERS, ids=label)
def test_a_field_of_another_type_in_what_was_released_is_refused(where, part, value, folder):
    """Every field of the release in turn; a text for noise_multiplier was read and believed until somebody computed with it."""
    file, *steps = where
    whole = (folder / file).read_text()

    def first(document: Any) -> dict[str, Any]:
        for step in steps:
            document = document[step]
        return document[0][part]

    for name in first(json.loads(whole)):
        (folder / file).write_text(whole)
        change(folder / file, lambda d, name=name: first(d).update({name: value}))
        named_as_wrong(folder)


EVIDENCE = {
    "another seal on the certificate": ("certificate.json", lambda d: d.update(seal="0" * 64)),
    "another seal on the model": ("model.json", lambda d: d.update(seal="0" * 64)),
    "another salt": ("model.json", lambda d: d.update(salt="0" * 64)),
    "a parameter within its range": ("model.json", lambda d: d["options"].update(epsilon=2.0)),
    "other seconds": ("model.json", lambda d: d.update(seconds=1e6)),
    "an entry nobody knows": ("model.json", lambda d: d.update(magic=1)),
    "the seal left out and an old format named": ("model.json", lambda d: (d.update(format=1), d.pop("seal"))),
    "other software": ("certificate.json", lambda d: d["software"].update(numpy="0")),
}


@pytest.mark.parametrize("case", EVIDENCE)
def test_what_no_rule_can_find_the_seal_does(case, folder):
    file, edit = EVIDENCE[case]
    change(folder / file, edit)
    assert "belong together" in refused(folder)
    with pytest.raises(SystemExit) as ended:
        run(["certify", str(folder)])
    assert ended.value.code == 1


DEEPER = {
    "plan of another version": lambda d: d["plan"].update(version=9),
    "plan without releases": lambda d: d["plan"].pop("releases"),
    "plan whose releases are a number": lambda d: d["plan"].update(releases=3),
    "plan with a release that is a text": lambda d: d["plan"].update(releases=["x"]),
    "plan with an unknown event": lambda d: d["plan"]["releases"][0]["event"].update(kind="magic"),
    "plan with an unknown mechanism": lambda d: d["plan"]["releases"][0]["mechanism"].update(name="magic"),
    "plan with a negative noise": lambda d: d["plan"]["releases"][0]["mechanism"].update(scale=-1),
    "plan with an unknown contribution": lambda d: d["plan"]["releases"][0]["contribution"].update(kind="magic"),
    "plan with a bound in words": lambda d: d["plan"]["releases"][0]["contribution"].update(bound="x"),
    "plan with a budget of text": lambda d: d["plan"].update(budget="x"),
    "plan with a wrong epsilon": lambda d: d["plan"]["budget"].update(epsilon="x"),
    "plan with an unknown budget entry": lambda d: d["plan"]["budget"].update(magic=1),
    "an unknown method": lambda d: d["method"].update(name="magic"),
    "an unknown option of the method": lambda d: d["method"]["options"].update(magic=1),
    "an option of the method out of range": lambda d: d["method"]["options"].update(rounds=-1),
    "an unknown parameter": lambda d: d["options"].update(magic=1),
    "a parameter out of range": lambda d: d["options"].update(epsilon=-1),
    "bounds upside down": lambda d: d["bounds"]["features"].update({"*": [5, -5]}),
    "bounds of another kind": lambda d: d["bounds"].update(magic=1),
    "an executed release that was not planned": lambda d: d["executed"].append("nothing"),
    "a billboard that is not there": lambda d: d["billboard_order"].append(99),
    "a billboard with an array that is not there": lambda d: d["billboards"][0]["names"].append("magic"),
    "one task too many": lambda d: d["task_names"].append("more"),
    "one task too few": lambda d: d["task_names"].pop(),
    "a task twice": lambda d: d["task_names"].__setitem__(0, d["task_names"][1]),
    "one feature too many": lambda d: d["feature_names"].append("more"),
    "another number of features": lambda d: d["public"].update(n_features=4),
    "another number of tasks": lambda d: d["public"].update(n_tasks=7),
    "an unknown public size": lambda d: d["public"].update(magic=1),
    "a format of tomorrow": lambda d: d.update(format=99),
    "another class": lambda d: d.update({"class": "TaskMagic"}),
}


@pytest.mark.parametrize("case", DEEPER)
def test_content_that_does_not_fit_together_is_refused(case, folder):
    change(folder / "model.json", DEEPER[case])
    refused(folder)


def rewritten(folder: Path, edit: Callable[[dict[str, np.ndarray]], Any]) -> None:
    with np.load(folder / "arrays.npz") as stored:
        arrays = {k: stored[k] for k in stored.files}
    edit(arrays)
    np.savez(folder / "arrays.npz", **arrays)


ARRAYS = ("model/coef", "model/intercept", "scaling/shift", "scaling/scale", "scaling/y_shift", "scaling/y_scale")
EDITS: dict[str, Callable[[np.ndarray], Any]] = {
    "missing": lambda a: None,
    "one task short": lambda a: a[:-1],
    "one axis more": lambda a: a[None],
    "a number": lambda a: np.float64(1.0),
    "empty": lambda a: a[:0],
    "NaN": lambda a: np.full_like(a, np.nan),
    "infinity": lambda a: np.full_like(a, np.inf),
    "text": lambda a: a.astype("U8"),
    "complex": lambda a: a * 1j,
    "records": lambda a: np.zeros(a.shape, dtype=[("a", "f8")]),
    "dates": lambda a: a.astype("datetime64[s]"),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_that_does_not_fit_is_refused(name, edit, folder):
    def put(arrays: dict[str, Any]) -> None:
        value = EDITS[edit](arrays.pop(name))
        if value is not None:
            arrays[name] = value

    rewritten(folder, put)
    refused(folder)


@pytest.mark.parametrize("name", ["scaling/scale", "scaling/y_scale"])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_scale_that_is_not_above_zero_is_refused(name, value, folder):
    rewritten(folder, lambda arrays: arrays.update({name: np.full_like(arrays[name], value)}))
    refused(folder)


def test_an_array_that_needs_pickle_is_refused_and_never_run(folder):
    """The planted object would write a file when unpickled."""
    rewritten(folder, lambda arrays: arrays.update({"model/coef": np.array([Planted(folder)], dtype=object)}))
    refused(folder)
    assert not (folder / "run-me").exists()


class Planted:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return (Path.touch, (self.folder / "run-me",))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_file_that_was_cut_is_refused(file, share, folder):
    data = (folder / file).read_bytes()
    (folder / file).write_bytes(data[: int(share * len(data))])
    refused(folder)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("content", [b"[" * 200_000, b"null", b"3", b"[]", b"{}", b"\xff\xfe", b"PK\x03\x04" + bytes(50), b"NaN"])
def test_a_file_with_other_content_is_refused(file, content, folder):
    (folder / file).write_bytes(content)
    refused(folder)


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_is_missing_or_a_folder_is_refused(file, folder):
    (folder / file).unlink()
    refused(folder)
    (folder / file).mkdir()
    refused(folder)


@pytest.mark.parametrize("file", FILES)
def test_a_pipe_is_refused_and_never_waited_for(file, folder, capsys):
    (folder / file).unlink()
    os.mkfifo(folder / file)
    refused(folder)
    with pytest.raises(SystemExit) as ended:
        run(["certify", str(folder / file)])
    assert ended.value.code == 2
    one_line(capsys.readouterr().err)


def test_a_flipped_byte_is_refused_or_changes_no_model(folder):
    """A zip file has a few bytes nobody reads (dates); everything else is under its checksum."""
    good, data = tv.load(folder).coef_, (folder / "arrays.npz").read_bytes()
    for place in np.random.default_rng(1).integers(0, len(data), 60):
        flipped = bytearray(data)
        flipped[place] ^= 0xFF
        (folder / "arrays.npz").write_bytes(flipped)
        try:
            assert np.array_equal(tv.load(folder).coef_, good)
        except DataError as error:
            one_line(str(error))


@pytest.mark.parametrize("command", [["predict", "{}", "x.csv"], ["report", "{}"], ["certify", "{}"]])
@pytest.mark.parametrize("content", [b"[" * 200_000, b"{", b"\xff", b'{"statements": 3}'])
def test_commands_say_so_in_one_line_with_exit_2(command, content, folder, capsys):
    for name in ("certificate.json", "model.json"):
        (folder / name).write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        run([part.replace("{}", str(folder)) for part in command])
    assert ended.value.code == 2
    one_line(capsys.readouterr().err)


BEYOND = {
    "a bound": lambda d: d["events"][0]["contribution"].update(bound=10**400),
    "a scale": lambda d: d["events"][0]["mechanism"].update(scale=10**400),
    "much noise": lambda d: d["events"][0]["event"].update(noise_multiplier=1e308),
    "little noise": lambda d: d["events"][0]["event"].update(noise_multiplier=1e-308),
    "noise beyond all floats": lambda d: d["events"][0]["event"].update(noise_multiplier=10**400),
}


@pytest.mark.parametrize("case", BEYOND)
def test_a_certificate_with_numbers_beyond_arithmetic_does_not_verify(case, folder, capsys):
    """Its curve was drawn and its entries compared before anybody asked whether the numbers can be squared or are floats."""
    change(folder / "certificate.json", BEYOND[case])
    with pytest.raises(SystemExit) as ended:
        run(["certify", str(folder)])
    assert ended.value.code in (1, 2)
    assert "defect" not in capsys.readouterr().err


@pytest.mark.parametrize("file", ["plan.json", "commits.jsonl", "state.npz", "billboard-00001.npz"])
@pytest.mark.parametrize("content", [b"[" * 100_000, b"{\n", b"\xff\n", b"null\n", b'{"id": 3}\n', b"PK\x03\x04" + bytes(40)])
def test_a_damaged_run_folder_is_refused(file, content, tmp_path):
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((40, 2)), np.repeat(np.arange(4), 10)

    def fit() -> Any:
        method = tv.methods.get("mean", rounds=1)
        return tv.TaskRegressor(method, epsilon=1.0, run_dir=tmp_path / "run").fit(X, X[:, 0], task=task)

    fit()
    (tmp_path / "run" / "finished").unlink(missing_ok=True)
    assert (tmp_path / "run" / file).exists()
    (tmp_path / "run" / file).write_bytes(content)
    with pytest.raises(DataError) as error:
        fit()
    one_line(str(error.value))


@pytest.mark.parametrize("content", [b"[" * 100_000, b"{", b"\xff", b"PK\x03\x04" + bytes(40), b"null", b'{"number": -1}'])
def test_a_sites_damaged_memory_is_refused(content, tmp_path):
    from taskveil.runtime.federation.site.state import SiteState
    from taskveil.runtime.secure.parties import SecureParty

    state = SiteState(tmp_path / "state")
    party = SecureParty(cast(Any, None), state)
    reads = (("run.json", state.agreed), ("rows.npz", state.rows), ("last.npz", state.load), ("secure.json", party._stored))
    for name, read in reads:
        (state.folder / name).write_bytes(content)
        with pytest.raises(DataError) as error:
            read()
        one_line(str(error.value))
        (state.folder / name).unlink()
        os.mkfifo(state.folder / name)
        with pytest.raises(DataError, match="pipe|no file"):
            read()


@pytest.mark.parametrize(
    "arrays", [{}, {"about": "[]"}, {"about": "{"}, {"about": "{}"}, {"about": '{"kind": "x"}', "X": [1]}], ids=str
)
def test_a_site_s_rows_or_last_answer_of_other_arrays_are_refused(arrays, tmp_path):
    from taskveil.runtime.federation.site.state import SiteState

    state = SiteState(tmp_path / "state")
    for name, read in (("rows.npz", state.rows), ("last.npz", state.load)):
        np.savez(state.folder / name, **{k: np.asarray(v) for k, v in arrays.items()})
        with pytest.raises(DataError) as error:
            read()
        one_line(str(error.value))
