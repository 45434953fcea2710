"""Attacks people understand, with a picture each.

    model_leakage        the example of MP-MTL Fig. 2: before, leaked, protected
    wishart_membership   is the task there? Against the paper's Wishart noise the answer is often certain
    row_reconstruction   rows of a task from un-noised gradients, and from masked SVM updates
    secure_attacks       a large site and a lying server against secure sums: up to version 0.1.0, and now

Every function returns an `Attack`: the numbers, and a Plotly figure when asked for (Plotly is imported then).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
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


def attacks(seed: int = 0) -> list[Attack]:
    """All of them."""
    from taskveil.audits.model_leakage import model_leakage
    from taskveil.audits.row_reconstruction import gradient_reconstruction, masked_update_reconstruction
    from taskveil.audits.secure_attacks import site_collusion, two_stories
    from taskveil.audits.wishart_membership import wishart_membership

    return [
        model_leakage(seed=seed), wishart_membership(seed=seed), gradient_reconstruction(seed=seed),
        masked_update_reconstruction(seed=seed), site_collusion(), two_stories(),
    ]  # fmt: skip


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
