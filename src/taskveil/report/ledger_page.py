"""An organisation's own registry: accounts, limits, spending over time as a picture, the next refusal; without scripts."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import Any

import taskveil
from taskveil.privacy.ledger.overview import amount
from taskveil.report.page import text

WIDTH, HEIGHT, PAD = 640, 150, 34


def page(accounts: list[dict[str, Any]]) -> str:
    """The whole page."""
    parts = [account(a) for a in accounts] or ["<p>This ledger has no account.</p>"]
    head = text("ledger-head.html").format(
        style=text("page.css"), version=taskveil.__version__, date=f"{datetime.now(UTC):%Y-%m-%d}"
    )
    return head + "\n".join(parts) + "</main></body></html>\n"


def words(a: dict[str, Any]) -> str:
    """When the next refusal comes."""
    if a["next_run_fits"] is None:
        return "No run yet."
    if a["runs_left"] is None:
        return "More than a thousand runs like the last one fit."
    if a["runs_left"] == 0:
        return "The next run like the last one is refused."
    return f"{a['runs_left']} more run(s) like the last one fit; the one after is refused."


def account(a: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr>{_cell('when', p['at'][:16].replace('T', ' '))}{_cell('run', p['run'])}{_cell('entry', p['what'])}"
        f"{_cell('epsilon after it', amount(p['spent']))}</tr>"
        for p in a["history"]
    )
    history = (
        f"{picture(a)}<div class=scroll><table class=stack><thead><tr><th>when</th><th>run</th><th>entry</th>"
        f"<th>epsilon after it, delta {a['delta']:g}</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
    return (
        f"<section class=card><h2>{escape(a['account'])}</h2><p>One {a['unit']} ({a['neighbours']}) against {a['observer']}: "
        f"epsilon {amount(a['spent'])} of {a['limit']:g} spent at delta {a['delta']:g}, composed by {escape(a['rule'])}. "
        f"{words(a)}</p>{history if rows else ''}</section>"
    )


def _cell(title: str, value: object) -> str:
    return f"<td data-head='{title}'>{escape(str(value))}</td>"


def picture(a: dict[str, Any]) -> str:
    """Steps of spending under the line of the limit."""
    values = [0.0, *(p["spent"] for p in a["history"] if p["spent"] is not None)]
    top = 1.15 * max(a["limit"], *values)
    across = (WIDTH - 2 * PAD) / max(len(values) - 1, 1)

    def y(value: float) -> float:
        return HEIGHT - PAD / 2 - value / top * (HEIGHT - PAD)

    steps = [f"M{PAD} {y(0.0):.1f}"]
    for i, value in enumerate(values[1:], 1):
        steps.append(f"H{PAD + i * across:.1f}V{y(value):.1f}")
    steps.append(f"H{WIDTH - PAD}")
    entries, high = len(values) - 1, y(a["limit"])
    label = f"{escape(a['account'])}: epsilon {values[-1]:.4g} of {a['limit']:g} at delta {a['delta']:g} after {entries} entries"
    ends = f'x1="{PAD}" x2="{WIDTH - PAD}"'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}"><title>{label}</title>'
        f'<line {ends} y1="{high:.1f}" y2="{high:.1f}" class="limit"/>'
        f'<line {ends} y1="{y(0.0):.1f}" y2="{y(0.0):.1f}" class="ground"/>'
        f'<path d="{"".join(steps)}" class="spent"/>'
        "</svg>"
        f'<p class="small">Steps: what was spent, {values[-1]:.4g} after {entries} entries. Dashed: limit, {a["limit"]:g}.</p>'
    )
