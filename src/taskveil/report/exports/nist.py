"""A check list in the order of NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees (March 2025).

Near, Darais, Lefkovitz, Howarth, doi:10.6028/NIST.SP.800-226: parameters, unit, mechanism, utility and bias, query model, trust,
implementation, data security, collection, validation. Every item is answered from the run, or says why it is not; none is ever
left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

from taskveil.report.by_size import bands_by_group, bands_by_size, median_with_interval
from taskveil.report.exports.evidence import Evidence, account_line, aggregation, audit_lines, parameters, releases
from taskveil.report.words import CLIPPING_NOT_MEASURED, bound_of

NOT_ANSWERED = "not answered"
FROM_ROWS = (
    "figures on rows are statistics of people's rows that no epsilon here covers; each owner's page has its own "
    "(`taskveil report DIR --for owner TASK`). For readers entitled to all rows `--with-figures` puts them here; for others "
    "answer from a public test set, or pay for a release"
)
NO_FIGURES = "no figure is stored with this run"
NOT_PRIVATE = "**Not to pass on: items 8 to 10 hold statistics of everybody's rows, which no epsilon covers.**"


@dataclass(frozen=True)
class Item:
    """One question; `answer` is empty where the run cannot answer, and `why` says why."""

    number: str
    question: str
    answer: tuple[str, ...] = ()
    why: str = ""

    @property
    def status(self) -> str:
        return "answered" if self.answer else NOT_ANSWERED


def nist(evidence: Evidence) -> str:
    """The check list as Markdown, with the same content as JSON at its end."""
    items = check_list(evidence)
    lines = [
        f"# Differential privacy check list: {evidence.name}",
        "",
        "In the order of NIST SP 800-226 (March 2025). Answers come from the recorded run and were recomputed.",
        "",
        f"**Verdict: {evidence.verdict}.** Certificate code {evidence.code}, written {evidence.date}.",
        "",
        *([NOT_PRIVATE, ""] if evidence.figures is not None else []),
    ]
    document = {"verdict": evidence.verdict, "holds": evidence.holds, "code": evidence.code, "items": [plain(i) for i in items]}
    text = "\n".join([*lines, *written(items)]).replace("```", "'''")  # a name must not open the block that machines read
    return "\n".join([text, "```json", json.dumps(document, indent=1).replace("`", "\\u0060"), "```", ""])


def written(items: list[Item]) -> list[str]:
    """Items as lines of Markdown."""
    lines = []
    for item in items:
        lines += [f"## {item.number} {item.question}", "", f"*{item.status}*", ""]
        lines += [f"- {' '.join(text.split())}" for text in item.answer] or [f"Why not: {item.why}."]
        lines.append("")
    return lines


def plain(item: Item) -> dict[str, object]:
    return {**asdict(item), "status": item.status}


def check_list(evidence: Evidence) -> list[Item]:
    """All items, in order."""
    return [Item(number, question, *_split(make(evidence))) for number, question, make in QUESTIONS]


def _split(made: list[str] | str) -> tuple[tuple[str, ...], str]:
    return ((), made) if isinstance(made, str) else (tuple(made), "")


def _parameters(e: Evidence) -> list[str]:
    return [parameters(s) for s in e.certificate.statements] or ["no statement is made: nothing is protected"]


def _original(e: Evidence) -> list[str]:
    curves = [line.strip() for p in e.profiles if p.holds for line in p.lines()[:2]]
    return [*releases(e.certificate), *curves] or ["nothing is released"]


def _meaning(e: Evidence) -> list[str] | str:
    return [p.words() for p in e.profiles] or "no statement is made"


def _unit(e: Evidence) -> list[str] | str:
    if not e.certificate.statements:
        return "no statement is made"
    unit = e.certificate.statements[0].unit
    sentence = {
        "task": "a task is everything one participant (a hospital, school or person) holds: whoever's rows lie in one task are "
        "protected with all of them; whoever has rows in several tasks is protected in each, and epsilon adds up over them",
        "record": "one row of one task; a person with several rows is protected with epsilon times their number, unless a person "
        "column bounds it",
    }[unit]
    bounded = [
        f"contribution of one {unit} to {x.get('name')}: clipped to {bound_of(x)}, {x.get('count')} time(s)"
        for x in e.certificate.events
    ]
    void = [] if e.holds else ["the claim does not hold: what follows says what it is about, and protects nobody"]
    return [*void, sentence, *bounded, *(a for a in e.certificate.assumptions if "person" in a)]


def _pairs(e: Evidence) -> list[str] | str:
    relations = {s.neighbours for s in e.certificate.statements}
    if not relations:
        return "no statement is made"
    return [
        *(map(covered_pairs, sorted(relations)) if e.holds else ["no pair is covered: the claim does not hold"]),
        "whether a named task takes part at all: not covered, the list of tasks is public",
        "facts about all units together: not covered, they are what is learnt",
        *(f"not covered: {text}" for text in e.certificate.not_protected),
    ]


def covered_pairs(neighbours: str) -> str:
    return {
        "replace-one": "one unit's data against any other data in its place: covered",
        "add-remove": "one unit's data against a null unit in its place: covered; against other data: with epsilon doubled",
    }[neighbours]


def _other_releases(e: Evidence) -> list[str] | str:
    if e.accounts is None:
        return "no ledger was given, so other runs on the same rows are unknown here; add --ledger URL"
    return [account_line(a) for a in e.accounts] or ["the ledger has no account"]


def _libraries(e: Evidence) -> list[str]:
    return [", ".join(f"{name} {version}" for name, version in e.certificate.software.items())]


def _accuracy(e: Evidence) -> list[str] | str:
    if not e.figures:
        return FROM_ROWS if e.figures is None else NO_FIGURES
    lines = []
    for which in ("alone", "shared"):
        median = median_with_interval([t[f"error_{which}"] for t in e.figures.values()])
        lines.append(f"median error {which} over {len(e.figures)} tasks: {median}")
    return [*lines, f"{e.metric}; each task's own estimate on held-out rows of its own; interval by order statistics"]


def _small_and_groups(e: Evidence) -> list[str] | str:
    if not e.figures:
        return FROM_ROWS if e.figures is None else NO_FIGURES
    bands = [*bands_by_size(e.figures), *bands_by_group(e.figures, e.groups)]
    undeclared = [] if e.groups else ["no groups of tasks were declared (--groups FILE)"]
    return [*(b.words() for b in bands), *undeclared] if bands else NO_FIGURES


def _clipping(e: Evidence) -> list[str] | str:
    bounds = [text for text in releases(e.certificate) if "clipped to" in text]
    if not bounds:
        return "nothing is released, so nothing is clipped"
    return [
        "messages longer than their bound are shortened, so tasks that differ most from the others count less than "
        "they hold; each owner's page says by how much, or that it was not measured",
        *_clipped(e),
        *bounds,
    ]


def _clipped(e: Evidence) -> list[str]:
    lost = [t["clipped"] for t in (e.figures or {}).values() if "clipped" in t]
    if not lost:
        return [CLIPPING_NOT_MEASURED] if e.figures else []
    touched = sum(share > 0 for share in lost)
    return [
        f"on average {100 * sum(lost) / len(lost):.3g} % of a message's length was cut off, of the task most affected "
        f"{100 * max(lost):.3g} %; {touched} of {len(lost)} tasks were affected at all"
    ]


def _declared(e: Evidence) -> list[str] | str:
    about = ("range", "label", "level", "kind", "public", "hashed", "scale")
    sentences = [text for text in e.certificate.assumptions if any(word in text for word in about)]
    return sentences or "the certificate lists no assumption about bounds or categories"


def _query_model(e: Evidence) -> list[str]:
    return [
        f"non-interactive: {sum(x.get('count', 0) for x in e.certificate.events)} release(s) "
        f"{'of a fixed plan, settled' if e.certificate.total is None else 'within a total fixed beforehand, reserved'} "
        "and charged before noise is drawn; nobody can ask more",
        "at the end of a budget the ledger refuses the next run (exit code 3) and nothing is released",
    ]


def _trust(e: Evidence) -> list[str]:
    way = aggregation(e.certificate)
    server = {
        "curator": "trusted: sees clipped messages before noise",
        "local": "not trusted: sees noisy messages only",
        "secure": "not trusted beyond the stated number of colluding sites: sees the noisy sum only",
        "local-model": "not trusted: sees noisy models only",
    }.get(way, "sees nothing")
    consumers = "; ".join(sorted({s.against() for s in e.certificate.statements})) or "nobody"
    return [
        "data subjects: trust the owner of their task with their rows",
        f"curator ({way}): {server}",
        f"consumers: not trusted; statements are made against {consumers}",
        *(f"rests on: {text}" for text in e.certificate.assumptions),
    ]


def _floating_point(e: Evidence) -> list[str]:
    r = e.certificate.randomness
    how = "exact discrete sampling on a public grid" if r.get("exact") else "floating point, whose low bits are not covered"
    void = "; SEEDED, which voids it" if r.get("seeded") else ""
    return [f"noise from {r.get('source', 'an unnamed source')}: {how}{void}"]


def _side_channels(e: Evidence) -> list[str]:
    return [
        "errors, refusals and logs are functions of public values and paid releases, and never hold a value, norm or "
        "count of rows",
        "time: not covered; how long a site computes can depend on its rows",
    ]


def _at_rest(e: Evidence) -> list[str]:
    signed = f"signed by key {e.signer}" if e.signer else "not signed: whoever can write all files can write others"
    return [
        f"the run's folder holds models, the certificate and no training row; its files are bound together by a seal "
        f"and {signed}",
        "rows stay where their owner keeps them; access to them is the owner's to control, and is not described by this run",
    ]


def _minimisation(e: Evidence) -> list[str]:
    how = "clipped, noised sums" if e.certificate.statements else "sums, without noise,"
    return [f"rows never leave their task; only the {how} listed under 2 leave it", *releases(e.certificate)]


def _validation(e: Evidence) -> list[str] | str:
    lines = audit_lines(e)
    return lines or "this configuration was not attacked; run `taskveil audit fit DATA ... -o DIR`, or `fit --audit-canaries K`"


Answer = Callable[[Evidence], "list[str] | str"]
QUESTIONS: tuple[tuple[str, str, Answer], ...] = (
    ("1", "Privacy parameters, each with its delta, unit, neighbours and observer", _parameters),
    ("2", "The original parameters of every release, and the curve they give", _original),
    ("3", "What an attacker can be right about", _meaning),
    ("4", "Unit of privacy from the person's point of view, with bounded contributions", _unit),
    ("5", "Pairs of situations an attacker would separate, and whether they are covered", _pairs),
    ("6", "Other releases from the same data", _other_releases),
    ("7", "Libraries and versions", _libraries),
    ("8", "Accuracy, with intervals", _accuracy),
    ("9", "Error of small tasks and of groups", _small_and_groups),
    ("10", "Bias from clipping", _clipping),
    ("11", "Bounds and categories set without looking at the data", _declared),
    ("12", "Query model, and what happens at the end of the budget", _query_model),
    ("13", "Trust: data subjects, curator, consumers", _trust),
    ("14", "Floating point", _floating_point),
    ("15", "Timing and error channels", _side_channels),
    ("16", "Security at rest and access control", _at_rest),
    ("17", "Data minimisation", _minimisation),
    ("18", "Empirical validation", _validation),
)
