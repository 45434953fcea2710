"""The walk of one `fit` as a drawing: one row per stage, the files it passes coloured by the room they live in."""

from __future__ import annotations

from html import escape

WIDTH, LEFT, LINE, CHARACTER = 1000, 236, 24, 6.7
ROUND = ("task step", "clip, charge, add noise", "server step")
ROOMS = {
    "estimators": "#dbe7fb", "tasks": "#d9f0df", "methods": "#fbe9cf", "solvers": "#f5f0c8", "privacy": "#f6d5d5",
    "runtime": "#e6daf5", "other": "#e8e8e8",
}  # fmt: skip
MATHEMATICS = ("solvers", "structures", "losses", "engine")


def room(file: str) -> str:
    folder = file.split("/", 1)[0]
    if folder in MATHEMATICS:
        return "solvers"
    return folder if folder in ROOMS else "other"


def draw(stages: dict[str, list[str]]) -> str:
    """The picture, a function of the list alone."""
    parts, y, spans = [], 58.0, {}
    for number, (title, files) in enumerate(stages.items(), 1):
        chips, height = _chips(files, y + 8)
        spans[title] = (y, y + height)
        parts += [
            f'<rect x="44" y="{y:g}" width="{WIDTH - 60}" height="{height:g}" rx="6" fill="#fff" stroke="#999"/>',
            f'<text x="56" y="{y + 25:g}" font-weight="600">{number}. {escape(title)}</text>', *chips,
        ]  # fmt: skip
        y += height + 8
    first, last = spans[ROUND[0]][0], spans[ROUND[-1]][1]
    middle = (first + last) / 2
    parts += [
        f'<path d="M40 {last - 12:g} H26 V{first + 12:g} H38" fill="none" stroke="#555" stroke-width="2" '
        'marker-end="url(#tip)"/>',
        f'<text x="18" y="{middle:g}" transform="rotate(-90 18 {middle:g})" text-anchor="middle">every round</text>',
    ]
    return _page(parts, y + 4)


def _chips(files: list[str], top: float) -> tuple[list[str], float]:
    parts, x, y = [], float(LEFT), top
    for file in sorted(files, key=lambda f: (list(ROOMS).index(room(f)), f)):
        width = CHARACTER * len(file) + 12
        if x + width > WIDTH - 24:
            x, y = float(LEFT), y + LINE
        parts += [
            f'<rect x="{x:g}" y="{y:g}" width="{width:.1f}" height="19" rx="4" fill="{ROOMS[room(file)]}"/>',
            f'<text x="{x + 6:.1f}" y="{y + 13.5:g}" class="file">{escape(file)}</text>',
        ]
        x = round(x + width + 5, 1)
    return parts, y - top + LINE + 12


def _page(parts: list[str], height: float) -> str:
    legend, x = [], 44.0
    for name, colour in ROOMS.items():
        words = "solvers, losses, structures" if name == "solvers" else name
        legend += [
            f'<rect x="{x:g}" y="18" width="16" height="16" rx="3" fill="{colour}" stroke="#999"/>',
            f'<text x="{x + 22:g}" y="31">{words}</text>',
        ]
        x += 50 + 8.2 * len(words)
    style = "text{font:13px system-ui,sans-serif;fill:#222}.file{font:11px ui-monospace,monospace}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img">',
        "<title>The walk of one fit: stages from top to bottom, the files each of them passes, coloured by room</title>",
        f"<style>{style}</style>",
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#555"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height:g}" fill="#fafafa"/>', *legend, *parts, "</svg>",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
