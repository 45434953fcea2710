"""Faults that need no thought, made from the syntax tree: dropped checks and changed formulas.

guard    `if test: raise ...` never raises
order    < becomes <=, >= becomes >, and so on
formula  + - * / ** change places; sqrt(x) becomes x; a number grows by one
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

ORDER = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
FORMULA = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Pow: "*"}
ROOTS = ("sqrt", "isqrt")


@dataclass(frozen=True)
class Edit:
    """Characters start to end of the source become `new`."""

    start: int
    end: int
    new: str
    what: str


def edits(text: str, kind: str) -> list[Edit]:
    """Every change of one kind, top to bottom."""
    offsets = _offsets(text)
    maker = {"guard": _guards, "order": _orders, "formula": _formulas}[kind]
    found = [edit for node in ast.walk(_code(text)) for edit in maker(node, text, offsets)]
    return sorted(found, key=lambda edit: (edit.start, edit.what))


def _guards(node: ast.AST, text: str, offsets: list[int]) -> Iterator[Edit]:
    if isinstance(node, ast.If) and not node.orelse and len(node.body) == 1 and isinstance(node.body[0], ast.Raise):
        start, end = _span(node.test, offsets)
        yield Edit(start, end, "False", f"the check `{' '.join(text[start:end].split())}` is dropped")


def _orders(node: ast.AST, text: str, offsets: list[int]) -> Iterator[Edit]:
    if not isinstance(node, ast.Compare):
        return
    left = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if type(operator) in ORDER:
            yield _between(left, right, text, offsets, ORDER[type(operator)])
        left = right


def _formulas(node: ast.AST, text: str, offsets: list[int]) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and type(node.op) in FORMULA and not _is_text(node):
        yield _between(node.left, node.right, text, offsets, FORMULA[type(node.op)])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ROOTS:
        start, end = _span(node.func, offsets)
        yield Edit(start, end, "", f"{node.func.attr} is forgotten")


def _between(left: ast.AST, right: ast.AST, text: str, offsets: list[int], new: str) -> Edit:
    """The operator between two operands."""
    start, end = _span(left, offsets)[1], _span(right, offsets)[0]
    gap = text[start:end]
    old = gap.strip(" ()\n\t\\")
    place = start + gap.find(old)
    return Edit(place, place + len(old), new, f"{old} becomes {new}")


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operand is visibly a string or a list: other operators make no sense there."""
    sides = (node.left, node.right)
    words = any(isinstance(x, ast.Constant) and isinstance(x.value, str) for x in sides)
    return words or any(isinstance(x, ast.JoinedStr | ast.List | ast.Tuple) for x in sides)


def _code(text: str) -> ast.Module:
    """The tree without annotations, whose | and comparisons mean nothing at run time."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
    return tree


def _offsets(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _span(node: ast.AST, offsets: list[int]) -> tuple[int, int]:
    """Character positions of a node (the sources are ASCII, so columns count characters)."""
    start = offsets[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
    return start, offsets[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
