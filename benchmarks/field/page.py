"""results.md and field.svg from the stored scores: every row with its seeds, date and versions, ours and theirs, won or lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from experiments.svg import write_chart

from benchmarks.field.measure import stored
from benchmarks.field.setting import PRINTED, Setting

HERE = Path(__file__).parent
ABSENT = (float("nan"), 0.0)
STORED = "those of the stored run"
HEAD = "| what | whose | epsilon | {measure} | seeds | protected against | date | versions |\n|---|---|---|---|---|---|---|---|"


def section(setting: Setting, rows: dict[str, Any]) -> str:
    """One setting as text: the sentence, the table, what must hold and does or does not, what to know before comparing."""
    lines = [
        f"## {setting.title}",
        "",
        f"{setting.source}. {setting.protocol}",
        "",
        f"Every private row: {setting.guarantee}. {setting.peers}".rstrip(),
        "",
    ]
    lines += [HEAD.format(measure=setting.measure), *(_printed(setting)), *(_measured(setting, rows)), ""]
    lines += [
        f"* {'Holds' if holds else 'Does NOT hold' if holds is False else 'Not measured'}: {claim}."
        for claim, holds in verdicts(setting, rows)
    ]
    if any(0 < len(row["scores"]) < len(setting.seeds) for row in rows.values()):
        lines.append(
            f"* Rows of fewer than {len(setting.seeds)} seeds are not finished: seeds differ, so compare rows of the same number only."
        )
    return "\n".join([*lines, *(f"* {remark}" for remark in setting.remarks), ""])


def means(rows: dict[str, Any]) -> dict[str, float]:
    return {key: float(np.mean(list(row["scores"].values()))) for key, row in rows.items() if row["scores"]}


def verdicts(setting: Setting, rows: dict[str, Any]) -> list[tuple[str, bool | None]]:
    """What must hold, and whether it does; None where a row it speaks of was not measured."""
    found, scores = [], means(rows)
    for bar in setting.bars:
        try:
            found.append((bar.claim, bool(bar.holds(scores))))
        except KeyError:
            found.append((bar.claim, None))
    return found


def _printed(setting: Setting) -> list[str]:
    return [
        f"| {p.what} | {PRINTED} | {_epsilon(p.epsilon)} | {_figure(p.value, p.spread, setting.digits)} | | | | |"
        for p in setting.published
    ]


def _measured(setting: Setting, rows: dict[str, Any]) -> list[str]:
    lines = []
    for entry in setting.entries:
        row = rows.get(entry.key, {"scores": {}})
        scores = list(row["scores"].values())
        if not scores:
            lines.append(f"| {entry.what} | {entry.who} | {_epsilon(entry.epsilon)} | not measured | | | | |")
            continue
        spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
        figure, versions = (
            _figure(float(np.mean(scores)), spread, setting.digits),
            ", ".join(f"{k} {v}" for k, v in row["versions"].items()) or STORED,
        )
        lines.append(
            f"| {entry.what} | {entry.who} | {_epsilon(entry.epsilon)} | {figure} | {len(scores)} | {entry.sees or '-'} | {row['date']} | {versions} |"
        )
    return lines


def _epsilon(epsilon: float | None) -> str:
    return "none" if epsilon is None else f"{epsilon:g}"


def _figure(value: float, spread: float | None, digits: int) -> str:
    return f"{value:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def picture(known: dict[str, Setting], path: Path) -> None:
    """A panel for every setting: ours, re-run peers and printed figures over epsilon."""
    lines: dict[str, Any] = {}
    for setting in known.values():
        rows = stored(setting)
        points = [(p.epsilon, p.value, p.spread or 0.0, PRINTED) for p in setting.published]
        for entry in setting.entries:
            scores = list(rows.get(entry.key, {}).get("scores", {}).values())
            if scores:
                spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else 0.0
                points.append((entry.epsilon, float(np.mean(scores)), spread, entry.who))
        better = min if setting.lower_is_better else max
        order = sorted({_epsilon(p[0]) for p in points}, key=lambda e: float("inf") if e == "none" else float(e))
        for who in dict.fromkeys(p[3] for p in points):
            best: dict[str, tuple[float, float]] = {}
            for epsilon, value, spread, whose in points:
                if whose == who:
                    place = _epsilon(epsilon)
                    best[place] = better(best.get(place, (value, spread)), (value, spread))
            heading = f"{setting.title}: {'lower' if setting.lower_is_better else 'higher'} is better"
            lines[f"{setting.name}, {who}"] = {
                "x": order, "y": [best.get(e, ABSENT)[0] for e in order], "std": [best.get(e, ABSENT)[1] for e in order],
                "panel": heading, "label": f"best {who}",
            }  # fmt: skip
    write_chart(path, "The field's settings: the best row of each kind at each epsilon", lines, {"y": "measure of the setting"})


def write(known: dict[str, Setting]) -> None:
    text = [
        "Generated by `python -m benchmarks.field` from `benchmarks/field/results/`; do not edit. Means and standard deviations over seeds."
    ]
    text += ["", "![The best printed, re-run and own row of every setting](field.svg)", ""]
    text += [section(setting, stored(setting)) for setting in known.values()]
    (HERE / "results.md").write_text("\n".join(text))
    picture(known, HERE / "field.svg")
