"""Lines of code: blank lines, comments and docstrings do not count. What was reached is a bound, so that it can only shrink.

    python -m tools.lines            the total, the longest files and the longest functions
    python -m tools.lines --json     the same as one document

A file's length is that of the file as it stands (a reader scrolls through its words too); a function's is its lines of code.
tests/unit/tools/test_lines.py holds the bounds.
"""

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
SHOWN = 10
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def code_lines(text: str) -> frozenset[int]:
    """Numbers of the lines that hold code."""
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            held |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, Function)) and ast.get_docstring(node, clean=False) is not None:
            held -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return frozenset(held)


def functions(text: str) -> dict[str, int]:
    """Lines of code of every function, those inside it included."""
    held = code_lines(text)
    return {
        f"{node.name}:{node.lineno}": len(held & set(range(node.lineno, (node.end_lineno or 0) + 1)))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, Function)
    }


def measured(source: Path = SOURCE) -> dict[str, dict[str, int]]:
    """{"total": ..., "files": {name: lines}, "functions": {file:name:line: lines of code}}, longest first."""
    texts = {str(f.relative_to(source)): f.read_text() for f in sorted(source.rglob("*.py"))}
    files = {name: len(text.splitlines()) for name, text in texts.items()}
    inside = {f"{name}:{where}": n for name, text in texts.items() for where, n in functions(text).items()}
    total = {"lines of code": sum(len(code_lines(text)) for text in texts.values()), "files": len(files)}
    return {"total": total, "files": _longest(files), "functions": _longest(inside)}


def _longest(lengths: dict[str, int]) -> dict[str, int]:
    return dict(sorted(lengths.items(), key=lambda item: -item[1]))


def main() -> None:
    found = measured()
    if "--json" in sys.argv:
        print(json.dumps(found))
        return
    print(f"{found['total']['lines of code']} lines of code in {found['total']['files']} files")
    for what in ("files", "functions"):
        print(f"\nlongest {what}")
        for name, length in list(found[what].items())[:SHOWN]:
            print(f"{length:6} {name}")


if __name__ == "__main__":
    main()
