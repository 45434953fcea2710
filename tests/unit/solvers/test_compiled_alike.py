"""A process that compiled a loop and one that found it on disk must run the same instructions, or bits differ between workers.

A call from one compiled function to another is bound, by name, to whichever copy was loaded first: its own library's where it was
just compiled, the caller's where the caller came from the cache. The copies were optimised apart. So compiled functions that
others call are put into them whole.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
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


EVIDENCE = """
import hashlib
import numpy as np
from taskveil.solvers import kernels_tridiagonal as kernels
rng, found = np.random.default_rng(0), hashlib.sha256()
for p, q in ((5, 2), (24, 7)):
    B, t = rng.standard_normal((7, p, 30)), np.tile(np.geomspace(1e-4, 1e6, 21), (7, 1))
    G, diagonal, beside = B @ B.transpose(0, 2, 1) / 30, np.zeros((7, p)), np.zeros((7, p))
    kernels.tridiagonalise(G, diagonal, beside)
    along, onto, out = rng.standard_normal((7, p)), rng.standard_normal((7, p, q)), [np.zeros((7, 21)), np.zeros((7, 21))]
    out.append(np.zeros((7, p, 21)))
    kernels.posterior(diagonal, beside, along, onto, np.square(along).sum(axis=1) + 1.0, t, 0.08, True, *out)
    for values in (diagonal, beside, *out):
        found.update(values.tobytes())
print(found.hexdigest(), sum(kernels.posterior.stats.cache_hits.values()))
"""


@pytest.mark.engine
def test_the_first_process_on_a_machine_and_the_next_compute_the_same_bits(tmp_path):
    """One compiles, the other finds the code on disk."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    made = [subprocess.run([sys.executable, "-c", EVIDENCE], env=env, capture_output=True, text=True, check=True) for _ in "ab"]
    (first, compiled_here), (second, from_disk) = (done.stdout.split() for done in made)
    assert (compiled_here, from_disk) == ("0", "1") and first == second
