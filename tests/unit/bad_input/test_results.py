"""results.json of a comparison, damaged: the page is made or refused in one line, never a defect."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.wrong import label, one_line

from taskveil.cli.main import run

pytest.importorskip("jinja2")
WRONG: tuple[Any, ...] = (None, 3, "x", "\ud800", [], [1], {"a": 1})


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("compared") / "c"
    with pytest.raises(SystemExit):
        run(["compare", "synthetic:tiny", "--methods", "local,mean", "--epsilons", "1", "--repeats", "1", "-o", str(folder)])
    return dict(json.loads((folder / "results.json").read_text()))


def reported(document: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> int:
    (folder / "results.json").write_text(json.dumps(document))
    with pytest.raises(SystemExit) as ended:
        run(["report", str(folder)])
    said, code = capsys.readouterr().err, int(ended.value.code or 0)
    assert code in (0, 2), said
    if code:
        one_line(said)
        assert not (folder / "report.html").exists()
    return code


@pytest.mark.parametrize("value", [*WRONG, {}], ids=label)
def test_another_document_is_refused(value, tmp_path, capsys):
    assert reported(value, tmp_path, capsys) == 2


@pytest.mark.parametrize("value", WRONG[::2], ids=label)
def test_a_wrong_entry_is_no_defect(value, compared, tmp_path, capsys):
    for name in ("metric", "data", "results", "recommendation", "repeats", "note", "gain"):
        if name in compared:
            reported({**compared, name: value}, tmp_path, capsys)
            (tmp_path / "report.html").unlink(missing_ok=True)
    for name in ("method", "epsilon", "mean", "std", "scores", "seconds"):
        changed = copy.deepcopy(compared)
        changed["results"][0][name] = value
        reported(changed, tmp_path, capsys)
        (tmp_path / "report.html").unlink(missing_ok=True)
