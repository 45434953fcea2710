"""Folders of a run that somebody touched up: `taskveil certify` finds every one, with exit code 1 and a reason.

One run is fitted, charged and signed; every case edits a copy. Unsigned: an edit is found as long as one of the files is left as
it was. Signed: any changed byte. Most cases are tried twice, the second time sealed again as a careful forger would.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from taskveil.cli.main import run as command
from taskveil.estimators import certify
from taskveil.estimators.storage import saved_run
from taskveil.privacy import signing
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.certificate import Certificate
from taskveil.privacy.contributions import contribution_from_dict
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import Charge
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.mechanisms import mechanism_from_dict
from taskveil.privacy.plan import event_of
from taskveil.privacy.seal import SEAL, seal_of
from taskveil.privacy.units import Neighbours


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """model (charged to budget.db), seeded (another run, with seeded noise), and a key pair."""
    place = tmp_path_factory.mktemp("runs")
    url, data = f"sqlite:///{place / 'budget.db'}", tv.get_synthetic("tiny").train
    for observer in ("other-tasks", "server"):
        Book(url).set_limit(Key("h", observer=observer), 5.0, 1e-5)
    run = tv.TaskRegressor("low-rank", epsilon=1.0, aggregation="local", observer="server", ledger=url, account="h")
    run.set_params(method__rounds=3).fit(data).save(place / "model")
    tv.TaskRegressor("low-rank", epsilon=1.0, insecure_noise_seed=1).fit(data).save(place / "seeded")
    tv.TaskRegressor("subspace", epsilon=2.0).fit(data).save(place / "other")
    signing.make_key(place / "officer")
    signing.make_key(place / "forger")
    return place


class Folder:
    """A copy of a saved run, as plain data that can be edited."""

    def __init__(self, place: Path, path: Path, run: str = "model"):
        shutil.copytree(place / run, path)
        self.place, self.path = place, path
        self.certificate = json.loads((path / "certificate.json").read_text())
        self.model = json.loads((path / "model.json").read_text())
        with np.load(path / "arrays.npz") as stored:
            self.arrays = {name: stored[name] for name in stored.files}

    def write(self, *files: str) -> None:
        for file in files or ("certificate", "model", "arrays"):
            if file == "arrays":
                np.savez(self.path / "arrays.npz", **self.arrays)
            else:
                (self.path / f"{file}.json").write_text(json.dumps(getattr(self, file)))

    def seal(self, *files: str) -> None:
        """Carry the seal of the edited contents in these files."""
        seal = seal_of(self.certificate, self.model, self.arrays)
        self.certificate[SEAL] = seal if "certificate" in files else self.certificate[SEAL]
        self.model[SEAL] = seal if "model" in files else self.model[SEAL]
        self.arrays[SEAL] = np.asarray(seal) if "arrays" in files else self.arrays[SEAL]
        self.write(*files)

    def made_again(self) -> None:
        """The certificate that follows from the edited record, by our own function: what a forger who knows it would write."""
        method, record, preparation = saved_run(self.model, self.arrays)
        self.certificate = json.loads(certify.certificate(method, record, preparation).to_json()) | {SEAL: ""}


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        command([str(a) for a in arguments])
    return int(ended.value.code or 0)


def check(path: Path, *options: object) -> int:
    return call("certify", path, *options)


# ---------------------------------------------------- certificate.json alone, or with model.json: no seal is made again


def statement(**changed):
    return lambda f: f.certificate["statements"][0].update(changed)


def ten_times_the_noise(releases) -> None:
    """Each with the event that its mechanism then gives."""
    for release in releases:
        release["mechanism"]["scale"] *= 10
        mechanism, contribution = mechanism_from_dict(release["mechanism"]), contribution_from_dict(release["contribution"])
        event = event_of(mechanism, contribution, Neighbours.REPLACE_ONE, release["rate"], "local")
        release["event"] = json.loads(json.dumps(event.to_dict()))


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


def noisier_plan(f: Folder) -> None:
    ten_times_the_noise(f.model["plan"]["releases"])


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
    assert check(folder.path) in (1, 2)


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


def epsilon_a_tenth(f: Folder) -> None:
    noisier_plan(f)
    f.made_again()


def release_dropped_everywhere(f: Folder) -> None:
    f.model["executed"].pop()
    f.made_again()


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


# -------------------------------------------------------------------------------------------------------------------- signatures


@pytest.fixture
def signed(place, tmp_path):
    shutil.copytree(place / "model", tmp_path / "signed")
    (tmp_path / "signed" / "report.html").write_text("a page")
    signing.sign_folder(tmp_path / "signed", signing.private_key(place / "officer.key"))
    return tmp_path / "signed"


def test_a_signed_folder_holds_under_its_key_and_no_other(place, signed, capsys):
    assert check(signed, "--key", place / "officer.pub") == 0
    assert "as its holder left it" in capsys.readouterr().out
    assert check(signed) == 0 and "anybody may have made" in capsys.readouterr().out
    assert check(signed, "--key", place / "forger.pub") == 1


@pytest.mark.parametrize("name", ["certificate.json", "model.json", "arrays.npz", "report.html", "signature.json"])
def test_one_changed_byte_in_any_signed_file_is_found(place, signed, name):
    """A blank at the end of a JSON file changes nothing it says, and is found all the same."""
    path = signed / name
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    assert check(signed, "--key", place / "officer.pub") == 1
    path.write_bytes(content + b" ")
    assert check(signed, "--key", place / "officer.pub") == (0 if name == "signature.json" else 1)


def test_a_folder_edited_sealed_and_signed_again_by_somebody_else_is_found(place, signed):
    folder = Folder(place, signed.parent / "x")
    epsilon_a_tenth(folder)
    folder.seal("certificate", "model", "arrays")
    signing.sign_folder(folder.path, signing.private_key(place / "forger.key"))
    assert check(folder.path) == 0, "without a key anybody may have signed it"
    assert check(folder.path, "--key", place / "officer.pub") == 1


def test_a_signed_file_that_can_no_longer_be_read_is_an_edit_and_no_slip_of_the_reader(place, signed, capsys):
    for name in ("model.json", "certificate.json"):
        (signed / name).write_bytes((signed / name).read_bytes()[:-1] + b"|")
        assert check(signed, "--key", place / "officer.pub") == 1
        assert "changed" in capsys.readouterr().err
    (signed / "certificate.json").unlink()
    assert check(signed, "--key", place / "officer.pub") == 1


def test_a_removed_signature_or_file_is_found(place, signed):
    (signed / "report.html").unlink()
    assert check(signed, "--key", place / "officer.pub") == 1
    (signed / "signature.json").unlink()
    assert check(signed, "--key", place / "officer.pub") == 1


def test_a_folder_sealed_again_in_all_three_files_does_not_fit_the_journal_of_fit(place, tmp_path):
    assert call("fit", "synthetic:tiny", "--epsilon", 1, "--aggregation", "local", "-o", tmp_path / "m") == 0
    for edit in (epsilon_a_tenth, release_dropped_everywhere):
        shutil.copytree(tmp_path / "m", tmp_path / "again")
        folder = Folder(tmp_path, tmp_path / edit.__name__, "again")
        edit(folder)
        folder.seal("certificate", "model", "arrays")
        assert check(folder.path) == 1
        shutil.rmtree(folder.path / "run")
        assert check(folder.path) == 0, "the twin: nothing else can show it"
        shutil.rmtree(tmp_path / "again")
    assert check(tmp_path / "m") == 0


def test_fit_signs_what_it_wrote(place, tmp_path):
    assert call("fit", "synthetic:tiny", "--epsilon", 1, "-o", tmp_path / "m", "--sign", place / "officer.key") == 0
    assert check(tmp_path / "m", "--key", place / "officer.pub") == 0
    assert "run/plan.json" in json.loads((tmp_path / "m" / "signature.json").read_text())["files"]
