"""Fig. 11-12: balanced accuracy of masked runs, one epoch a round, on HAR and light HAR."""

from __future__ import annotations

from typing import Any

from experiments.ponomarenko_2023.accuracy import classifier
from experiments.ponomarenko_2023.clock import HAR, LIGHT, banded, curve, epoch_times
from experiments.ponomarenko_2023.data import har_split
from taskveil.estimators.metrics import evaluate
from taskveil.methods.svm.method import Svm

LOCAL = {"scope": "local", "mode": "sequential", "C1": 0.01, "C2": 1.0, "tol": 1e-3}
DATA = {"HAR": None, "light HAR": 100}
BERNOULLI = {f"Bernoulli({q:g})": {"mask": ("bernoulli", q)} for q in (0.75, 0.5, 0.25)}
BETA = {f"Beta(2, 0.5) on {s:.0%}": {"mask": ("beta", 2.0, 0.5), "mask_share": s} for s in (1.0, 0.75, 0.5, 0.25)}
NO_MASK = "no mask"


def one_split(light: int | None, seed: int, masks: dict[str, Any], rounds: int, mode: str) -> dict[str, Any]:
    """Mask (none: the empty options) -> curve of balanced accuracy over virtual time."""
    split = har_split(seed, 20, light)
    times = epoch_times(split, heterogeneous=False, seed=seed)
    found = {}
    for name, options in masks.items():
        method = Svm(
            **(HAR if light is None else LIGHT), **options, mask_mode=mode, mask_seed=seed if options else None, rounds=rounds, tol=0.0, coordinator="safe",
            local_passes=1,
        )  # fmt: skip
        found[name] = curve(method, split, times, growth=1.5)
    return found


def local_score(light: int | None, seed: int) -> float:
    split = har_split(seed, 20, light)
    return evaluate(classifier("svm", **LOCAL).fit(split.train), split.test, "balanced-accuracy")


def table(masks: dict[str, Any], seeds: int, rounds: int) -> dict[str, Any]:
    """Data -> {local, consistent: mask -> scores, paper: mask -> scores, curves with their bands}."""
    out: dict[str, Any] = {}
    for data, light in DATA.items():
        part: dict[str, Any] = {"local": [local_score(light, seed) for seed in range(seeds)], "curves": {}}
        plain = [one_split(light, seed, {NO_MASK: {}}, rounds, "consistent") for seed in range(seeds)]
        for mode in ("consistent", "paper"):
            runs = [{**p, **one_split(light, seed, masks, rounds, mode)} for seed, p in enumerate(plain)]
            part[mode] = {m: [float(r[m]["y"][-1]) for r in runs] for m in runs[0]}
            part["curves"][mode] = {m: banded([r[m] for r in runs]) for m in runs[0]}
        out[data] = part
    return out
