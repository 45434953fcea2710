"""Who may see what. A page is cut to its reader here, before a word or a curve is made of it.

    all       someone entitled to all rows: counts over tasks, every task's gain, timings
    owner     one task: its own gain and model; besides that only what is public
    public    billboard, certificate, settings

The billboard is public only if the certificate holds: without noise, with seeded noise or with a refuted claim it is a
statistic of other people's rows, and stays off the pages of owners and the public. Arrays of the billboard that run over
tasks are sent to each task in part; an owner sees its own part, the public none. Timings, warnings and figures of a
comparison are statistics of everybody's rows and stay off as well (docs/theory/index.md#local-work).
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.errors import OptionError, UnknownName
from taskveil.names import file_name
from taskveil.report.records import Board, Run


@dataclass(frozen=True)
class Audience:
    """`kind` is "all", "owner" or "public"; an owner has a task."""

    kind: str = "all"
    task: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("all", "owner", "public"):
            raise OptionError(f"a page is for 'owner TASK' or 'public', got {self.kind!r}")
        if (self.kind == "owner") != (self.task is not None):
            raise OptionError("--for owner needs the name of one task: --for owner TASK")

    def banner(self) -> str:
        return {
            "all": "For someone entitled to all rows. Counts, errors and comparisons on this page are statistics of "
            "everybody's rows and are not covered by any epsilon; do not pass it on.",
            "owner": f"For the owner of {self.task} only: its own figures, and what is public.",
            "public": "For anybody: what every participant saw, the certificate and the settings. Nothing else.",
        }[self.kind]

    def file_name(self) -> str:
        if self.kind == "owner":
            return f"report-owner-{file_name(str(self.task))}.html"
        return "report-public.html" if self.kind == "public" else "report.html"


def cut(run: Run, audience: Audience) -> Run:
    """The part of a run this reader may see."""
    if audience.kind == "all":
        return run
    if run.certificate is None:
        raise OptionError("a comparison is for someone entitled to all rows; it has no page for an owner or the public")
    keep: dict[str, Any] = {
        "task_names": (), "gain": {}, "gain_summary": {}, "coefficients": {}, "survival": {}, "warnings": (), "task_warnings": {},
        "groups": {},
    }  # fmt: skip
    position = None
    if audience.kind == "owner":
        name = str(audience.task)
        if name not in run.task_names:
            names = {t.casefold(): t for t in run.task_names}
            close = difflib.get_close_matches(name.casefold(), names, n=1)
            hint = f"did you mean {names[close[0]]!r}?" if close else f"it has {len(names)} tasks"
            raise UnknownName(f"no task {name!r} in this run; {hint}")
        position = run.task_names.index(name)
        mine = run.gain.get(name)
        keep |= {
            "task_names": (name,),
            "gain": {} if mine is None else {name: mine},
            "coefficients": {name: run.coefficients[name]} if run.linear else {},
            "survival": {k: v for k, v in run.survival.items() if k == name},
            "warnings": run.task_warnings.get(name, ()),
            "groups": {k: v for k, v in run.groups.items() if k == name},
        }
    boards = tuple(_board(b, position) for b in run.boards) if run.holds else ()
    keep["feature_names"] = _without_found_levels(run)
    return replace(run, **keep, boards=boards, seconds=None, comparison=None, public=_sizes(run.public))


def _without_found_levels(run: Run) -> tuple[str, ...]:
    """Version 0.1.0 took category levels from rows: such columns are named by number, not by what a row said."""
    if not any("were taken from the data and count as public" in text for text in run.warnings):
        return run.feature_names
    return tuple(f"{name.partition('=')[0]} ({j})" if "=" in name else name for j, name in enumerate(run.feature_names))


def _board(board: Board, position: int | None) -> Board:
    values = {}
    for name, value in board.values.items():
        if name not in board.per_task:
            values[name] = value
        elif position is not None:
            values[name] = np.asarray(value)[position]
    return Board(board.round, values)


def _sizes(public: Any) -> Any:
    """Sizes everybody knows; no number of rows."""
    if public is None:
        return None
    return replace(public, min_rows=None, max_rows=None, task_rows=None)
