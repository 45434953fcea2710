"""Attacks people understand, with a picture each.

    model_leakage        the example of MP-MTL Fig. 2: before, leaked, protected
    wishart_membership   is the task there? Against the paper's Wishart noise the answer is often certain
    row_reconstruction   rows of a task from un-noised gradients, and from masked SVM updates
    secure_attacks       a large site and a lying server against secure sums: up to version 0.1.0, and now

An entry is one line in ATTACKS, `module:function`, and one function in a module of its own (`audits/my_attack.py`):

    def my_attack(seed: int = 0) -> Attack:
        '''What the attacker sees, what he computes, against which claim.'''
        ...runs the real code path, in seconds, with all randomness from `seed`...
        return Attack(name, sentence, data, draw)

    name       file name of its page: letters and hyphens, unique
    sentence   one sentence a privacy officer reads: what was found without protection, and what with it
    data       plain JSON: the numbers behind the sentence, so that a test can check what the sentence says
    draw       () -> a Plotly figure made from `data` alone; called only when a page is written, so Plotly is imported there

Attacks that need a network or other extras import them inside the function and raise EnvironmentMissing where they are not
installed; such an entry is left out of the gallery.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from taskveil.errors import EnvironmentMissing


@dataclass(frozen=True)
class Attack:
    """What an attack found, in numbers and in a sentence; `figure()` draws it."""

    name: str
    sentence: str
    data: dict[str, Any]
    draw: Callable[[], Any] = field(repr=False, compare=False)

    def figure(self) -> Any:
        """A Plotly figure."""
        try:
            import plotly  # noqa: F401
        except ImportError:
            raise EnvironmentMissing("pictures need Plotly: pip install 'taskveil[report]'") from None
        return self.draw()

    def to_dict(self) -> dict[str, Any]:
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
    found = []
    for entry in ATTACKS:
        module, function = entry.split(":")
        with suppress(EnvironmentMissing):
            found.append(getattr(import_module(f"taskveil.audits.{module}"), function)(seed=seed))
    return found


def write_gallery(folder: Path, seed: int = 0) -> list[Path]:
    """One self-contained page per attack, and gallery.json with the numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    found, written = attacks(seed), []
    for attack in found:
        page = folder / f"{attack.name}.html"
        attack.figure().write_html(page, include_plotlyjs=True, full_html=True)
        written.append(page)
    numbers = folder / "gallery.json"
    numbers.write_text(json.dumps([a.to_dict() for a in found], indent=1))
    return [*written, numbers]
