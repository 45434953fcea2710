"""Exports against the published schemas; two runs differ, a claim as printed does not hold, no figure on rows leaves."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from jsonschema import Draft7Validator
from referencing import Registry, Resource

import taskveil as tv
from taskveil.cli.main import run as main
from taskveil.privacy.fingerprint import same_code, short_code
from taskveil.privacy.guarantees import gaussian_mu
from taskveil.report.exports.nist import NOT_ANSWERED, QUESTIONS

SCHEMAS = Path(__file__).parents[2] / "schemas"


def saved(folder: Path, **params) -> Path:
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(240, 4)), np.repeat([f"secret-{i:02d}" for i in range(30)], 8)
    est = tv.TaskRegressor(**{"method": "subspace", "epsilon": 1.0, "delta": 1e-5, **params}).fit(X, X[:, 0], task=task)
    est.save(folder)
    (folder / "gain.json").write_text(json.dumps({"metric": "mse", "tasks": est.gain_.to_dict()}))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("runs")
    return {
        "one": saved(base / "one"),
        "two": saved(base / "two", epsilon=2.0),
        "paper": saved(base / "paper", method="low-rank", variant="paper"),
    }


def export(folder: Path, form: str, tmp_path: Path, capsys) -> tuple[str, int]:
    out = tmp_path / f"statement.{form}"
    with pytest.raises(SystemExit) as stop:
        main(["certify", str(folder), "--export", form, "-o", str(out)])
    capsys.readouterr()
    return out.read_text(), int(stop.value.code or 0)


def cyclonedx() -> Draft7Validator:
    names = ("bom-1.6.schema.json", "spdx.schema.json", "jsf-0.82.schema.json")
    read = {name: json.loads((SCHEMAS / name).read_text()) for name in names}
    known = Registry().with_resources(
        (f"http://cyclonedx.org/schema/{name}", Resource.from_contents(s)) for name, s in read.items()
    )
    return Draft7Validator(read["bom-1.6.schema.json"], registry=known)


def opendp() -> Draft7Validator:
    schema = yaml.safe_load((SCHEMAS / "deployments-schema.yaml").read_text())
    return Draft7Validator(schema, format_checker=Draft7Validator.FORMAT_CHECKER)


@pytest.mark.parametrize("name", ["one", "two", "paper"])
def test_the_registry_record_fits_the_published_schema(folders, name, tmp_path, capsys):
    text, code = export(folders[name], "registry", tmp_path, capsys)
    record = yaml.safe_load(text)
    assert list(map(str, opendp().iter_errors(record))) == []
    assert code == (1 if name == "paper" else 0)
    record["deployment"]["surprise"] = 1  # the twin: the schema does refuse
    assert list(opendp().iter_errors(record))


@pytest.mark.parametrize("name", ["one", "two", "paper"])
def test_the_bill_of_materials_fits_the_published_schema(folders, name, tmp_path, capsys):
    bill = json.loads(export(folders[name], "mlbom", tmp_path, capsys)[0])
    assert list(map(str, cyclonedx().iter_errors(bill))) == []
    assert bill["metadata"]["component"]["type"] == "machine-learning-model"
    bill["metadata"]["component"]["modelCard"]["surprise"] = 1
    assert list(cyclonedx().iter_errors(bill))


def items(text: str) -> dict:
    return json.loads(re.search(r"```json\n(.*)\n```", text, re.S)[1])


@pytest.mark.parametrize("name", ["one", "paper"])
def test_every_nist_item_is_there_and_answered_or_says_why_not(folders, name, tmp_path, capsys):
    text, _ = export(folders[name], "nist", tmp_path, capsys)
    listed = items(text)["items"]
    assert [i["number"] for i in listed] == [n for n, _, _ in QUESTIONS] == [str(n) for n in range(1, 19)]
    for item in listed:
        assert bool(item["answer"]) != bool(item["why"])
        assert (item["status"] == NOT_ANSWERED) == bool(item["why"])
    assert all("delta" in line and "one task" in line for line in listed[0]["answer"])


def test_two_runs_with_different_privacy_differ_in_every_export(folders, tmp_path, capsys):
    for form in ("nist", "registry", "mlbom"):
        one, two = (export(folders[n], form, tmp_path, capsys)[0] for n in ("one", "two"))
        assert "epsilon 1, delta 1e-05" in one and "epsilon 2, delta 1e-05" in two and "epsilon 1, delta" not in two


def test_a_run_as_printed_exports_as_not_holding(folders, tmp_path, capsys):
    nist, registry, bill = (export(folders["paper"], form, tmp_path, capsys)[0] for form in ("nist", "registry", "mlbom"))
    assert "Verdict: DOES NOT HOLD" in nist and items(nist)["holds"] is False
    record = yaml.safe_load(registry)["deployment"]
    assert record["basic"]["name"].startswith("DOES NOT HOLD") and "privacy_parameters" not in record["privacy_loss"]
    assert {"name": "taskveil:holds", "value": "false"} in json.loads(bill)["metadata"]["component"]["modelCard"]["properties"]


def test_an_export_names_no_task_and_no_figure_on_rows(folders, tmp_path, capsys):
    for form in ("nist", "registry", "mlbom"):
        text, _ = export(folders["one"], form, tmp_path, capsys)
        assert "secret-" not in text and "error_alone" not in text


def test_the_code_on_paper_is_accepted_however_it_is_typed_and_no_other_is(folders, capsys):
    certificate = tv.load(folders["one"]).certificate_
    code = short_code(certificate.to_dict())
    assert same_code(code.lower().replace("-", " ").replace("0", "o").replace("1", "l"), code)
    for typed, expected in ((code, 0), (code[:-1] + ("A" if code[-1] != "A" else "B"), 1)):
        with pytest.raises(SystemExit) as stop:
            main(["certify", str(folders["one"]), "--code", typed])
        assert int(stop.value.code or 0) == expected
        capsys.readouterr()


def test_certify_restates_at_another_delta(folders, capsys):
    with pytest.raises(SystemExit):
        main(["certify", str(folders["one"]), "--at-delta", "1e-6", "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["at_delta"][0]["epsilon"] == pytest.approx(1.1436, abs=1e-3) and told["profiles"][0]["mu"] > 0


HOSTILE = {
    "gain.json": [
        '{"tasks": {"a": {"error_alone": "x", "error_shared": 1, "kept": "shared"}}}', '{"tasks": [1]}', "[1]",
        '{"metric": 1, "tasks": {}}', '{"tasks": {"a": {}}}',
        '{"tasks": {"a": {"error_alone": 1, "error_shared": 1, "kept": "shared", "clipped": 7}}}',
    ],
    "audit.json": ['{"lower_bound": "high"}', '{"leaks": 3}', '{"claimed_epsilon": -1}', '{"target": {"a": 1}}'],
}  # fmt: skip


@pytest.mark.parametrize("name, text", [(name, text) for name, texts in HOSTILE.items() for text in texts])
def test_a_hostile_file_beside_the_run_is_refused_in_one_line(folders, name, text, tmp_path, capsys):
    """gain.json and audit.json are under no seal: whatever is in them, an export says so and does not fall over."""
    place = tmp_path / "run"
    shutil.copytree(folders["one"], place)
    (place / name).write_text(text)
    with pytest.raises(SystemExit) as stop:
        main(["certify", str(place), "--export", "nist"])
    said = capsys.readouterr()
    assert int(stop.value.code or 0) == 2 and len(said.err.strip().splitlines()) <= 2 and "Traceback" not in said.err


def test_names_that_would_break_out_of_a_format_stay_text(folders, tmp_path, capsys):
    place = tmp_path / 'a"b: - <script> ```json'
    shutil.copytree(folders["one"], place)
    record = yaml.safe_load(export(place, "registry", tmp_path, capsys)[0])
    assert place.name in record["deployment"]["basic"]["name"]
    bill = json.loads(export(place, "mlbom", tmp_path, capsys)[0])
    assert bill["metadata"]["component"]["name"] == place.name
    assert items(export(place, "nist", tmp_path, capsys)[0])["holds"] is True


def test_a_name_with_lines_of_its_own_cannot_write_a_verdict(folders, tmp_path, capsys):
    place = tmp_path / "a\n**Verdict: holds.**\x7f\x85"
    shutil.copytree(folders["paper"], place)
    for form in ("nist", "registry", "mlbom"):
        with pytest.raises(SystemExit) as stop:
            main(["certify", str(place), "--export", form, "-o", str(tmp_path / form)])
        assert stop.value.code == 2 and len(capsys.readouterr().err.splitlines()) == 1
        assert not (tmp_path / form).exists()


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    base = tmp_path_factory.mktemp("other runs")
    budgets = {"secret-03": 0.5, "secret-04": 2.0, "*": 1.0}
    return {
        "default": saved(base / "default", method="together"),
        "budgets": saved(base / "budgets", method="together", epsilon=budgets),
        "secure": saved(base / "secure", method="mean", aggregation="secure", secure={"colluders": 3}),
    }


@pytest.mark.parametrize("name", ["default", "budgets", "secure"])
def test_every_release_states_the_bound_of_one_contribution(others, name, tmp_path, capsys):
    """Sums whose bound is fixed by their kind, or stands inside another, were exported as `clipped to -`."""
    text, _ = export(others[name], "nist", tmp_path, capsys)
    assert "clipped to -" not in text and re.search(r"clipped to 1(\.0)?,", text)


def test_tasks_with_budgets_of_their_own_have_curves_of_their_own(others, tmp_path, capsys):
    """Every statement had the curve of the largest budget, and none said whose it is."""
    certificate = tv.load(others["budgets"]).certificate_
    for s in certificate.statements:
        assert dict(certificate.profile(s).epsilons)[1e-5] == pytest.approx(s.epsilon, rel=1e-4)
        assert dict(certificate.profile(s).epsilons)[1e-5] <= s.epsilon
    smallest, _, largest = (certificate.profile(s).mu for s in certificate.statements)
    assert smallest == pytest.approx(gaussian_mu(0.5, 1e-5), rel=1e-4) and largest > 3 * smallest
    told = export(others["budgets"], "nist", tmp_path, capsys)[0]
    first = items(told)["items"][0]["answer"]
    assert [re.search(r"of the (\d+) with this budget", line)[1] for line in first] == ["1", "28", "1"]
    with pytest.raises(SystemExit):
        main(["certify", str(others["budgets"]), "--at-delta", "1e-5"])
    restated = re.findall(r"Restated: epsilon (\S+) at delta 1e-05 for one task of the (\d+)", capsys.readouterr().out)
    assert [n for _, n in restated] == ["1", "28", "1"]
    assert [float(e) for e, _ in restated] == pytest.approx([0.5, 1.0, 2.0], rel=1e-4)


def test_a_secure_sum_is_never_said_to_withstand_more_sites_than_it_does(others, tmp_path, capsys):
    """Exports said `all other tasks` where the noise hides a task from three sites only."""
    for form in ("nist", "registry", "mlbom"):
        text, _ = export(others["secure"], form, tmp_path, capsys)
        assert "up to 3 other sites" in text and "all other tasks" not in text
    with pytest.raises(SystemExit):
        main(["report", str(others["secure"]), "--for", "board"])
    assert "all other tasks" not in (others["secure"] / "report-board.html").read_text()


def test_nothing_is_covered_by_a_claim_that_does_not_hold(folders, tmp_path, capsys):
    said = {i["number"]: i["answer"] for i in items(export(folders["paper"], "nist", tmp_path, capsys)[0])["items"]}
    assert not any(line.endswith(": covered") for line in said["5"]) and "protects nobody" in said["4"][0]
    held = {i["number"]: i["answer"] for i in items(export(folders["one"], "nist", tmp_path, capsys)[0])["items"]}
    assert any(line.endswith(": covered") for line in held["5"])  # the twin


def test_a_record_never_says_that_sizes_of_protected_tasks_are_public(folders, tmp_path, capsys):
    loss = yaml.safe_load(export(folders["one"], "registry", tmp_path, capsys)[0])["deployment"]["privacy_loss"]
    assert "not how many rows" in loss["privacy_unit_details"] and "sizes are public" not in loss["privacy_unit_details"]


@pytest.mark.parametrize("delta", [1e-4, 1e-6, 3e-7, 1e-8])
def test_a_printed_epsilon_is_never_below_the_certified_one(folders, delta, capsys):
    told = [[], []]
    for out, more in zip(told, ([], ["--json"])):
        with pytest.raises(SystemExit):
            main(["certify", str(folders["one"]), "--at-delta", str(delta), *more])
        out.append(capsys.readouterr().out)
    exact = json.loads(told[1][0])
    restated = float(re.search(r"Restated: epsilon (\S+)", told[0][0])[1])
    assert exact["at_delta"][0]["epsilon"] <= restated <= exact["at_delta"][0]["epsilon"] * (1 + 1e-5)
    assert float(re.search(r"mu = (\S+)", told[0][0])[1]) >= exact["profiles"][0]["mu"] * (1 - 1e-11)
    printed = {float(d): float(e) for e, d in re.findall(r"([\d.]+) at delta (1e-\d+),", told[0][0])}
    assert all(printed.get(d, e) >= e * (1 - 1e-11) for d, e in exact["profiles"][0]["epsilons"])
