"""Run every planted fault and the papers' claims, write the results as JSON and the tables of docs/audit.md from it.

python tools/audit_table.py            run (some minutes) and write docs/audit_results.json, docs/audit.md
python tools/audit_table.py --write    only rewrite the tables from the JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
RESULTS, PAGE = DOCS / "audit_results.json", DOCS / "audit.md"
SEED = 20


def measure() -> dict[str, list[dict[str, Any]]]:
    from tests.support.audit_cases import CASES, on_mechanism, on_method

    found: dict[str, list[dict[str, Any]]] = {"faults": [], "claims": []}
    for case in sorted(CASES, key=lambda case: case.slow):
        sound = case.audit(SEED)
        with case.plant():
            broken = case.audit(SEED)
        row = {"fault": case.fault, "where": case.where, "attack": broken.attack.split(" above")[0].split(" at or")[0],
               "claimed": broken.claimed_epsilon, "sound": sound.to_dict(), "broken": broken.to_dict()}  # fmt: skip
        found["faults"].append(row)
        print(case.fault, "|", case.where, "|", sound.lower_bound, "|", broken.lower_bound, broken.verdict, flush=True)
    claims = {
        "Gaussian, one release": on_mechanism("gaussian"),
        "symmetric Gaussian, one release": on_mechanism("matrix-gaussian"),
        "two-sided Wishart, d = 1 (Laplace)": on_mechanism("two-sided-wishart"),
        "two-sided Wishart, d = 2, replace-one": on_mechanism("two-sided-wishart", neighbours="replace-one"),
        "two-sided Wishart, d = 1, low bits of doubles": on_mechanism("two-sided-wishart", low_bits=True),
        "Laplace": on_mechanism("laplace"),
        "l2-Laplace": on_mechanism("l2-laplace", trials=50_000),
        "paper's Wishart (MP-MTL)": on_mechanism("paper-wishart"),
        "low-rank --variant paper, end to end": on_method("low-rank", variant="paper"),
        "group-sparse --variant paper, end to end": on_method("group-sparse", variant="paper"),
    }
    for name, audit in claims.items():
        result = audit(SEED)
        found["claims"].append({"claim": name, **result.to_dict()})
        print(name, "|", result.lower_bound, result.verdict, flush=True)
    return found


def tables(found: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    faults = [
        "| fault | where | attack | claimed | bound without the fault | bound with it | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in found["faults"]:
        faults.append(
            f"| {r['fault']} | {r['where']} | {r['attack']} | {r['claimed']:.3g} | {r['sound']['lower_bound']:.2f} "
            f"| {r['broken']['lower_bound']:.2f} | {r['broken']['verdict']} |"
        )
    claims = [
        "| claim at epsilon 1 | runs of each neighbour | lower bound, 95 % | bound at 1 - 1e-6 | verdict |",
        "|---|---|---|---|---|",
    ]
    for r in found["claims"]:
        claims.append(
            f"| {r['claim']} | {r['trials']:,} | {r['lower_bound']:.2f} | {r['refutation_bound']:.2f} | {r['verdict']} |"
        )
    return {"faults": "\n".join(faults), "claims": "\n".join(claims)}


def rewrite(page: str, made: dict[str, str]) -> str:
    """The page with the text between `<!-- name -->` and `<!-- end -->` replaced."""
    for name, text in made.items():
        head, _, rest = page.partition(f"<!-- {name} -->\n")
        _, _, tail = rest.partition("<!-- end -->")
        page = f"{head}<!-- {name} -->\n{text}\n<!-- end -->{tail}"
    return page


if __name__ == "__main__":
    if "--write" not in sys.argv:
        RESULTS.write_text(json.dumps(measure(), indent=1) + "\n")
    PAGE.write_text(rewrite(PAGE.read_text(), tables(json.loads(RESULTS.read_text()))))
