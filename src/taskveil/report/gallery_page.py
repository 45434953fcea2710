"""The gallery of attacks as pages: one self-contained file each, drawn by the bundle that the report uses."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import taskveil
from taskveil.audits.gallery import attacks
from taskveil.report.page import embedded, plotly_script, template, text


def write_gallery(folder: Path, seed: int = 0) -> list[Path]:
    """One page per attack, and gallery.json with the numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    results, written = attacks(seed), []
    for attack in results:
        page = folder / f"{attack.name}.html"
        words = {"name": attack.name, "sentence": attack.sentence, "version": taskveil.__version__, "style": text("page.css")}
        page.write_text(
            template("attack.html.j2").render(
                written=f"{datetime.now(UTC):%Y-%m-%d}", figure=embedded(attack.figure()), plotly=plotly_script(), **words
            ),
            encoding="utf-8",
        )
        written.append(page)
    numbers = folder / "gallery.json"
    numbers.write_text(json.dumps([a.to_dict() for a in results], indent=1))
    return [*written, numbers]
