"""The neural engine on an accelerator: device time of a round, the per-client torch loop, 10,000 clients to the end.

    python -m benchmarks.neural_gpu OUT.json

Needs jax with an accelerator; torch in the same interpreter for the comparison. The noise is calibrated in closed form for
the smoke run here (not accounted: this is about time), so that nothing but numpy, scipy, jax and torch is needed.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.neural import BATCH, CLASSES, PIXELS, STEPS, compiled_round


def seconds(call, repeats: int) -> list[float]:
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken


def round_times(clients: int, repeats: int = 30) -> dict:
    call, about = compiled_round(clients)
    taken = np.array(seconds(call, repeats))
    return {
        "clients": clients, "median_ms": float(1e3 * np.median(taken)), "min_ms": float(1e3 * taken.min()),
        "max_ms": float(1e3 * taken.max()), **about,
    }  # fmt: skip


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
    return {
        "clients": clients,
        "device": device,
        "median_ms": float(1e3 * np.median(taken)),
        "all_ms": list(1e3 * taken),
    }


def many_clients(clients: int, rounds: int, cohort: int = 512) -> dict:
    """`mean` with the CNN through the library's own loop: sampled cohorts, clipping, charging, noise, to the end."""
    import jax

    from taskveil.methods.base import PublicInfo
    from taskveil.methods.neural_mean import NeuralMean
    from taskveil.methods.neural_sides import RELEASE
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
    y = np.where(np.arange(CLASSES) == rng.integers(0, CLASSES, len(X))[:, None], 1.0, -1.0).astype(
        np.float32
    )
    method = NeuralMean(model="cnn", rounds=rounds, rate=cohort / clients, personalise="none")
    public = PublicInfo(clients, PIXELS, CLASSES, "classification", seed=0)
    what = VectorSum((method.built(public).n_parameters,), 1.0)
    event = SampledGaussianEvent(1.0, cohort / clients)
    plan = Plan(
        tuple(
            PlannedRelease(RELEASE, t + 1, what, Gaussian(1.0), event, cohort / clients)
            for t in range(rounds)
        ),
        Budget(1.0, 1e-5),
    )
    stamps = [time.perf_counter()]
    record = in_process.run(
        Run(
            method, public, plan, source=system_noise(exact=False),
            progress=lambda *_: stamps.append(time.perf_counter()),
        ),
        TaskBlock(X, y, offsets, kind="classification"),
    )  # fmt: skip
    per_round = np.diff(stamps)[2:]
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "clients": clients, "rounds": record.rounds, "rows": int(offsets[-1]), "seconds": record.seconds,
        "first_round_seconds": float(stamps[1] - stamps[0]), "median_round_ms": float(1e3 * np.median(per_round)),
        "state_on_device": not isinstance(record.state["models"], np.ndarray),
        "device_peak_gib": stats.get("peak_bytes_in_use", 0) / 2**30,
    }  # fmt: skip


def main() -> None:
    import jax

    out = Path(sys.argv[1])
    device = jax.devices()[0]
    results: dict = {"device": str(device), "device_name": device.device_kind, "jax": jax.__version__}
    for name, call in {
        "round-64": lambda: round_times(64), "round-512": lambda: round_times(512),
        "torch-loop-64": lambda: torch_times(64), "torch-loop-512": lambda: torch_times(512),
        "ten-thousand": lambda: many_clients(10_000, 200),
    }.items():  # fmt: skip
        try:
            results[name] = call()
        except Exception as error:  # what could be measured is kept
            results[name] = {"error": f"{type(error).__name__}: {error}"}
        print(name, json.dumps(results[name]), flush=True)
        out.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
