"""Modules that import each other, directly or around a corner. Run in `make lint`; a new cycle fails.

A cycle is a group of modules each of which reaches every other one (a strongly connected component of the graph of imports, those
inside functions included; imports for type checkers only do not count). The known ones stand in tools/cycles.txt, one group in a
line: they may shrink or go, and the file must then follow. `--write` writes the file again.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
KNOWN = Path(__file__).with_suffix(".txt")
Graph = Mapping[str, set[str]]


def imports(source: Path = SOURCE) -> dict[str, set[str]]:
    """Which modules of ours each module imports."""
    files = {_name(f.relative_to(source)): f for f in sorted(source.rglob("*.py"))}
    return {name: {m for m in _imported(name, file, files) if m in files and m != name} for name, file in files.items()}


def _name(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(name: str, file: Path, modules: Collection[str]) -> set[str]:
    """`from package import module` is an import of the module, not of what the package's own file holds."""
    found: set[str] = set()
    package = name if file.stem == "__init__" else name.rpartition(".")[0]
    for node in _at_run_time(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            origin = ".".join(p for p in (above, node.module or "") if p)
            inside = [f"{origin}.{alias.name}" for alias in node.names]
            found |= {m if m in modules else origin for m in inside}
    return found


def _at_run_time(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _at_run_time(child)


def cycles(graph: Graph) -> list[tuple[str, ...]]:
    """Strongly connected components with more than one member (Tarjan 1972), sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[tuple[str, ...]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(tuple(sorted(stack[at:])))
            del stack[at:]

    sys.setrecursionlimit(10_000)
    for name in sorted(graph):
        if name not in index:
            visit(name)
    return sorted(found)


def problems(now: list[tuple[str, ...]], known: list[tuple[str, ...]]) -> list[str]:
    """What is new, and what the file lists although it is gone."""
    new = [c for c in now if not any(set(c) <= set(k) for k in known)]
    gone = [k for k in known if k not in now]
    said = [f"a new cycle: {' '.join(c)}. Move what both need into a module of its own" for c in new]
    return said + [f"smaller or gone: {' '.join(k)}. Run python -m tools.cycles --write" for k in gone if not new]


def known_cycles() -> list[tuple[str, ...]]:
    lines = KNOWN.read_text().splitlines() if KNOWN.exists() else []
    return [tuple(line.split()) for line in lines if line and not line.startswith("#")]


def main() -> int:
    now = cycles(imports())
    if "--write" in sys.argv:
        head = "# Known cycles of imports, see tools/cycles.py. This list only ever gets shorter.\n"
        KNOWN.write_text(head + "".join(f"{' '.join(c)}\n" for c in now))
    found = problems(now, known_cycles())
    print(*found, sep="\n") if found else print(f"cycles of imports: {len(now)}, all known")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
