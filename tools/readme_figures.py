"""The picture and the table of the README, from the demo's results: python tools/readme_figures.py demo-report/results.json"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 330, 64, 190, 34, 48


def main(results: Path) -> None:
    found = json.loads(results.read_text())
    readme = ROOT / "README.md"
    head, _, rest = readme.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    readme.write_text(head + BEGIN + "\n" + table(found) + "\n" + END + tail)
    (ROOT / "docs" / "demo.svg").write_text(picture(found))


def table(found: dict) -> str:
    lines = ["| | epsilon for one whole hospital | error on new patients (share of variance left) |", "|---|---|---|"]
    names = {"local": "each hospital alone", "pooled": "all rows in one place, one model", "subspace": "together"}
    for r in (r for r in found["results"] if r["method"] in names):
        without = "nothing shared" if r["method"] == "local" else "none: no privacy"
        epsilon = f"{r['epsilon']:g}" if r["epsilon"] is not None else without
        lines.append(f"| {names[r['method']]} | {epsilon} | {r['mean']:.3f} ± {r['std']:.3f} |")
    said = f"{found['data']['tasks']} made-up hospitals, {found['repeats']} repeats, seed {found['seed']}"
    sentence = "delta 1e-05, replace-one neighbours, against all other hospitals together"
    return "\n".join(lines) + f"\n\nMade by `taskveil demo`: {said}; {sentence}."


def picture(found: dict) -> str:
    """Error over epsilon with its spread; alone and pooled as levels."""
    rows = [r for r in found["results"] if r["method"] != "constant"]
    private = [r for r in rows if r["epsilon"] is not None]
    levels = [(r, t) for r in rows for n, t in (("local", "each alone"), ("pooled", "pooled, no privacy")) if r["method"] == n]
    low = min(r["mean"] - r["std"] for r in rows)
    high = max(r["mean"] + r["std"] for r in rows)

    def x(k: int) -> float:
        return LEFT + (k + 0.5) / len(private) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    body = [f'<text x="{LEFT}" y="20" font-size="15" fill="#1b2430">Error on new patients</text>']
    for r, text in levels:
        at, dashes = y(r["mean"]), 'stroke="#5b6776" stroke-dasharray="6 5"'
        body.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" {dashes}/>')
        body.append(f'<text x="{WIDTH - RIGHT + 8}" y="{at + 4:.1f}" fill="#5b6776">{text} {r["mean"]:.2f}</text>')
    points = " ".join(f"{x(k):.1f},{y(r['mean']):.1f}" for k, r in enumerate(private))
    body.append(f'<polyline points="{points}" fill="none" stroke="#1f5fa8" stroke-width="3"/>')
    for k, r in enumerate(private):
        top, bottom, at = y(r["mean"] + r["std"]), y(r["mean"] - r["std"]), y(r["mean"])
        body.append(
            f'<line x1="{x(k):.1f}" x2="{x(k):.1f}" y1="{top:.1f}" y2="{bottom:.1f}" stroke="#1f5fa8" stroke-width="1.5"/>'
        )
        body.append(f'<circle cx="{x(k):.1f}" cy="{at:.1f}" r="6" fill="#1f5fa8"/>')
        crossed = any(at - 22 < y(level["mean"]) < at - 4 for level, _ in levels)
        place = f'x="{x(k) - 10:.1f}" y="{at + 18:.1f}" text-anchor="end"' if crossed else f'x="{x(k) + 10:.1f}" y="{at - 8:.1f}"'
        body.append(f'<text {place} fill="#1f5fa8">{r["mean"]:.2f}</text>')
        body.append(f'<text x="{x(k):.1f}" y="{HEIGHT - 26}" text-anchor="middle" fill="#1b2430">{r["epsilon"]:g}</text>')
    body.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" text-anchor="middle" fill="#1b2430">'
        "epsilon for one whole hospital (more privacy to the left)</text>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        'font-family="system-ui, sans-serif" '
        'font-size="13" role="img" aria-label="Error of made-up hospitals, alone and together in private, over epsilon">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>' + "".join(body) + "</svg>\n"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
