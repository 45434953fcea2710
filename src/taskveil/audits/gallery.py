"""Attacks people understand, with a picture each.

    model_leakage        the example of MP-MTL Fig. 2: before, leaked, protected
    wishart_membership   is the task there? Against the paper's Wishart noise the answer is often certain
    row_reconstruction   rows of a task from un-noised gradients, and from masked SVM updates
    secure_attacks       a large site and a lying server against secure sums: up to version 0.1.0, and now

An entry is one line in ATTACKS, `module:function`, and one function in a module of its own (`audits/my_attack.py`):

    def my_attack(seed: int = 0) -> Attack:
        '''What the attacker sees, what he computes, against which claim.'''
        ...runs the real code path, in seconds, with all randomness from `seed`...
        return Attack(name, sentence, data, figure)

    name       file name of its page: letters and hyphens, unique
    sentence   one sentence a privacy officer reads: what was found without protection, and what with it
    data       plain JSON: the numbers behind the sentence, so that a test can check what the sentence says
    figure     () -> a figure in Plotly's JSON (data and layout), made from `data` alone; report/gallery_page.py makes the page

Attacks that need a network or other extras import them inside the function and raise EnvironmentMissing where they are not
installed; such an entry is left out of the gallery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from taskveil.errors import EnvironmentMissing


@dataclass(frozen=True)
class Attack:
    """What an attack found, in numbers and in a sentence; `figure()` is the picture, in Plotly's JSON."""

    name: str
    sentence: str
    data: dict[str, Any]
    figure: Callable[[], dict[str, Any]] = field(repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values, for the page."""
        return {"name": self.name, "sentence": self.sentence, "data": self.data}


ATTACKS = (
    "model_leakage:model_leakage",
    "wishart_membership:wishart_membership",
    "row_reconstruction:gradient_reconstruction",
    "row_reconstruction:masked_update_reconstruction",
    "secure_attacks:site_collusion",
    "secure_attacks:two_stories",
    "federation_attacks:lying_server",
)


def attacks(seed: int = 0) -> list[Attack]:
    """All whose extras are installed."""
    results = []
    for entry in ATTACKS:
        module, function = entry.split(":")
        with suppress(EnvironmentMissing):
            results.append(getattr(import_module(f"taskveil.audits.{module}"), function)(seed=seed))
    return results


def bars(
    series: Mapping[str, Sequence[float]], names: Sequence[str], title: str, height: str = "", **axis: Any
) -> dict[str, Any]:
    """Grouped bars: one colour for each of `series`, one group for each of `names`; `height` says what is measured."""
    data = [{"type": "bar", "name": name, "x": list(names), "y": list(values)} for name, values in series.items()]
    return {"data": data, "layout": {"title": {"text": title}, "barmode": "group", "yaxis": {"title": {"text": height}, **axis}}}


def beside(panels: Mapping[str, list[dict[str, Any]]], title: str, gap: float = 0.06) -> dict[str, Any]:
    """Panels in one row, each with its traces and its name above."""
    width = (1 + gap) / len(panels) - gap
    data, layout, names = [], {"title": {"text": title}, "margin": {"t": 90}}, []
    for k, (name, traces) in enumerate(panels.items()):
        number, start = "" if k == 0 else str(k + 1), k * (width + gap)
        data += [{**trace, "xaxis": f"x{number}", "yaxis": f"y{number}"} for trace in traces]
        layout[f"xaxis{number}"] = {"domain": [start, start + width], "anchor": f"y{number}"}
        layout[f"yaxis{number}"] = {"anchor": f"x{number}"}
        place = {"x": start + width / 2, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "center", "yanchor": "bottom"}
        names.append({**place, "text": name, "showarrow": False})
    return {"data": data, "layout": {**layout, "annotations": names}}
