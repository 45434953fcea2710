"""One round of 512 clients of `shared-representation` beside one of `mean`: the network and sizes of benchmarks/neural.py.

    python -m experiments.shen_2023.round_time [--rows 32 64]

Clients of `mean` walk 5 steps of 16 rows. Those of `shared-representation` hold so many rows each and take their one step on all.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.neural import BATCH, CLASSES, PIXELS, STEPS

CLIENTS, POOL = 512, 8192


def milliseconds(call: Callable[[], Any], repeats: int = 20) -> float:
    """Median after a first call, which compiles."""
    import jax

    taken = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        jax.block_until_ready(call())
        taken.append(1e3 * (time.perf_counter() - began))
    return float(np.median(taken[1:]))


def round_time(method: str, steps: int, rows: int) -> float:
    import jax.numpy as jnp

    from taskveil import methods
    from taskveil.engine.clients import round_of
    from taskveil.engine.rounds import Cohort
    from taskveil.methods.base import PublicInfo
    from taskveil.privacy.plan import Budget, Plan

    rng, public = np.random.default_rng(0), PublicInfo(CLIENTS, PIXELS, CLASSES, "classification", seed=0)
    made = methods.get(method, model="cnn", local_steps=steps)
    model = made.built(public)
    compiled = round_of(model, made.work(Plan((), Budget(1.0, 1e-5)), public), exact_sum=True)
    start = jnp.asarray(model.start(0))
    own = jnp.tile(start, (CLIENTS, 1)) if made.work_start == "own" else jnp.zeros((CLIENTS, 1))
    index = rng.integers(0, POOL, (CLIENTS, steps, rows)).astype(np.int32)
    ones = jnp.ones((CLIENTS, 1))
    arrays = start[None, model.n_own :], own, ones[:, 0], ones, ones[:, 0], jnp.asarray(index), jnp.full(index.shape, 1 / rows)
    pool = jnp.asarray(rng.random((POOL, PIXELS), dtype=np.float32)), jnp.asarray(rng.integers(0, CLASSES, POOL).astype(np.int32))
    return milliseconds(lambda: compiled(Cohort(*arrays), pool, 1.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[32, 64])
    asked = parser.parse_args().rows
    found = {"mean": round_time("mean", STEPS, BATCH)}
    found |= {f"shared-representation, {n} rows": round_time("shared-representation", 1, n) for n in asked}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
