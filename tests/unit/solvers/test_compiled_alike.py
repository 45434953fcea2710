"""A process that compiled a loop and one that found it on disk must run the same instructions, or bits differ between workers.

A call from one compiled function to another is bound, by name, to whichever copy was loaded first: its own library's where it was
just compiled, the caller's where the caller came from the cache. The copies were optimised apart. So compiled functions that
others call are put into them whole.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import taskveil

SOURCE = Path(taskveil.__file__).parent


def compiled(tree: ast.Module) -> dict[str, tuple[ast.FunctionDef, str]]:
    """Functions that Numba compiles, and how."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            how = " ".join(ast.unparse(d) for d in node.decorator_list)
            if "njit" in how:
                found[node.name] = node, how
    return found


def called_out_of_line(sources: list[str]) -> set[str]:
    """Compiled functions that another one calls without having them put in."""
    kernels = {name: kernel for text in sources for name, kernel in compiled(ast.parse(text)).items()}
    calls = {
        call.func.id
        for node, _ in kernels.values()
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    inside = ("forceinline=True", "inline='always'", "**INNER")
    return {name for name in calls & kernels.keys() if not any(word in kernels[name][1] for word in inside)}


def test_no_compiled_function_is_called_out_of_line_by_another():
    texts = [path.read_text() for path in sorted(SOURCE.rglob("*.py"))]
    kernels = [text for text in texts if "njit" in text]
    assert sum(len(compiled(ast.parse(text))) for text in kernels) > 20
    assert not called_out_of_line(kernels)


@pytest.mark.parametrize("how", ["njit", "njit(cache=True)", "njit(**COMPILED)"])
def test_a_planted_call_is_found(how):
    assert called_out_of_line([f"@{how}\ndef outer(x):\n    return inner(x)\n", f"@{how}\ndef inner(x):\n    return x\n"]) == {
        "inner"
    }
