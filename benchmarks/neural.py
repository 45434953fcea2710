"""The neural engine against a torch loop over clients and against pfl, on the network of the PMTL paper.

CNN of 213,630 parameters, 5 local steps, batch 16. The alternatives live in interpreters of their own, because torch is not
a dependency of ours and pfl cannot share an environment with dp-accounting: set TASKVEIL_TORCH_PYTHON and
TASKVEIL_PFL_PYTHON (default .venv-bench/bin/python and .venv-pfl/bin/python).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import measured, take_turns, unavailable

ROOT = Path(__file__).resolve().parent.parent
STEPS, BATCH, CLASSES, PIXELS = 5, 16, 62, 784


class Other:
    """A program in another interpreter that runs once for every line it is sent, and answers with a number."""

    def __init__(self, interpreter: str, script: str, *arguments: str, **environment: str):
        self.process = subprocess.Popen(
            [interpreter, str(ROOT / "benchmarks" / script), *arguments], cwd=ROOT, env={**os.environ, **environment},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.about = json.loads(self.process.stdout.readline())

    def __call__(self, line: str = "") -> float:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=60)


def interpreter(variable: str, default: str) -> str | None:
    path = os.environ.get(variable) or str(ROOT / default)
    return path if Path(path).exists() else None


def round_of(clients: int, activations: str, rows: tuple[np.ndarray, np.ndarray]) -> tuple[Any, Any, Any]:
    """The engine's round of the CNN, a cohort that starts from one model, and the rows on the device."""
    import jax

    from taskveil.engine.models import build
    from taskveil.engine.rounds import Cohort, LocalWork, Round

    model = build({"name": "cnn", "activations": activations}, PIXELS, CLASSES, "classification")
    rng, first = np.random.default_rng(0), model.start(0)
    one = Round(model, LocalWork(steps=STEPS, batch_size=BATCH, learning_rate=0.1, pull=1.0))
    cohort = Cohort(
        *(jax.numpy.asarray(a) for a in (
            first[None], np.repeat(first[None], clients, 0), np.ones(clients, np.float32),
            np.ones((clients, 1), np.float32), np.ones(clients, np.float32),
            rng.integers(0, len(rows[0]), (clients, STEPS, BATCH)).astype(np.int32),
            np.full((clients, STEPS, BATCH), 1 / BATCH, np.float32),
        ))
    )  # fmt: skip
    return one, cohort, tuple(jax.numpy.asarray(part) for part in rows)


def compiled_round(clients: int, activations: str = "float32") -> tuple[Callable[[], object], dict]:
    """One round of the engine on `clients` clients, and how long compiling took."""
    import jax

    rng = np.random.default_rng(0)
    rows = rng.random((4096, PIXELS), dtype=np.float32), rng.integers(0, CLASSES, 4096).astype(np.int32)
    one, cohort, pool = round_of(clients, activations, rows)

    def call() -> object:
        return jax.block_until_ready(one(cohort, pool, 1.0))

    start = time.perf_counter()
    call()
    about = {"first_call_seconds": time.perf_counter() - start, "parameters": one.model.n_parameters}
    return call, about


def against_torch(repeats: int) -> dict:
    """Seconds of a torch loop over 64 clients / seconds of our round."""
    path = interpreter("TASKVEIL_TORCH_PYTHON", ".venv-bench/bin/python")
    if path is None:
        return unavailable("no interpreter with torch; set TASKVEIL_TORCH_PYTHON")
    return _against(path, "neural_torch.py", repeats, 1.0)


def against_pfl(repeats: int) -> dict:
    """Seconds of a pfl central iteration over 64 clients / seconds of our round."""
    path = interpreter("TASKVEIL_PFL_PYTHON", ".venv-pfl/bin/python")
    if path is None:
        return unavailable("no interpreter with pfl; set TASKVEIL_PFL_PYTHON")
    return _against(path, "neural_pfl.py", repeats, 2.0)


def _against(path: str, script: str, repeats: int, promise: float) -> dict:
    ours, about = compiled_round(64)
    other = Other(path, script, "--clients", "64")
    try:
        seconds = take_turns({"ours": ours, "other": other}, min(repeats, 5))
    finally:
        other.close()
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    return measured(
        seconds["other"] / seconds["ours"], at_least=promise, seconds=medians, **about, other=other.about,
        peer=f"{script}: {medians['other']:.2f} s a round of 64 clients, ours {medians['ours']:.2f} s",
    )  # fmt: skip


def on_one_thread(repeats: int) -> dict:
    """Processor seconds of the torch loop over ours, on one thread; pfl beside it. A busy machine cannot distort them."""
    paths = {
        "torch": (interpreter("TASKVEIL_TORCH_PYTHON", ".venv-bench/bin/python"), "neural_torch.py"),
        "pfl": (interpreter("TASKVEIL_PFL_PYTHON", ".venv-pfl/bin/python"), "neural_pfl.py"),
    }
    there = {name: (path, script) for name, (path, script) in paths.items() if path is not None}
    if not there:
        return unavailable("no interpreter with torch or pfl")
    single = {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "PYTHONPATH": str(ROOT)}
    others = {name: Other(path, script, "--clients", "64", "--processor", **single) for name, (path, script) in there.items()}
    others["ours"] = Other(sys.executable, "neural_ours.py", "--clients", "64", **single)
    try:
        turns = [{name: other() for name, other in others.items()} for _ in range(min(repeats, 5) + 1)][1:]
    finally:
        for other in others.values():
            other.close()
    medians = {name: float(np.median([t[name] for t in turns])) for name in others}
    rival = "torch" if "torch" in there else "pfl"
    return measured(
        [t[rival] / t["ours"] for t in turns], at_least=1.0, against=rival, processor_seconds=medians,
        times_ours={name: medians[name] / medians["ours"] for name in there}, about={name: o.about for name, o in others.items()},
    )  # fmt: skip


def compile_time(repeats: int) -> dict:
    """Seconds of the first call, compiling included."""
    _, about = compiled_round(64)
    return measured(about["first_call_seconds"], at_most=15.0, **about)


def memory_of_many_clients(repeats: int) -> dict:
    """Peak GiB of 10,000 CNN clients on the CPU: three sampled, clipped, noised rounds of the library's own loop.

    In the end every client has a model, so all of the state is touched: the worst case.
    """
    code = "from benchmarks.neural import peak_of_many; peak_of_many(10_000)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    peak, about = json.loads(done.stdout.splitlines()[-1])
    return measured(peak, at_most=20.0, **about)


def peak_of_many(clients: int) -> None:
    from benchmarks.neural_gpu import many_clients

    about = many_clients(clients, rounds=3, cohort=64)
    state = clients * 4 * 213_630 / 2**30
    print(json.dumps([resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, {"client_state_gib": state, **about}]))


BENCHMARKS = {
    "neural-against-torch": against_torch,
    "neural-against-pfl": against_pfl,
    "neural-one-thread": on_one_thread,
    "neural-compile-time": compile_time,
    "neural-memory-10000": memory_of_many_clients,
}
