"""The theory and the architecture are cited by page and anchor, and every citation leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown.extensions.toc import slugify

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "docs", "tools", "benchmarks", "experiments", "examples", "deploy")
CITED = re.compile(r"\bdocs/((?:theory/)?[\w-]+\.md)(?:#([\w-]+))?")
LINKED = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)#([\w-]+)\)")
NOT_IN_THE_PROJECT = re.compile(r"\bTHEORY\b|\bDESIGN (?:section |\d)|\b(?:DESIGN|STYLE)\.md")


def texts() -> dict[Path, str]:
    """Every text file of the project except this one."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "pyproject.toml"]
    for folder in FOLDERS:
        found += [p for p in (ROOT / folder).rglob("*") if p.suffix in (".py", ".md", ".toml") and p != Path(__file__)]
    return {p: p.read_text() for p in found if "__pycache__" not in p.parts}


def anchors(page: Path) -> set[str]:
    """Explicit ids, and the ids that headings without one get in the built pages."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
    headings = re.findall(r"^#+ (.*)$", prose, re.M)
    named = {m[1] for h in headings if (m := re.search(r"\{#([\w-]+)\}", h))}
    return named | {slugify(re.sub(r"[`*]", "", h), "-") for h in headings if "{#" not in h}


def broken(text: str, here: Path) -> list[str]:
    """What this text cites or links to that does not exist."""
    wanted = [(ROOT / "docs" / page, anchor) for page, anchor in CITED.findall(text)]
    if here.suffix == ".md":
        wanted += [(here.parent / page if page else here, anchor) for page, anchor in LINKED.findall(text)]
    return [f"{p.name}#{a}" for p, a in wanted if not p.is_file() or (a and a not in anchors(p))]


def test_every_citation_resolves_to_an_anchor():
    lost = {str(p.relative_to(ROOT)): b for p, text in texts().items() if (b := broken(text, p))}
    assert not lost


def test_nothing_outside_the_project_is_cited():
    assert not [str(p.relative_to(ROOT)) for p, text in texts().items() if NOT_IN_THE_PROJECT.search(text)]


@pytest.mark.parametrize(
    "text", ["docs/theory/svm.md#no-such-anchor", "docs/theory/nothing.md", "[x](index.md#no-such-anchor)", "[x](#gone)"]
)
def test_a_citation_that_leads_nowhere_is_found(text):
    assert broken(text, ROOT / "docs" / "theory" / "index.md")


@pytest.mark.parametrize("text", ["see THEORY section 1", "THEORY 3e", "the fields of DESIGN section 3"])
def test_a_citation_of_something_outside_is_found(text):
    assert NOT_IN_THE_PROJECT.search(text)


def test_the_theory_is_cited_from_code_and_tests():
    """Every page is cited at least once: a page nobody needs would be decoration."""
    cited = {page for p, text in texts().items() if p.suffix == ".py" for page, _ in CITED.findall(text)}
    pages = {f"theory/{p.name}" for p in (ROOT / "docs" / "theory").glob("*.md")}
    assert pages <= cited
