"""taskveil status: how a server or a site is doing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from taskveil.cli.flags import Given
from taskveil.cli.options import answer, json_option


@click.command("status", epilog="Example: taskveil status trial/; taskveil status trial/sites/north")
@click.argument("directory", type=Given(exists=True, file_okay=False))
@json_option
def command(directory: str, as_json: bool) -> int:
    """Show sites, rounds, refusals, budget and versions in DIRECTORY (server or site). Exit with 1 if something needs attention.

    status.html in the same folder shows the same and refreshes itself; a site has it in its state folder.
    """
    from taskveil.runtime.federation.status import read

    content = read(Path(directory))
    answer(as_json, content, words(content))
    return 1 if content["alarms"] else 0


def words(content: dict[str, Any]) -> str:
    """Plain text, one line per site and account."""
    from taskveil.privacy.ledger.overview import amount
    from taskveil.runtime.federation.status import seen_as

    plan = content["plan"]
    lines = [f"{content['role']} {content['name']}: {content['phase']}"]
    if content.get("rounds"):
        lines[0] += f", {content['round']} of {content['rounds']} {'rounds' if content['role'] == 'server' else 'messages'}"
    if plan.get("epsilon") is not None:
        spent = "" if content.get("spent") is None else f", {content['spent']:.4g} so far"
        lines.append(f"epsilon {plan['epsilon']:.4g}{spent} at delta {plan['delta']:.2g}, one {plan['unit']}, {plan['observer']}")
    for s in content["sites"]:
        sign, state, _ = seen_as(s, content.get("connected") or ())
        why = f"  {s['reason']}" if s.get("reason") else ""
        lines.append(f"  {sign} {s['name']:<20}{state:<22}{s.get('answered', 0)} of {s.get('asked', 0)} answered{why}")
    for a in content["accounts"]:
        what = f"  account {a['account']} ({a['unit']}, {a['observer']})"
        lines.append(f"{what}: {amount(a['spent'])} of {a['limit']:.4g}, {a['left']:.4g} left")
    lines += [f"ALARM: {text}" for text in content["alarms"]] or ["nothing to look at"]
    lines.append("software: " + ", ".join(f"{k} {v}" for k, v in content["versions"].items()))
    return "\n".join("".join(c for c in line if c.isprintable()) for line in lines)
