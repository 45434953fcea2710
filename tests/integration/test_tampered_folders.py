"""Folders of a run that somebody touched up: `taskveil certify` finds every one, with exit code 1 and a reason.

One run is fitted and charged; every case edits a copy. An edit is found as long as one of the files is left as it was; most cases
are tried twice, the second time sealed again as a careful forger would.
"""

from __future__ import annotations

import shutil

import pytest
from tests.support import forged_folders
from tests.support.forged_folders import (
    Folder,
    check,
    epsilon_a_tenth,
    noisier_plan,
    release_dropped_everywhere,
    ten_times_the_noise,
)

from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.certificate import Certificate
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import Charge
from taskveil.privacy.seal import SEAL

place = forged_folders.place

# ---------------------------------------------------- certificate.json alone, or with model.json: no seal is made again


def statement(**changed):
    return lambda f: f.certificate["statements"][0].update(changed)


def matching_epsilon(f: Folder) -> None:
    charges = [Charge(event_from_dict(e["event"]), e["count"]) for e in f.certificate["events"]]
    for s in f.certificate["statements"]:
        s["epsilon"], s["accountant"] = best_epsilon(charges, s["delta"])


def noisier_with_matching_epsilon(f: Folder) -> None:
    ten_times_the_noise(f.certificate["events"])
    matching_epsilon(f)


def dropped_release(f: Folder) -> None:
    first = f.certificate["events"][0]
    first["count"], first["rounds"] = first["count"] - 1, [[1, first["count"] - 1]]
    matching_epsilon(f)


def no_events(f: Folder) -> None:
    f.certificate["events"] = []
    for s in f.certificate["statements"]:
        s.update(epsilon=0.0, delta=0.0, accountant="pure")


def public_too(f: Folder) -> None:
    f.certificate["statements"].append({**f.certificate["statements"][0], "observer": "public"})


def fewer_statements(f: Folder) -> None:
    del f.certificate["statements"][0]


CERTIFICATE = {
    "observer public": statement(observer="public"),
    "a statement against the public": public_too,
    "a statement less": fewer_statements,
    "variant": lambda f: f.certificate.update(variant="paper"),
    "method": lambda f: f.certificate.update(method="subspace"),
    "unit": statement(unit="record"),
    "neighbours": statement(neighbours="add-remove"),
    "smaller epsilon": statement(epsilon=0.5),
    "larger epsilon": statement(epsilon=1.5),
    "smaller delta": statement(delta=1e-9),
    "accountant": statement(accountant="pld"),
    "holds no longer": statement(holds=False, reason="a reason"),
    "noise times ten, epsilon matching": noisier_with_matching_epsilon,
    "a dropped release, epsilon matching": dropped_release,
    "no events, epsilon zero": no_events,
    "no assumptions": lambda f: f.certificate.update(assumptions=[]),
    "one assumption less": lambda f: f.certificate["assumptions"].pop(),
    "another assumption": lambda f: f.certificate["assumptions"].append("rows are public"),
    "nothing is unprotected": lambda f: f.certificate.update(not_protected=[]),
    "another source of noise": lambda f: f.certificate["randomness"].update(source="dice"),
    "other software": lambda f: f.certificate["software"].update(taskveil="9.9.9"),
    "software of version 0.1.0": lambda f: f.certificate["software"].update(taskveil="0.1.0"),
    "an audit that never was": lambda f: f.certificate.update(
        audit={"verdict": "consistent", "claimed_epsilon": 1.0, "lower_bound": 0.0, "confidence": 0.95, "trials": 9}
    ),
    "aggregation of a release": lambda f: f.certificate["events"][0].update(aggregation="curator"),
    "no seal": lambda f: f.certificate.pop(SEAL),
}  # fmt: skip


@pytest.mark.parametrize("case", CERTIFICATE)
def test_an_edited_certificate_is_found(place, tmp_path, case):
    """Also where its seal was made again: the other two files still carry the one of the run."""
    for sealed in (False, True):
        folder = Folder(place, tmp_path / f"{sealed}")
        CERTIFICATE[case](folder)
        folder.seal("certificate") if sealed and case != "no seal" else folder.write("certificate")
        assert check(folder.path) == 1


@pytest.mark.parametrize("file, name", [("certificate.json", '"epsilon":'), ("model.json", '"task_names":')])
def test_a_name_that_occurs_twice_is_refused(place, tmp_path, file, name):
    """The last value is the true one, so that seal and claims fit; a reader who takes the first sees another."""
    folder = Folder(place, tmp_path / "model")
    text = (folder.path / file).read_text()
    assert text.count(name) >= 1
    (folder.path / file).write_text(text.replace(name, f"{name} 0.1, {name}", 1))
    assert check(folder.path) == 1


MODEL = {
    "noise times ten in the plan": noisier_plan,
    "a release less was executed": lambda f: f.model["executed"].pop(),
    "nothing was executed": lambda f: f.model.update(executed=[]),
    "another aggregation": lambda f: f.model["plan"]["budget"].update(aggregation="curator"),
    "another method": lambda f: f.model["method"].update(name="group-sparse"),
    "another unit": lambda f: f.model["plan"]["budget"].update(unit="record"),
    "another variant": lambda f: f.model["plan"]["budget"].update(variant="paper"),
    "another scaling": lambda f: f.model["preparation"].update(scaling="declared"),
    "seeded noise": lambda f: f.model["randomness"].update(seeded=True),
    "another account": lambda f: f.model.update(charged={"account": "x", "run": "y"}),
    "other task names": lambda f: f.model["task_names"].reverse(),
    "no seal": lambda f: f.model.pop(SEAL),
    "an older format": lambda f: f.model.update(format=1),
    "no plan": lambda f: f.model.pop("plan"),
}


@pytest.mark.parametrize("case", MODEL)
def test_an_edited_record_is_found(place, tmp_path, case):
    for sealed in (False, True):
        folder = Folder(place, tmp_path / f"{sealed}")
        MODEL[case](folder)
        folder.seal("model") if sealed and case != "no seal" else folder.write("model")
        assert check(folder.path) == 1


def seed_relabelled(f: Folder) -> None:
    f.model["randomness"].update(seeded=False, source="operating system")
    f.certificate["randomness"] = f.model["randomness"]
    for s in f.certificate["statements"]:
        s.update(holds=True)
        s.pop("reason")


def assumptions_cleared(f: Folder) -> None:
    f.certificate["assumptions"] = []
    f.model["preparation"].update(scaling="none")


def nothing_released(f: Folder) -> None:
    no_events(f)
    f.model["executed"] = []


def seals_removed(f: Folder) -> None:
    """A folder that claims to be of the version that sealed nothing."""
    f.certificate["software"]["taskveil"] = "0.1.0"
    f.model["format"] = 1
    for document in (f.certificate, f.model):
        document.pop(SEAL)
    f.write("certificate", "model")
    f.seal = lambda *files: None


TOGETHER = {
    "noise times ten": ("model", epsilon_a_tenth),
    "a release dropped": ("model", release_dropped_everywhere),
    "seeded noise relabelled": ("seeded", seed_relabelled),
    "assumptions cleared": ("model", assumptions_cleared),
    "nothing released": ("model", nothing_released),
    "an older version, unsealed": ("model", seals_removed),
}


@pytest.mark.parametrize("case", TOGETHER)
def test_a_certificate_and_a_record_edited_together_do_not_fit_the_arrays(place, tmp_path, case):
    run, edit = TOGETHER[case]
    folder = Folder(place, tmp_path / "x", run)
    edit(folder)
    folder.seal("certificate", "model")
    assert check(folder.path) == 1


FILES = {
    "certificate of another run": lambda f: shutil.copy(f.place / "other" / "certificate.json", f.path),
    "record of another run": lambda f: shutil.copy(f.place / "other" / "model.json", f.path),
    "arrays of another run": lambda f: shutil.copy(f.place / "other" / "arrays.npz", f.path),
    "certificate and record of another run": lambda f: [
        shutil.copy(f.place / "other" / name, f.path) for name in ("certificate.json", "model.json")
    ],
    "record missing": lambda f: (f.path / "model.json").unlink(),
    "arrays missing": lambda f: (f.path / "arrays.npz").unlink(),
}


@pytest.mark.parametrize("case", FILES)
def test_swapped_and_missing_files_are_found(place, tmp_path, case):
    folder = Folder(place, tmp_path / "x")
    FILES[case](folder)
    assert check(folder.path) == 1


def test_edited_models_are_found(place, tmp_path):
    folder = Folder(place, tmp_path / "x")
    folder.arrays["model/coef"] = folder.arrays["model/coef"] + 1e-12
    folder.seal("arrays")
    assert check(folder.path) == 1


DAMAGE = [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("name", ["certificate.json", "model.json", "arrays.npz"])
@pytest.mark.parametrize("content", DAMAGE, ids=["empty", "cut", "list", "null", "not text", "deep"])
def test_damaged_files_are_refused_with_a_line(place, tmp_path, capsys, name, content):
    folder = Folder(place, tmp_path / "x")
    (folder.path / name).write_bytes(content)
    assert check(folder.path) in (1, 2)
    assert "Traceback" not in (said := capsys.readouterr()).err and "defect" not in said.err


# ------------------------------------------------------------------------------- what is good, and twins


def test_the_untouched_folder_holds_and_says_that_it_is_evidence(place, capsys):
    assert check(place / "model") == 0
    assert "evidence, not proof" in capsys.readouterr().out


def test_a_folder_edited_and_sealed_in_all_three_files_needs_the_ledger_or_a_signature(place, tmp_path):
    """What the seal cannot find, said plainly; the books find it."""
    folder = Folder(place, tmp_path / "x")
    epsilon_a_tenth(folder)
    folder.seal("certificate", "model", "arrays")
    url = f"sqlite:///{place / 'budget.db'}"
    assert check(folder.path) == 0
    assert check(folder.path, "--ledger", url) == 1
    assert check(place / "model", "--ledger", url) == 0


@pytest.mark.parametrize("edit", [lambda m: m.update(charged=None), lambda m: m["charged"].update(run="another")])
def test_a_run_that_is_not_in_the_books_is_found(place, tmp_path, edit):
    folder = Folder(place, tmp_path / "x")
    edit(folder.model)
    folder.seal("certificate", "model", "arrays")
    assert check(folder.path, "--ledger", f"sqlite:///{place / 'budget.db'}") == 1


def test_the_old_check_of_a_certificate_against_itself_would_have_passed_these(place, tmp_path):
    """The twin: without the comparison with the run, consistent edits hold."""
    for case in ("noise times ten, epsilon matching", "a dropped release, epsilon matching", "no assumptions", "variant"):
        folder = Folder(place, tmp_path / case)
        CERTIFICATE[case](folder)
        assert Certificate.from_dict(folder.certificate).verify().ok
