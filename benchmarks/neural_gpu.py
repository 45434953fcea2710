"""The neural engine on an accelerator: a round in both modes, torch beside it, 10,000 clients to the end, distance from the CPU.

    python -m benchmarks.neural_gpu OUT.json [NAMES]   of what to measure, e.g. round-512-float16; all where none is named

Needs jax with an accelerator, torch in the same interpreter for the comparison, and `cryptography` for the noise, which is the
exact one of every private run. Its scale is chosen here and not accounted for (this is about time), so that nothing else is
needed. `TASKVEIL_DATA` may name a folder with FEMNIST: distances are then measured on its images, else on noise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from jax.flatten_util import ravel_pytree

from benchmarks.neural import BATCH, CLASSES, PIXELS, STEPS, compiled_round, round_of
from taskveil.privacy.bounds import clip_rows
from taskveil.privacy.partial_sums import grid_of


def seconds(call, repeats: int) -> list[float]:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken


def spread(taken: list[float]) -> dict:
    return {f"{name}_ms": float(1e3 * of(taken)) for name, of in {"median": np.median, "min": np.min, "max": np.max}.items()}


def round_times(clients: int, activations: str, repeats: int = 30) -> dict:
    call, about = compiled_round(clients, activations)
    return {"clients": clients, "activations": activations, **spread(seconds(call, repeats)), **about}


def peer_times(clients: int, bits: int, tf32: bool = False, repeats: int = 30) -> dict:
    """torch.compile over torch.func.vmap, convolutions unfolded: see neural_torch_compiled.py."""
    import torch

    from benchmarks.neural_torch_compiled import compiled_round as compiled_by_torch

    torch._dynamo.reset()
    one_round = compiled_by_torch(clients, bits, tf32)

    def call() -> None:
        one_round()
        torch.cuda.synchronize()

    first = seconds(call, 3)[0]
    return {"clients": clients, "bits": bits, "tf32": tf32, **spread(seconds(call, repeats)), "first_call_seconds": first}


def accuracy(clients: int = 512, few: int = 64) -> dict:
    """How far messages and sums are from those of the plain path on the CPU; on writers' images where they are found.

    `sum of few` is the sum over the first of the clients: one decision that fell the other way weighs more there. `cpu` is how
    far that path itself is from float64.
    """
    X, y, data = images()
    ask = [sys.executable, "-c", "from benchmarks.neural_gpu import save_messages; import sys; save_messages(*sys.argv[1:])"]
    with tempfile.TemporaryDirectory() as folder:
        rows, saved = str(Path(folder) / "rows.npz"), {}
        np.savez(rows, X=X, y=y)
        for kind in ("float32", "float64"):
            path = str(Path(folder) / f"{kind}.npz")
            subprocess.run([*ask, rows, path, str(clients), kind], env={**os.environ, "JAX_PLATFORMS": "cpu"}, check=True)
            with np.load(path) as stored:
                saved[kind] = dict(stored)
        found = {kind: _distances(messages(X, y, kind, clients), saved["float32"], few) for kind in ("float32", "float16")}
        return {"data": data, "clients": clients, "few": few, **found, "cpu": _distances(saved["float32"], saved["float64"], few)}


def _distances(found: dict, expected: dict, few: int) -> dict:
    """Relative, of the typical client's message, of the worst one's, and of the clipped sum.

    The worst client is one in which a relu or a pooling window decided the other way: that moves a whole gradient. `moved`
    counts clients that are further away than rounding explains.
    """
    found, expected = ({name: np.asarray(v, np.float64) for name, v in side.items()} for side in (found, expected))
    each = np.linalg.norm(found["messages"] - expected["messages"], axis=1) / np.linalg.norm(expected["messages"], axis=1)
    first = [clip_rows(m["messages"][:few], 1.0).sum(axis=0) for m in (found, expected)]
    quantiles = dict(zip(("quarter", "median", "three-quarters", "worst"), np.quantile(each, [0.25, 0.5, 0.75, 1]).tolist()))
    return {
        **quantiles, "moved": int(np.sum(each > 1e-4)),
        "sum": _apart(found["clipped"], expected["clipped"]), "sum of few": _apart(*first),
    }  # fmt: skip


def _apart(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def images() -> tuple[np.ndarray, np.ndarray, str]:
    path = Path(os.environ.get("TASKVEIL_DATA", "")) / "femnist" / "femnist.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        return rng.random((4096, PIXELS), dtype=np.float32), rng.integers(0, CLASSES, 4096).astype(np.int32), "noise"
    with np.load(path) as stored:
        return stored["X"][:4096] / np.float32(255), stored["y"][:4096].astype(np.int32), "femnist"


def save_messages(rows: str, path: str, clients: str, kind: str) -> None:
    with np.load(rows) as stored:
        np.savez(path, **messages(stored["X"], stored["y"], kind, int(clients)))


def messages(X: np.ndarray, y: np.ndarray, kind: str, clients: int) -> dict[str, np.ndarray]:
    """Messages before the clip (clients, p), and the clipped sum (p,); `kind` names the activations, float64 the whole round."""
    import jax

    one, cohort, pool = round_of(clients, "float16" if kind == "float16" else "float32", (X, y))
    arrays, knobs = cohort.arrays, one._knobs(1.0, 1.0)
    if kind == "float64":  # from the same float32 start; the engine's models have no such mode
        jax.config.update("jax_enable_x64", True)
        arrays, pool, knobs = jax.tree.map(_longer, (arrays, pool, knobs))
        tree = jax.tree.map(_longer, one.model.unravel(cohort.anchors[0]))
        one.model = replace(one.model, unravel=ravel_pytree(tree)[1])
    raw = np.asarray(jax.jit(one._raw)(arrays, *pool, knobs)[1])
    if kind == "float64":
        on_grid = np.trunc(clip_rows(raw, 1.0) / grid_of(1.0)) * grid_of(1.0)
        return {"messages": raw, "clipped": on_grid.sum(axis=0, keepdims=True)}
    return {"messages": raw, "clipped": np.asarray(one(cohort, pool, 1.0)[1], np.float64) * grid_of(1.0)}


def _longer(a):
    return a.astype("float64") if a.dtype == np.float32 else a


def torch_times(clients: int, repeats: int = 3) -> dict:
    import torch

    from benchmarks.neural_torch import Network, one_round

    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = Network().to(device)
    shared = [w.detach().clone() for w in network.parameters()]
    rows = torch.rand(clients, STEPS, BATCH, 1, 28, 28, device=device)
    labels = torch.randint(0, CLASSES, (clients, STEPS, BATCH), device=device)

    def call() -> None:
        one_round(network, shared, rows, labels)
        if device == "cuda":
            torch.cuda.synchronize()

    call()
    taken = np.array(seconds(call, repeats))
    return {"clients": clients, "device": device, "median_ms": float(1e3 * np.median(taken)), "all_ms": list(1e3 * taken)}


class Journal:
    """An account whose commits are on the disk before they return, as those of a run directory are; it sets no limit."""

    def __init__(self, path: Path):
        self.path = path

    def reserve(self, plan) -> None: ...
    def finish(self) -> None: ...

    def commit(self, *planned) -> str:
        with open(self.path, "a") as file:
            file.writelines(f"{one.id}\n" for one in planned)
            file.flush()
            os.fsync(file.fileno())
        return planned[-1].id


def many_clients(clients: int, rounds: int, cohort: int = 512, activations: str = "float32", name: str = "mean") -> dict:
    """A method with the CNN through the library's own loop: sampled cohorts, clipping, charging, exact noise, to the end."""
    import jax

    from taskveil.methods.base import PublicInfo
    from taskveil.methods.neural import NeuralMean
    from taskveil.methods.neural_sides import RELEASE
    from taskveil.methods.shared_representation import SharedRepresentation
    from taskveil.privacy.contributions import VectorSum
    from taskveil.privacy.events import SampledGaussianEvent
    from taskveil.privacy.mechanisms.gaussian import Gaussian
    from taskveil.privacy.plan import Budget, Plan, PlannedRelease
    from taskveil.privacy.randomness import system_noise
    from taskveil.runtime import in_process
    from taskveil.runtime.run import Run
    from taskveil.tasks.block import TaskBlock

    rng = np.random.default_rng(0)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(5, 70, clients))])
    X = rng.random((offsets[-1], PIXELS), dtype=np.float32)
    y = np.where(np.arange(CLASSES) == rng.integers(0, CLASSES, len(X))[:, None], 1.0, -1.0).astype(np.float32)
    model = {"name": "cnn", "activations": activations}
    kind = {"mean": NeuralMean, "shared-representation": SharedRepresentation}[name]
    method = kind(model=model, rounds=rounds, rate=cohort / clients, personalise="none")
    public = PublicInfo(clients, PIXELS, CLASSES, "classification", seed=0)
    what = VectorSum(method.total_shape(public), 1.0)
    event = SampledGaussianEvent(1.0, cohort / clients)
    plan = Plan(
        tuple(PlannedRelease(RELEASE, t + 1, what, Gaussian(1.0), event, cohort / clients) for t in range(rounds)),
        Budget(1.0, 1e-5),
    )
    stamps = [time.perf_counter()]
    with tempfile.TemporaryDirectory() as folder:
        record = in_process.run(
            Run(
                method, public, plan, Journal(Path(folder) / "commits"), system_noise(),
                progress=lambda *_: stamps.append(time.perf_counter()),
            ),
            TaskBlock(X, y, offsets, kind="classification"),
        )  # fmt: skip
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "method": name, "clients": clients, "rounds": record.rounds, "rows": int(offsets[-1]), "seconds": record.seconds,
        "activations": activations, "first_round_seconds": float(stamps[1] - stamps[0]),
        "round": spread(np.diff(stamps)[2:]), "randomness": record.randomness,
        "state_on_device": not isinstance(record.state.get("models"), (np.ndarray, type(None))),
        "device_peak_gib": stats.get("peak_bytes_in_use", 0) / 2**30,
    }  # fmt: skip


def representation_in_pieces(size: int) -> dict:
    """The round of `shared-representation` with pieces of so many clients: what the engine's own number was chosen by."""
    from taskveil.engine import rounds

    usual = rounds.OF_ONE_WIDTH_ON_ACCELERATOR
    try:
        rounds.OF_ONE_WIDTH_ON_ACCELERATOR = size
        return many_clients(10_000, 40, name="shared-representation")
    finally:
        rounds.OF_ONE_WIDTH_ON_ACCELERATOR = usual


def main() -> None:
    import jax

    out, names = Path(sys.argv[1]), sys.argv[2:]
    device = jax.devices()[0]
    results: dict = {"device": str(device), "device_name": device.device_kind, "jax": jax.__version__}
    for name, call in {
        **{f"round-{n}-{kind}": partial(round_times, n, kind) for n in (64, 512) for kind in ("float32", "float16")},
        **{f"ten-thousand-{kind}": partial(many_clients, 10_000, 200, activations=kind) for kind in ("float32", "float16")},
        "representation-ten-thousand": partial(many_clients, 10_000, 50, name="shared-representation"),
        **{f"representation-in-{n}s": partial(representation_in_pieces, n) for n in (32, 128, 256)},
        "accuracy": accuracy,
        **{f"torch-compiled-{n}-{bits}": partial(peer_times, n, bits, bits == 32) for n in (64, 512) for bits in (32, 16)},
        "torch-loop-512": partial(torch_times, 512),
    }.items():  # fmt: skip
        if names and name not in names:
            continue
        try:
            results[name] = call()
        except Exception as error:  # what could be measured is kept
            results[name] = {"error": f"{type(error).__name__}: {error}"}
        print(name, json.dumps(results[name]), flush=True)
        out.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
