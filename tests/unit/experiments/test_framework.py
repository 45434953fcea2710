"""How a result is tested, written, drawn and put on the page."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib import import_module
from xml.etree import ElementTree

import pytest
from experiments import readme, registry
from experiments.common import Result, below, computed, execute, together, verdict
from experiments.paper_page import command
from experiments.random_settings import Row
from experiments.svg import write_chart
from experiments.verdicts import document

from taskveil.cli.main import run


def test_a_failed_claim_is_said_to_fail():
    failed = [computed(f"a at epsilon {e}", 1.0, 0.0) for e in (1, 3)]
    said = verdict([*failed, computed("b", 0.0, 1.0), computed("c", 1.0, 1.0)])
    assert said == "holds: b. fails: a at epsilon 1, 3. cannot tell: c"
    assert together(["x at epsilon 1", "y", "x at epsilon 10"]) == ["x at epsilon 1, 10", "y"]


def item(quick: bool, seed: int, repeats: int | None = None) -> Result:
    line = {"x": [1, 10], "y": [0.5, 0.25], "std": [0.1, 0.1]}
    return Result("made", "Paper", "falls", "falls", series={"a": line}, axes={"x": "epsilon", "y": "nmse", "log": "xy"},
                  checks=[below("falls", [0.25, 0.26], [0.5, 0.51])], settings={"repeats": repeats or 1})  # fmt: skip


def test_a_run_leaves_json_with_seed_versions_date_and_a_picture(tmp_path):
    document = execute(item, quick=True, seed=7, folder=tmp_path, repeats=3)
    kept = json.loads((tmp_path / "made-quick.json").read_text())
    assert kept["run"]["seed"] == 7
    assert kept["run"]["repeats"] == kept["settings"]["repeats"] == 3
    assert {"date", "versions", "seconds", "cpu_seconds", "quick"} <= set(kept["run"])
    assert document["verdict"] == "holds: falls"
    ElementTree.parse(tmp_path / "made-quick.svg")


def test_charts_are_xml_whatever_the_names_and_numbers(tmp_path):
    lines = {
        "a <&> b": {"x": ["one & two", "three"], "y": [1.0, float("nan")]},
        "p: x": {"x": [1, 2], "y": [1e-9, 1e9], "std": [1.0, 1.0], "panel": "p", "label": "x"},
        "long": {"x": list(range(50)), "y": list(range(50)), "std": [1.0] * 50, "panel": "q"},
    }
    write_chart(tmp_path / "c.svg", "title <1>", lines, {"x": "<x>", "y": "&y", "log": "y"})
    ElementTree.parse(tmp_path / "c.svg")
    write_chart(tmp_path / "none.svg", "t", {}, {})
    assert not (tmp_path / "none.svg").exists()


def test_every_item_can_be_found():
    for name in registry.ITEMS:
        assert callable(registry.get(name)), name


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        run([str(a) for a in arguments])
    return int(stopped.value.code or 0)


def test_the_command_lists_runs_and_refuses(tmp_path, capsys):
    assert call("reproduce", "list") == 0
    assert "mp-mtl-fig6" in capsys.readouterr().out
    assert call("reproduce", "mp-mtl-prop1", "--quick", "--seed", 3, "-o", tmp_path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["run"]["seed"] == 3
    assert (tmp_path / "prop1-quick.json").exists()
    assert call("reproduce", "mp-mtl-prop1", "--repeats", 5) == 2, "this item has no replications"
    assert call("reproduce", "nothing") == 2


def test_the_committed_pages_are_what_the_committed_results_make():
    stale = [path for path, text in readme.pages().items() if path.read_text() != text]
    assert not stale, "run: python -m experiments.readme"


def test_what_holds_fits_one_page():
    assert len(readme.page().splitlines()) <= readme.LONGEST


def test_every_picture_of_the_long_pages_is_there():
    for path, text in readme.pages().items():
        shown = re.findall(r"!\[[^\]]*\]\((results/[^)]+)\)", text)
        assert all((path.parent / picture).is_file() for picture in shown)
        assert shown or path == readme.PAGE


def test_no_panel_has_more_than_eight_lines_and_every_line_goes_along_its_axis():
    for found in readme.results():
        lines = [line for line in found.document["series"].values() if "x" in line]
        panels = Counter(line.get("panel", "") for line in lines)
        assert not panels or max(panels.values()) <= 8, found.name
        numeric = [line["x"] for line in lines if all(isinstance(x, int | float) for x in line["x"])]
        assert all(x == sorted(x) for x in numeric), found.name


def test_what_an_older_version_made_is_marked_and_its_difference_is_said(monkeypatch):
    """Two made-up items: the older one's rows carry a mark and its difference stands in the table, the newer one's do not."""
    monkeypatch.setattr("experiments.ponomarenko_2023.page.OLDER", {"fig11": "other constants"}, raising=False)
    checks = [document(computed("c", 0.0, 1.0))]
    made = [
        readme.Found(f"svm-{stem}", "svm", stem, {"run": {"versions": {"taskveil": version}}, "checks": checks})
        for stem, version in (("fig11", "0.2.0"), ("fig12", "0.10.0"))
    ]
    older, newer = readme.marked(made)
    assert readme.claim_rows(older, True)[0].startswith("| svm-fig11 (older) |")
    assert readme.claim_rows(newer, True)[0].startswith("| svm-fig12 |")
    assert "`svm-fig11` | other constants" in readme.origins([older, newer]) and "fig12" not in readme.origins([older, newer])


@pytest.mark.parametrize(
    "note, kept", [("other constants", [True, None, None, False]), ("nothing: as it was", [True, False, True, False])]
)
def test_an_older_item_decides_nothing_in_our_favour_unless_nothing_is_different(note, kept):
    said = [
        document(computed("c", 0.0, ours, about=about))
        for about, ours in (("paper", 1.0), ("paper", -1.0), ("ours", 1.0), ("ours", -1.0))
    ]
    found = readme.Found("svm-fig11", "svm", "fig11", {"checks": said}, note)
    assert [c["holds"] for c in readme.open_where_ours(found).document["checks"]] == kept
    assert [c["holds"] for c in said] == [True, False, True, False], "what is stored stays"


def test_no_difference_is_told_of_an_item_that_was_run_again():
    """Notes on `fig10` and `fig12` outlived the runs that made them wrong."""
    older = {(found.paper, found.stem) for found in readme.results() if found.older}
    for paper, folder in registry.FOLDERS.items():
        told = getattr(import_module(f"experiments.{folder}.page"), "OLDER", {})
        assert {(paper, stem) for stem in told} <= older, f"take the note out of experiments/{folder}/page.py"


def test_a_check_of_other_settings_than_those_drawn_does_not_count():
    """Rows of the headline: what was checked is what was drawn; with another clip the same rows are open."""
    from experiments.liang_2020 import page

    (found,) = (f for f in readme.results() if f.name == "mp-mtl-headline")
    assert all(isinstance(row, Row) for row in page.tuned_rows("headline", found.document))
    moved = json.loads(json.dumps(found.document))
    for cells in moved["settings"]["chosen by cross-validation"].values():
        for options in cells.values():
            if isinstance(options, dict) and "clip" in options:
                options["clip"] *= 1.001
    assert page.tuned_rows("headline", moved) == [None, None]


def test_the_page_says_of_every_tuned_row_whether_it_was_checked():
    found = readme.results()
    rows = list(readme.checked_rows(found))
    assert {paper for paper, *_ in rows} == set(registry.FOLDERS)
    said = readme.starved(found)
    assert all(item in said for _, item, *_ in rows)
    assert all(many >= whole + len(checked) for _, _, many, whole, checked in rows)


def test_claims_that_differ_in_numbers_share_a_row_and_lose_none():
    checks = [{"claim": f"{s}%: LR beats {m} at epsilon {e:g}"} for s in (30, 50) for m in ("DP-1", "DP-2") for e in (0.1, 1)]
    said = readme.grouped(checks)
    assert list(said) == ["...: LR beats DP-1 at epsilon ...", "...: LR beats DP-2 at epsilon ..."]
    assert [at for at, _ in said["...: LR beats DP-1 at epsilon ..."]] == ["30% 0.1", "30% 1", "50% 0.1", "50% 1"]


def test_a_resumed_call_leaves_out_what_is_done(tmp_path, capsys):
    asked = ("reproduce", "mp-mtl-prop1", "--quick", "--seed", 3, "-o", tmp_path)
    assert call(*asked) == 0
    before = (tmp_path / "prop1-quick.json").stat().st_mtime_ns
    assert call(*asked, "--resume") == 0 and (tmp_path / "prop1-quick.json").stat().st_mtime_ns == before
    assert "1/1 mp-mtl-prop1" in capsys.readouterr().err


def test_a_resumed_call_runs_again_what_another_version_made(tmp_path):
    """Seventeen results of an older version were never run again: `--resume` took them for done."""
    asked = ("reproduce", "mp-mtl-prop1", "--quick", "--seed", 3, "-o", tmp_path)
    assert call(*asked) == 0
    file = tmp_path / "prop1-quick.json"
    made = json.loads(file.read_text())
    older = made | {"run": made["run"] | {"versions": made["run"]["versions"] | {"taskveil": "0.0.1"}}}
    file.write_text(json.dumps(older))
    assert call(*asked, "--resume") == 0
    assert json.loads(file.read_text())["run"]["versions"] == made["run"]["versions"]


def test_papers_run_side_by_side_and_nothing_is_lost(tmp_path, capsys, monkeypatch):
    """Two items that cost nothing, of two papers, in processes of their own; both documents come back in order."""
    every = registry.ITEMS
    monkeypatch.setattr(registry, "ITEMS", {n: every[n] for n in ("mp-mtl-prop1", "svm-complexity")})
    assert call("reproduce", "all", "--quick", "--json", "-o", tmp_path) == 0
    assert [d["name"] for d in json.loads(capsys.readouterr().out)] == ["prop1", "complexity"]
    assert {f.parent.name for f in tmp_path.glob("*/*-quick.json")} == {"liang_2020", "ponomarenko_2023"}
    monkeypatch.setattr(registry, "ITEMS", every)
    parts = registry.side_by_side(list(every))
    assert sorted(n for part in parts for n in part) == sorted(every) and max(map(len, parts)) < len(every) / 2


def test_results_of_quick_runs_are_not_committed():
    """They are ignored by git; every committed picture and table comes from a full run."""
    ignored = (readme.HERE.parent / ".gitignore").read_text().split("\n")
    assert "experiments/*/results/*-quick.*" in ignored
    assert not [found.name for found in readme.results() if found.document["run"]["quick"]]


def test_the_readme_of_the_experiments_names_every_folder():
    text = (readme.HERE / "README.md").read_text()
    assert all(f"`{folder.name}/`" in text for folder in readme.HERE.iterdir() if (folder / "__init__.py").exists())


def test_every_row_has_a_command_a_seed_versions_and_a_date():
    for found in readme.results():
        assert {"seed", "versions", "date"} <= set(found.document["run"]), found.name
        assert command(found.name, found.document["run"]).startswith(f"taskveil reproduce {found.name} ")


def test_results_are_small():
    for found in readme.results():
        folder = found.picture.parent
        assert (folder / f"{found.stem}.json").stat().st_size < 200_000, found.name


@pytest.mark.parametrize("name", ["mp-mtl-fig2", "mp-mtl-prop1", "mp-mtl-lemmas", "mp-mtl-fig3", "mp-mtl-fig5"])
def test_a_quick_item_runs_and_the_papers_claim_stands_or_is_reported(name, tmp_path):
    document = execute(registry.get(name), quick=True, seed=0, folder=tmp_path)
    assert document["checks"]
    assert all(c["holds"] is not False for c in document["checks"] if c["about"] == "ours"), document["verdict"]
