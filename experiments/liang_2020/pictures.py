"""MP-MTL Fig. 2 (leakage), Fig. 3 (relationships), Fig. 5 (noise to signal), Lemmas 1-2 and Prop. 1."""

from __future__ import annotations

import numpy as np

import taskveil as tv
from experiments.common import Result, below, positive
from experiments.liang_2020.runs import estimator, paper_delta
from taskveil.calculators import prox_bounds
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.structures import STRUCTURES
from taskveil.tasks.synthetic import get_synthetic
from taskveil.tasks.task import TaskSet

PAPER = "MP-MTL"


def fig2(quick: bool, seed: int) -> Result:
    """Ten tasks, five features, the tenth a hundred times larger: how far do the others turn towards it?"""
    repeats = 20 if quick else 100
    turned: dict[str, list[float]] = {"before": [], "leaked": [], "as printed, epsilon 0.1": [], "sound, epsilon 0.1": []}
    structure = STRUCTURES.get("trace_norm")
    for r in range(repeats):
        rng = np.random.default_rng(seed + r)
        W = rng.uniform(0, 1, (5, 10))
        W[:, 9] *= 100
        K, threshold = 100 * np.sqrt(5), 50.0
        stream = insecure_seeded_noise(seed + r)
        S = W @ W.T
        wishart = stream.at(1, "paper").wishart(5, 6, K**2 / (2 * 0.1))
        noise = stream.at(1, "sound").normal(np.sqrt(2) * K**2 / 0.1, (5, 5))
        lift = 1.5 * np.sqrt(2) * K**2 / 0.1 * np.sqrt(10)
        maps = {
            "leaked": structure.map_from_covariance(S, threshold),
            "as printed, epsilon 0.1": structure.map_from_covariance(S + wishart, threshold),
            "sound, epsilon 0.1": structure.map_from_covariance(S + (noise + noise.T) / 2, threshold, lift),
        }
        turned["before"].append(_towards(W, W))
        for name, M in maps.items():
            turned[name].append(_towards(M @ W, W))
    series = {"cosine to the tenth model": {"x": list(turned), "y": [float(np.mean(v)) for v in turned.values()]}}
    return Result(
        "fig2", PAPER, "without noise the others' models turn into the tenth; with noise they do not", "picture",
        as_printed=f"cosine {np.mean(turned['as printed, epsilon 0.1']):.3f}",
        sound=f"cosine {np.mean(turned['sound, epsilon 0.1']):.3f}",
        checks=[
            below("without protection the others turn towards the tenth model", turned["before"], turned["leaked"]),
            below("as printed they turn less", turned["as printed, epsilon 0.1"], turned["leaked"]),
            below("sound noise: they turn less", turned["sound, epsilon 0.1"], turned["leaked"], about="ours"),
        ],
        series=series, axes={"x": "", "y": "mean cosine to the tenth model before"}, settings={"repeats": repeats},
    )  # fmt: skip


def _towards(W: np.ndarray, before: np.ndarray) -> float:
    """Mean cosine of models 1-9 with the tenth one."""
    target = before[:, 9] / np.linalg.norm(before[:, 9])
    norms = np.maximum(np.linalg.norm(W[:, :9], axis=0), 1e-300)
    return float(np.mean(target @ W[:, :9] / norms))


def fig3(quick: bool, seed: int) -> Result:
    """Task relationships recovered from the output models at epsilon 0.1: distance of correlation matrices."""
    repeats, m = (3, 120) if quick else (20, 320)
    found: dict[str, list[float]] = {"DP-MTRL as printed": [], "MP-MTL as printed": [], "subspace, sound": [], "alone": []}
    for r in range(repeats):
        data = get_synthetic("low-rank", seed=seed + r, n_tasks=m)
        truth = np.corrcoef(data.weights.reshape(m, -1))
        delta = paper_delta(m)
        paper = {"variant": "paper", "delta": delta, "neighbours": "add-remove"}
        runs = {
            "DP-MTRL as printed": (tv.methods.get("dp-mtrl", rounds=1, ridge=10.0), 0.1, paper),
            "MP-MTL as printed": (tv.methods.get("low-rank", rounds=10, penalty=2.0, clip=7.0), 0.1, paper),
            "subspace, sound": (tv.methods.get("subspace"), 0.1, {"delta": delta, "neighbours": "add-remove"}),
            "alone": (tv.methods.get("local"), None, {}),
        }
        for name, (method, epsilon, options) in runs.items():
            est = estimator(data.train, method, epsilon, seed + r, **options).fit(data.train)
            found[name].append(float(np.sqrt(np.mean((np.corrcoef(est.coef_) - truth) ** 2))))
    return Result(
        "fig3", PAPER, "at epsilon 0.1 MP-MTL shows the blocks of related tasks, DP-MTRL does not", "picture",
        as_printed=f"error {np.mean(found['MP-MTL as printed']):.3f} (DP-MTRL {np.mean(found['DP-MTRL as printed']):.3f})",
        sound=f"error {np.mean(found['subspace, sound']):.3f}",
        checks=[
            below("MP-MTL recovers relationships better than DP-MTRL", found["MP-MTL as printed"], found["DP-MTRL as printed"]),
            below("sound: better than DP-MTRL", found["subspace, sound"], found["DP-MTRL as printed"], about="ours"),
        ],
        series={"error of the correlation matrix": {"x": list(found), "y": [float(np.mean(v)) for v in found.values()]}},
        axes={"x": "", "y": "root mean square error"}, settings={"repeats": repeats, "tasks": m, "epsilon": 0.1},
    )  # fmt: skip


def fig5(quick: bool, seed: int) -> Result:
    """Noise-to-signal ratio of the covariance over iterations, as printed and with sound noise."""
    repeats, rounds = (3, 30) if quick else (20, 100)
    ratios: dict[str, list[np.ndarray]] = {"as printed (Wishart)": [], "symmetric Gaussian": []}
    data = get_synthetic("low-rank", seed=seed)
    delta = paper_delta(data.train.n_tasks)
    for r in range(repeats):
        for name, variant in (("as printed (Wishart)", "paper"), ("symmetric Gaussian", "sound")):
            method = tv.methods.get("low-rank", rounds=rounds, penalty=2.0 if variant == "paper" else None, clip=7.0, local_steps=1)
            est = estimator(data.train, method, 0.1, seed + r, variant=variant, delta=delta, neighbours="add-remove").fit(data.train)
            ratios[name].append(_noise_to_signal(est, data.train))
    series = {
        name: {"x": list(range(1, rounds + 1)), "y": np.mean(v, axis=0).tolist()} for name, v in ratios.items()
    }
    last = {name: [float(v[-1]) for v in values] for name, values in ratios.items()}
    spread = [float(v[1:].std() / v[1:].mean()) for v in ratios["as printed (Wishart)"]]
    return Result(
        "fig5", PAPER, "the noise-to-signal ratio stays about constant over iterations", "flat curves",
        as_printed=f"{np.mean(last['as printed (Wishart)']):.2f} at the last iteration, relative spread {np.mean(spread):.2f}",
        sound=f"{np.mean(last['symmetric Gaussian']):.2f} at the last iteration",
        checks=[
            below("relative change over iterations is below one half", spread, [0.5] * repeats),
            below("Gaussian noise is smaller than Wishart noise at the same stated epsilon", last["symmetric Gaussian"],
                  last["as printed (Wishart)"], about="ours"),
        ],
        series=series, axes={"x": "iteration", "y": "|noise| / |signal| (Frobenius)", "log": "y"},
        settings={"repeats": repeats, "rounds": rounds, "epsilon": 0.1},
    )  # fmt: skip


def _noise_to_signal(est: tv.TaskRegressor, train: TaskSet) -> np.ndarray:
    """Per round: Frobenius norm of the noise over that of the largest signal clipped messages can have."""
    record = est.record_
    ratios = []
    for board, planned in zip(record.billboards[1:], record.plan.releases, strict=True):
        d = train.n_features
        noise = planned.mechanism.noise((d, d), insecure_seeded_noise(board.round).at(board.round, "expected"))
        signal = board.values["second-moment"] - (d + 1) * planned.mechanism.scale * np.eye(d) * (
            planned.mechanism.name == "paper-wishart"
        )
        ratios.append(np.linalg.norm(noise) / max(np.linalg.norm(signal), 1e-12))
    return np.asarray(ratios)


def lemmas(quick: bool, seed: int) -> Result:
    """Lemmas 1 and 2: the approximation error of the noisy proximal step stays below the printed bound."""
    draws = 200 if quick else 2000
    rng = np.random.default_rng(seed)
    margins: dict[str, list[float]] = {"Lemma 1": [], "Lemma 2": []}
    for _ in range(draws):
        d, m = int(rng.integers(2, 6)), int(rng.integers(6, 15))
        C = rng.standard_normal((d, m)) * rng.uniform(0.5, 3)
        E = rng.standard_normal((d, d)) * 10 ** rng.uniform(-6, -2)
        E = (E + E.T) / 2
        threshold = float(rng.uniform(0.05, 1.0))
        at = (C, E, 1.0, threshold)
        if prox_bounds.low_rank_applies(*at):
            margins["Lemma 1"].append(prox_bounds.low_rank_bound(*at) - prox_bounds.low_rank_excess(*at))
        margins["Lemma 2"].append(prox_bounds.group_sparse_bound(*at) - prox_bounds.group_sparse_excess(*at))
    return Result(
        "lemmas", PAPER, "the proximal error bounds of Lemmas 1 and 2 hold", "bounds",
        as_printed=", ".join(f"{k}: {len(v)} draws, smallest margin {min(v, default=float('nan')):.2g}" for k, v in margins.items()),
        checks=[positive(f"{k} holds in every draw that meets its conditions", [float(min(v) >= -1e-9)]) for k, v in margins.items() if v],
        settings={"draws": draws},
    )  # fmt: skip


def prop1(quick: bool, seed: int) -> Result:
    """Prop. 1: much noise means learning alone. As printed by large noise; sound by lifting the eigenvalues."""
    rng = np.random.default_rng(seed)
    structure = STRUCTURES.get("trace_norm")
    W = rng.standard_normal((10, 50))
    distances: dict[str, list[float]] = {"as printed": [], "sound, lifted": [], "sound, not lifted": []}
    levels = [1e1, 1e3, 1e5, 1e7]
    for level in levels:
        wishart = insecure_seeded_noise(seed).at(1, "w").wishart(10, 11, level)
        noise = insecure_seeded_noise(seed).at(1, "g").normal(level, (10, 10))
        S, N = W @ W.T, (noise + noise.T) / 2
        lift = 1.5 * level * np.sqrt(20)
        for name, M in (
            ("as printed", structure.map_from_covariance(S + wishart, 5.0)),
            ("sound, lifted", structure.map_from_covariance(S + N, 5.0, lift)),
            ("sound, not lifted", structure.map_from_covariance(S + N, 5.0)),
        ):
            distances[name].append(float(np.linalg.norm(M - np.eye(10), 2)))
    series = {name: {"x": levels, "y": v} for name, v in distances.items()}
    return Result(
        "prop1", PAPER, "with much noise the map tends to the identity", "limit",
        as_printed=f"|M - I| = {distances['as printed'][-1]:.2g}", sound=f"|M - I| = {distances['sound, lifted'][-1]:.2g}",
        checks=[
            below("as printed: the map tends to the identity", [distances["as printed"][-1]], [0.05]),
            below("sound: lifting keeps it", [distances["sound, lifted"][-1]], [0.05], about="ours"),
        ],
        series=series, axes={"x": "noise scale", "y": "|M - I|", "log": "x"},
    )  # fmt: skip
