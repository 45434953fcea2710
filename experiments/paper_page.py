"""A paper's own long page, written from the JSON in its results/: every item with its claim, checks, numbers and picture.

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
        (HERE / name / "README.md").write_text(paper_page(name))


def paper_page(name: str) -> str:
    """The long page of one folder: its head, then every item with its tables and pictures, then how they were made."""
    module, folder = import_module(f"experiments.{name}.page"), HERE / name
    found = {item: newest(folder / "results", item) for item in import_module(f"experiments.{name}").ITEMS}
    known = {item: document for item, document in found.items() if document is not None}
    parts = [module.HEAD.strip(), *(section(module, item, document) for item, document in known.items())]
    more = [module.tail()] if hasattr(module, "tail") else []
    return "\n\n".join([*parts, *more, made(known)]) + "\n"


def made(known: dict[str, dict[str, Any]]) -> str:
    """Seeds, dates, time, versions."""
    rows = []
    for item, document in known.items():
        run = document["run"]
        repeats = document["settings"].get("repeats") or run.get("repeats") or "-"
        rows.append(
            [
                item,
                run["seed"],
                repeats,
                run["date"],
                f"{run.get('cpu_seconds', run['seconds']):.0f}",
                "quick" if run["quick"] else "full",
            ]
        )
    versions = sorted({json.dumps(d["run"]["versions"], sort_keys=True) for d in known.values()})
    said = [", ".join(f"{k} {v}" for k, v in json.loads(v).items()) for v in versions]
    table = markdown(["item", "seed", "replications", "date", "processor seconds", "run"], rows)
    return f"## How it was made\n\n{table}\n\nVersions: {'; '.join(said)}."


def scores_over_epsilon(document: dict[str, Any]) -> str:
    """The curves of a figure over epsilon as numbers."""
    lines = document["series"]
    epsilons = sorted({x for line in lines.values() for x in line.get("x", ()) if not isinstance(x, str)})
    rows = []
    for name, line in lines.items():
        spread = line.get("std") or [0.0] * len(line["y"])
        at = dict(zip(line["x"], zip(line["y"], spread, strict=True), strict=True))
        rows.append([name, *(f"{at[e][0]:.4f} ± {at[e][1]:.4f}" if e in at else "" for e in epsilons)])
    return markdown([document["axes"]["y"], *(f"{e:g}" for e in epsilons)], rows)


def newest(results: Path, item: str) -> dict[str, Any] | None:
    """The full run where there is one, else the quick one."""
    for stem in (item, f"{item}-quick"):
        if (results / f"{stem}.json").exists():
            return json.loads((results / f"{stem}.json").read_text())
    return None


def section(module: Any, item: str, document: dict[str, Any]) -> str:
    run, table, older = document["run"], module.TABLES.get(item), getattr(module, "OLDER", {}).get(item)
    lines = [
        f"## {item}: {document['claim']}",
        f"`{command(f'{module.PREFIX}-{item}', run)}` ({run['date']}, {run['seconds']:.0f} s)",
    ]
    if older:
        lines.append(f"Older than the other items; what is different: {older}.")
    for label, key in (("Paper", "paper_value"), ("As printed", "as_printed"), ("Sound", "sound")):
        if document[key]:
            lines.append(f"{label}: {document[key]}")
    if table is not None:
        lines.append(markdown(*table(document)))
    if document["axes"].get("x") == "epsilon" and document["series"]:
        lines.append(scores_over_epsilon(document))
    if document["checks"]:
        rows = [[c["claim"], c["about"], *measured(c), outcome(c)] for c in document["checks"]]
        lines.append(markdown(["claim", "whose", "quantity", "where", "printed", "ours", "interval", "verdict"], rows))
    stem = f"{document['name']}-quick" if run["quick"] else document["name"]
    if document["series"]:
        lines.append(f"![{item}](results/{stem}.svg)")
    return "\n\n".join(lines)


def command(name: str, run: dict[str, Any]) -> str:
    """What makes an item again."""
    repeats = f" --repeats {run['repeats']}" if run.get("repeats") else ""
    return f"taskveil reproduce {name}{' --quick' if run['quick'] else ''}{repeats} --seed {run['seed']}"


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
