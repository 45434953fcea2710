"""An organisation's own registry: accounts, limits, spending over time as a picture, the next refusal; without scripts.
"""

from __future__ import annotations

from html import escape
from typing import Any

WIDTH, HEIGHT, PAD = 640, 150, 34

HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>taskveil: ledger report</title><link rel="icon" href="data:,">
<style>
body { font: 15px/1.45 system-ui, "Segoe UI", Arial, sans-serif; max-width: 720px; margin: 2em auto; padding: 0 1em }
table { border-collapse: collapse; width: 100% } td, th { border-bottom: 1px solid #ccc; padding: 4px 8px; text-align: left }
h2 { margin-top: 1.6em } svg { width: 100%; height: auto }
</style></head><body><h1>Privacy spent, and what is left</h1>
<p>An epsilon counts for one unit, one relation of neighbours, one observer and one delta; figures of different accounts do not
add up.</p>
"""


def page(accounts: list[dict[str, Any]]) -> str:
    """The whole page."""
    parts = [account(a) for a in accounts] or ["<p>This ledger has no account.</p>"]
    return HEAD + "\n".join(parts) + "</body></html>\n"


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
    spent = "unbounded" if a["spent"] is None else f"{a['spent']:.4g}"
    rows = "".join(
        f"<tr><td>{escape(p['at'])}</td><td>{escape(str(p['run']))}</td><td>{escape(p['what'])}</td>"
        f"<td>{'unbounded' if p['spent'] is None else format(p['spent'], '.4g')}</td></tr>"
        for p in a["history"]
    )
    return (
        f"<section><h2>{escape(a['account'])}</h2><p>One {a['unit']} ({a['neighbours']}) against {a['observer']}: "
        f"epsilon {spent} of "
        f"{a['limit']:g} spent at delta {a['delta']:g}, composed by {escape(a['rule'])}. {words(a)}</p>{picture(a)}"
        f"<table><thead><tr><th>when</th><th>run</th><th>entry</th><th>epsilon after it, delta {a['delta']:g}</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></section>"
    )


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
    said = f"{escape(a['account'])}: epsilon {values[-1]:.4g} of {a['limit']:g} at delta {a['delta']:g} after {entries} entries"
    ends = f'x1="{PAD}" x2="{WIDTH - PAD}"'
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{said}"><title>{said}</title>'
        f'<line {ends} y1="{high:.1f}" y2="{high:.1f}" stroke="#b3261e" stroke-dasharray="6 4"/>'
        f'<text x="{WIDTH - PAD}" y="{high - 4:.1f}" text-anchor="end" font-size="12" fill="#b3261e">limit {a["limit"]:g}</text>'
        f'<line {ends} y1="{y(0.0):.1f}" y2="{y(0.0):.1f}" stroke="#999"/>'
        f'<path d="{"".join(steps)}" fill="none" stroke="#1f5fa8" stroke-width="2.5"/></svg>'
    )
