"""A paper's own page, written from the JSON in its results/: every item with its claim, checks and picture.

python -m experiments.paper_page ponomarenko_2023 xie_2017
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.verdicts import WORDS

HERE = Path(__file__).parent


def main(folders: list[str]) -> None:
    for name in folders:
        module = import_module(f"experiments.{name}.page")
        folder = HERE / name
        parts = [module.HEAD.strip()]
        for item in import_module(f"experiments.{name}").ITEMS:
            document = newest(folder / "results", item)
            if document is not None:
                parts.append(section(module.PREFIX, item, document, module.TABLES.get(item)))
        (folder / "README.md").write_text("\n\n".join(parts) + "\n")


def newest(results: Path, item: str) -> dict[str, Any] | None:
    """The full run where there is one, else the quick one."""
    for stem in (item, f"{item}-quick"):
        if (results / f"{stem}.json").exists():
            return json.loads((results / f"{stem}.json").read_text())
    return None


def section(prefix: str, item: str, document: dict[str, Any], table: Any) -> str:
    run = document["run"]
    command = f"taskveil reproduce {prefix}-{item}{' --quick' if run['quick'] else ''}"
    lines = [f"## {item}: {document['claim']}", f"`{command}` ({run['date']}, {run['seconds']:.0f} s)"]
    for label, key in (("Paper", "paper_value"), ("As printed", "as_printed"), ("Sound", "sound")):
        if document[key]:
            lines.append(f"{label}: {document[key]}")
    if table is not None:
        lines.append(markdown(*table(document)))
    if document["checks"]:
        rows = [[c["claim"], c["about"], *measured(c), outcome(c)] for c in document["checks"]]
        lines.append(markdown(["claim", "whose", "quantity", "where", "printed", "ours", "interval", "verdict"], rows))
    stem = f"{document['name']}-quick" if run["quick"] else document["name"]
    if document["series"]:
        lines.append(f"![{item}](results/{stem}.svg)")
    return "\n\n".join(lines)


def measured(check: dict[str, Any]) -> list[str]:
    """Quantity, place, printed value, ours, interval of what must be positive; results made before intervals had a p value."""
    ours = f"{check['left']:.4g} against {check['right']:.4g}"
    if "p_value" in check:
        return ["", "", "", ours, f"p {check['p_value']:.2g}"]
    ends = [f"{check[e]:.3g}" if check[e] is not None else "?" for e in ("low", "high")]
    runs = f", {check['runs']} runs" if check["runs"] else ""
    return [check["quantity"], check["place"], check["printed"], ours, f"{ends[0]} to {ends[1]}{runs}"]


def outcome(check: dict[str, Any]) -> str:
    return f"**{WORDS[False]}**" if check["holds"] is False else WORDS[check["holds"]]


def markdown(header: list[str], rows: list[list[Any]]) -> str:
    shown = ["| " + " | ".join(str(c).replace("|", "/") for c in row) + " |" for row in (header, *rows)]
    return "\n".join([shown[0], "|" + "---|" * len(header), *shown[1:]])


if __name__ == "__main__":
    main(sys.argv[1:])
