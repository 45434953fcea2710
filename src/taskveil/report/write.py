"""Pages written to disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from taskveil.report.audience import Audience, cut
from taskveil.report.records import GAIN, Run, from_estimator, measured_gain, read, read_groups, read_json
from taskveil.saved import total, write_file


def write_report(estimator: Any, folder: str | Path) -> Path:
    """Write the page of a fitted estimator into the folder it was saved to. gain.json is kept beside it for later pages."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    gain = measured_gain(estimator, place)
    _write(place / GAIN, json.dumps(gain, indent=1))
    return write_page(from_estimator(estimator, gain, audits=(there := read(place)).audits, table=there.table), Audience(), place)


def write_comparison(result: Mapping[str, Any], folder: str | Path, estimator: Any = None) -> Path:
    """Write the page of a comparison; with a fitted estimator that was saved in folder/model, the page of both."""
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    if estimator is not None:
        _write(place / "model" / GAIN, json.dumps(measured_gain(estimator, place / "model"), indent=1))
    if read_json(place / "results.json") is None:
        _write(place / "results.json", json.dumps(result, indent=1))
    return write_page(read(place), Audience(), place)


def report_folder(folder: str | Path, audience: Audience | None = None, groups: str | Path | None = None) -> Path:
    """Write the page of a folder for one kind of reader. `groups` is a file with declared groups of tasks."""
    audience, run = audience or Audience(), read(Path(folder))
    if groups is not None:
        run = replace(run, groups=read_groups(Path(groups), run.task_names))
    cut(run, audience)  # whoever may not have this page is told so first
    with total(f"what {folder} holds"):
        return write_page(run, audience, Path(folder))


def write_page(run: Run, audience: Audience, folder: Path) -> Path:
    from taskveil.report.page import render

    path = folder / audience.file_name()
    _write(path, render(cut(run, audience), audience))
    return path


def _write(path: Path, text: str) -> None:
    write_file(path, text.encode())
