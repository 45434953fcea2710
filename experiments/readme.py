"""docs/reproduction.md, generated from the results: what holds, what does not, what our runs cannot tell.

`python -m experiments.readme` writes it and every paper's own long page (experiments/*/README.md); `--check` only says whether they are what
the results make (exit 1 where not); `--redraw` draws all pictures again from the JSON files first. Text that is typed explains; every
number comes from the JSON files.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from experiments.paper_page import measured, paper_page
from experiments.random_settings import Row, coverage
from experiments.registry import FOLDERS, ITEMS, folder_of
from experiments.svg import write_chart
from experiments.verdicts import OF_OURS, OF_PAPER, WORDS

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "reproduction.md"
LONGEST = 600  # lines
SAME = "nothing:"  # how the note on an older item begins whose numbers would not change
VARYING = re.compile(  # in what claims of one row may differ: numbers, data, which model of a task
    r"(?<![\w.-])\d+(?:\.\d+)?%?(?![\w.]*\w)|\b(?:femnist|mnist_writers|tags|light HAR|HAR|published|refined|chosen)\b"
    r"|\b(?:synthetic|ADNI-like), (?:classification|regression)\b"
)

TITLES = {
    "mp-mtl": "MP-MTL: Liang et al. 2020, model-protected multi-task learning",
    "pmtl": "PMTL: Hu, Wu & Smith 2023, private mean-regularised multi-task learning",
    "async": "Asynchronous MTL: Xie et al. 2017",
    "svm": "MTL-SVM: Ponomarenko-Timofeev et al. 2023",
}

HEAD = """# What holds and what does not

Four papers on private multi-task learning are run again here, *as printed* and *sound*. As printed is what the paper computes. Sound is what we ship.
{summary}

* **In a hurry?** [In short](#in-short) counts the claims. [What we ship instead](#what-we-ship-instead) says what was changed.
* **Where do we lose?** See [where the sound default is not as good](#where-the-sound-default-is-not-as-good-as-the-printed-variant).
* **Why are printed guarantees false?** See [claims that fail](refuted-claims.md), with proofs in [the theory](theory/index.md).

## How to read this page

`python -m experiments.readme` writes this page from the JSON in each folder's `results/`. No number here is typed by hand.

* *As printed* uses the settings, rounds and neighbours of the paper, unless the paper's section below says otherwise. It is tuned as carefully as ours,
  except in items marked as older.
* A *claim* is an inequality over our numbers, paired by run. It *holds* or *fails* if the 95 % interval over runs and noise draws lies on one side.
  Otherwise our runs *cannot tell*. About one decided verdict in forty is wrong. In items marked as older, none is decided in our favour (the last table).
* Every row names the quantity, the place in the paper and what is printed there. Claims marked *ours* are about what we ship.
* If data are not available, a stand-in replaces them. The paper's section says which, and what that may change.

`taskveil reproduce list` names all items, and `taskveil reproduce NAME` runs one (with `--quick`, briefly). A page for each paper has the long tables,
pictures, seeds and versions. Two older methods, DP-MTRL and DP-AGGR, appear in the form that the first paper gives them. A fifth paper (Shen et al. 2023,
a shared representation with own heads) is compared on a split of our own, because its images are not available: `experiments/shen_2023`.
"""

SHIPPED = """## What we ship instead

* **MP-MTL.** The printed Wishart noise is positive semidefinite, so it can only add. For the worst pair of neighbours an observer *knows* with probability
  1 - exp(-epsilon) that a task is absent, in every dimension (computed, not measured). No finite epsilon holds with a smaller delta. We ship symmetric
  Gaussian noise (or two-sided Wishart noise for pure privacy) and one release of unit directions (`subspace`). Local work and local tuning cost nothing.
  Every task may stay alone.
* **PMTL.** We use Poisson cohorts or none, divide by the expected cohort, weigh all tasks alike, and account by PLD for the stated neighbours. If an
  observer can learn who takes part, no amplification is counted.
* **Asynchronous MTL.** Every message is one noised release, and the cost is composed over all messages. The private part of a model moves with the
  released gradient, so it is post-processing.
* **MTL-SVM.** Corrected updates reach the optimum (the duality gap proves it), and masks keep the dual consistent. The certificate states no protection by
  masks, because an attacker who knows a participant's other rows sees through them. There is a private version with a guarantee.
"""

WHY = """These comparisons are not at the same real privacy. For MP-MTL the printed noise is one-sided: for worst-case neighbours its releases can prove that a
task is absent. The probability of this grows with epsilon and rounds (it is a formula, in each item's settings, not a count of runs). A valid guarantee
allows at most delta. For PMTL the printed epsilon counts secret cohorts and half the sensitivity; its section says which epsilon holds. For asynchronous
MTL it is the epsilon of one message out of hundreds, and a part of the printed model was never noised. If the signal is not stronger than valid noise, the
sound default keeps every task's own model.
"""


@dataclass(frozen=True)
class Found:
    """One result: its name in the registry, its paper's prefix, the stem of its files, the document; and what a newer version changed."""

    name: str
    paper: str
    stem: str
    document: dict[str, Any]
    older: str = ""

    @property
    def version(self) -> str:
        """Of the package that made it."""
        return str(self.document["run"]["versions"]["taskveil"])

    @property
    def shown(self) -> str:
        """Its name in tables: an older run is marked."""
        return f"{self.name} (older)" if self.older else self.name

    @property
    def picture(self) -> Path:
        return HERE / folder_of(self.name) / "results" / f"{self.stem}.svg"


def results() -> list[Found]:
    """The best result of every item: a full run where there is one, else a quick one."""
    found = []
    for name in ITEMS:
        paper = next(p for p in FOLDERS if name.startswith(p + "-"))
        short = name.removeprefix(paper + "-")
        folder = HERE / folder_of(name) / "results"
        for stem in (short, f"{short}-quick"):
            if (folder / f"{stem}.json").exists():
                found.append(Found(name, paper, stem, json.loads((folder / f"{stem}.json").read_text())))
                break
    return marked(found)


def marked(found: list[Found]) -> list[Found]:
    """Those that an older version made than the newest of them, each with what is different there."""
    newest = max((f.version for f in found), key=lambda v: [int(n) for n in v.split(".")[:2]], default="")
    return [f if f.version == newest else open_where_ours(replace(f, older=difference(f))) for f in found]


def open_where_ours(found: Found) -> Found:
    """An older item whose verdicts in our favour are open: the printed side had fewer settings there, or ours an easier promise."""
    if found.older.startswith(SAME):
        return found
    favours = {OF_PAPER: False, OF_OURS: True}
    checks = [c | {"holds": None} if c["holds"] is favours[whose(c)] else c for c in found.document["checks"]]
    return replace(found, document=found.document | {"checks": checks})


def difference(found: Found) -> str:
    known: dict[str, str] = getattr(import_module(f"experiments.{FOLDERS[found.paper]}.page"), "OLDER", {})
    return known.get(found.stem, f"algorithms, settings and neighbours of version {found.version}")


def redraw() -> None:
    for found in results():
        document = found.document
        if document["series"]:
            write_chart(found.picture, f"{document['paper']}, {document['name']}", document["series"], document["axes"])


def pages() -> dict[Path, str]:
    """Every generated page."""
    return {PAGE: page()} | {HERE / folder / "README.md": paper_page(folder) for folder in FOLDERS.values()}


def main(arguments: list[str]) -> int:
    if "--redraw" in arguments:
        redraw()
    if "--check" in arguments:
        stale = [
            path.parent.name + "/" + path.name for path, text in pages().items() if not path.exists() or path.read_text() != text
        ]
        print(f"out of date: {', '.join(stale)}; run python -m experiments.readme" if stale else "up to date")
        return bool(stale)
    for path, text in pages().items():
        path.write_text(text)
    return 0


def page() -> str:
    """The whole page."""
    found = results()
    papers = [section(paper, title, found) for paper, title in TITLES.items()]
    parts = [
        HEAD.format(summary=summary(found)),
        headline(found),
        counted(found),
        not_as_good(found),
        SHIPPED,
        *papers,
        starved(found),
        origins(found),
        missing(found),
    ]
    wide = "---\nhide: [toc]\n---\n\n"  # the tables need the room
    return wide + "\n".join(part.strip() + "\n" for part in parts if part.strip())


def summary(found: list[Found]) -> str:
    """The main figures in one sentence."""
    of_paper = tally(found, OF_PAPER)
    decided = ", ".join(f"{many} {word}" for many, word in zip(of_paper, ("hold", "fail", "are open"), strict=True))
    tested, lost, _ = compared(found)
    return f"Of {sum(of_paper)} claims of the papers {decided}. At the same stated epsilon, the sound default is worse than the printed variant in {lost} of\n{tested} comparisons."


def tally(found: list[Found], about: str) -> list[int]:
    """How many claims hold, fail and are open."""
    checks = [c for f in found for c in f.document["checks"] if whose(c) == about]
    return [sum(c["holds"] is verdict for c in checks) for verdict in WORDS]


def headline(found: list[Found]) -> str:
    """Share of the gap closed at epsilon 1 on low-rank data, under the neighbours the run states."""
    known = {f.name: f.document for f in found}
    chosen = known.get("mp-mtl-headline", known.get("mp-mtl-fig6"))
    if chosen is None:
        return ""
    settings = chosen["settings"]
    closed = settings["share of the gap closed at epsilon 1"]
    said = {name: f"{100 * s['mean']:.0f} ± {100 * s['std']:.0f} %" for name, s in closed.items()}
    rows = [f"| {name} | {said[name]} | {closed[name]['repeats']} |" for name in sorted(closed, key=lambda n: -closed[n]["mean"])]
    easier = said.get("subspace, sound, a task added or removed")
    beside = f" ({easier} if a task is added or removed instead)" if easier else ""
    return f"""## Headline

At epsilon 1 on the low-rank data (320 tasks, 30 rows and 30 features each; unit task, {settings["neighbours"]} neighbours, observer the other tasks,
delta 1/(m log m)) the sound method `subspace` closes **{said["subspace, sound"]}** of the gap between every task alone and the best result without
privacy{beside}. The printed variant closes **{said["MP-MTL-LR as printed"]}**. Its tuning was not charged, and the epsilon of its noise does not hold.

| method at epsilon 1 | share of the gap closed | replications |
|---|---|---|
{chr(10).join(rows)}
"""


def origins(found: list[Found]) -> str:
    """Which items an older version of the package made, and what that means for them: what was not run again is said."""
    older: dict[str, list[str]] = {}
    for f in found:
        star = "*" if any("p_value" in check for check in f.document["checks"]) else ""
        if f.older:
            older.setdefault(f.older, []).append(f"`{f.name}`{star}")
    rows = [f"| {', '.join(names)} | {said} |" for said, names in older.items()]
    head = (
        "## Figures of an older version\n\nThese items were not run again with the code that made all others. They are marked as older in every table above. If more than their "
        "code is different, a verdict in our favour (a claim of the paper that fails, or one of ours that holds) counts as *cannot tell*. A star marks verdicts from p values at 5 %, made before there were intervals.\n\n"
        "| items | what is different from what this page says |\n|---|---|\n"
    )
    return head + "\n".join(rows) if rows else ""


STARVED = """## Is the printed side held back by its settings?

A *tuned row* is a printed method at one epsilon on one data set. Each should be within 5 % of the best of up to 200 fresh random settings of its own grid,
on validation rows, with new noise (`python -m experiments.random_settings` exits with 1 if one is not). *Whole grid* means that all settings were tried.
*Open* means that a row was not checked, so it may be shown worse than it is. *Furthest behind* is the worst checked row; below zero, the chosen setting is
the better one. MTL-SVM as boxed diverges at every setting, so its rows are the corrected rounds and the methods beside them. Figures over the paper's own
settings have no tuned rows.

| items | rows of each | checked | whole grid | open | furthest behind |
|---|---|---|---|---|---|
"""


def checked_rows(found: list[Found]) -> Iterator[tuple[str, str, int, int, list[Row]]]:
    """Paper, item, its tuned rows of printed methods, those whose whole grid was tried, those beside random settings."""
    for paper, folder in FOLDERS.items():
        mine = {f.stem: f for f in found if f.paper == paper}
        for stem, many, whole, checked in coverage(folder, {s: f.document for s, f in mine.items()}):
            yield paper, mine[stem].shown, many, whole, checked


def open_rows(found: list[Found]) -> dict[str, int]:
    """Item -> rows that nobody checked."""
    left = {item: many - whole - len(checked) for _, item, many, whole, checked in checked_rows(found)}
    return {item: many for item, many in left.items() if many}


def starved(found: list[Found]) -> str:
    """Which rows of printed methods were checked against random settings; items of a paper that are alike share a line."""
    alike: dict[tuple[str, int, int, int], list[tuple[str, list[Row]]]] = {}
    for paper, item, many, whole, checked in checked_rows(found):
        alike.setdefault((paper, many, len(checked), whole), []).append((item, checked))
    lines = []
    for (_, many, tried, whole), members in alike.items():
        behind = [row.behind for _, rows in members for row in rows]
        worst = f"{100 * max(behind):+.1f} %" if behind else ""
        lines.append(
            f"| {', '.join(name for name, _ in members)} | {many} | {tried} | {whole} | {many - whole - tried} | {worst} |"
        )
    return STARVED + "\n".join(lines)


def counted(found: list[Found]) -> str:
    """One line per paper: how many claims were tested and what came out."""
    words = " | ".join(WORDS.values())
    head = f"## In short\n\n| paper | items | the paper's claims: {words} | ours: {words} |\n|---|" + "---|" * 7
    lines = []
    for paper, title in TITLES.items():
        mine = [f for f in found if f.paper == paper]
        counts = [*tally(mine, OF_PAPER), *tally(mine, OF_OURS)]
        if mine:
            lines.append(f"| {title.partition(':')[0]} | {len(mine)} | " + " | ".join(map(str, counts)) + " |")
    return head + "\n" + "\n".join(lines)


def section(paper: str, title: str, found: list[Found]) -> str:
    """One paper: what its page says about settings, stand-ins and gaps, then its claims."""
    folder = FOLDERS[paper]
    said = import_module(f"experiments.{folder}.page").HEAD.strip().split("\n\n", 2)[2]  # after the title and the command
    link = f'<a href="reproduction/{folder}.html">Every item, with tables and pictures</a>'
    parts = [f"## {title}", said, link]
    for value, word in WORDS.items():
        lines = [line for f in found if f.paper == paper for line in claim_rows(f, value)]
        if lines:
            parts.append(
                f"### {title.partition(':')[0]}: {word}\n\n| item | claim | whose | printed | ours |\n|---|---|---|---|---|\n"
                + "\n".join(lines)
            )
    return "\n\n".join(parts)


def claim_rows(found: Found, value: bool | None) -> list[str]:
    """One row a claim; claims that differ in numbers, data or the model of a task only share it."""
    rows = []
    chosen = [check for check in found.document["checks"] if check["holds"] is value]
    for said, checks in grouped(chosen).items():
        quantity, place, _ = measured(checks[0][1])[:3]
        values = {at: measured(c)[2] for at, c in checks}
        same = len(set(values.values())) == 1
        printed = next(iter(values.values())) if same else "; ".join(f"{at}: {value}" for at, value in values.items())
        where = "; ".join(f"{at}: {numbers(c)}" if at else numbers(c) for at, c in checks)
        seen = ": ".join(filter(None, (place, printed)))
        ours = ": ".join(filter(None, (quantity, where)))
        rows.append(f"| {found.shown} | {cell(said)} | {whose(checks[0][1])} | {cell(seen)} | {cell(ours)} |")
    return rows


def grouped(checks: list[dict[str, Any]]) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """claim with what varies as "..." -> [(what stands there, check)]."""
    alike: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for check in checks:
        alike.setdefault((VARYING.sub("#", check["claim"]), whose(check)), []).append(check)
    said = {}
    for (pattern, who), members in alike.items():
        columns = list(zip(*(VARYING.findall(c["claim"]) for c in members), strict=True))
        fixed = [column[0] if len(set(column)) == 1 else None for column in columns]
        text = pattern
        for number in fixed:
            text = text.replace("#", number or "...", 1)
        varying = [" ".join(dict.fromkeys(n for n, f in zip(words, fixed, strict=True) if f is None))
                   for words in (VARYING.findall(c["claim"]) for c in members)]  # fmt: skip
        said[text if who == OF_PAPER or text not in said else f"{text} (ours)"] = list(zip(varying, members, strict=True))
    return said


def numbers(check: dict[str, Any]) -> str:
    """The two sides, and the interval of what must be positive for the claim to hold."""
    ours, interval = measured(check)[3:]
    return f"{ours} ({interval})"


def whose(check: dict[str, Any]) -> str:
    return check.get("about", OF_PAPER)


def cell(text: Any) -> str:
    return str(text).replace("|", "\\|").replace("\n", " ")


def compared(found: list[Found]) -> tuple[int, int, list[tuple[Found, list[dict[str, Any]]]]]:
    """How often the sound default was compared with the printed variant, how often it lost, and where."""
    mine = [(f, [c for c in f.document["checks"] if whose(c) == OF_OURS and "as good as" in c["claim"]]) for f in found]
    failed = [(f, [c for c in claims if c["holds"] is False]) for f, claims in mine]
    return sum(len(claims) for _, claims in mine), sum(len(claims) for _, claims in failed), failed


def not_as_good(found: list[Found]) -> str:
    """Where the sound default is worse than the printed variant at the same stated epsilon."""
    tested, lost, failed = compared(found)
    lines = [
        f"| {f.shown} | {cell(said)} | {cell('; '.join(f'{at}: {numbers(c)}' if at else numbers(c) for at, c in checks))} |"
        for f, claims in failed
        for said, checks in grouped(claims).items()
    ]
    if not tested:
        return ""
    text = f"## Where the sound default is not as good as the printed variant\n\n{tested} comparisons at the same stated epsilon, {lost} lost."
    return text + (f"\n{WHY}\n| item | claim that fails | found |\n|---|---|---|\n" + "\n".join(lines) if lines else "")


def missing(found: list[Found]) -> str:
    """Items that have no result yet."""
    absent = [name for name in ITEMS if name not in {f.name for f in found}]
    return (
        f"## Items without a result\n\n{', '.join(f'`{name}`' for name in absent)}: run them with `taskveil reproduce NAME`."
        if absent
        else ""
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
