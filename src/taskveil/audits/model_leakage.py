"""Model leakage as in MP-MTL Fig. 2: one task's model shows in everybody's, until noise hides it.

As printed (journal version, section 4.3): m = 10 tasks, d = 5, models uniform on (0, 1), the tenth times 100; Algorithm 2 with
T = 1, eta = 1, K = 100 sqrt(5), lambda = 50, epsilon = 1e40 (leaked) and 0.1 (their protected panel). We add the sound
mechanism at epsilon 1. What is measured is how much of every other model points along the tenth: the mean |cosine|.

The picture is about models, not about a proof: the paper's own noise looks as if it protected, and is refuted all the same
(wishart_membership).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.audits.gallery import Attack, beside
from taskveil.privacy.contributions import OuterSum
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount, release
from taskveil.structures import STRUCTURES

TASKS, FEATURES, FACTOR, PENALTY = 10, 5, 100.0, 50.0
PANELS = {
    "before": None, "leaked": ("paper", 1e40), "protected as in the paper": ("paper", 0.1), "protected, sound": ("sound", 1.0),
}  # fmt: skip


def model_leakage(seed: int = 0) -> Attack:
    """Model matrices (features x tasks) before, leaked and protected, columns scaled to length one."""
    W = np.random.default_rng(seed).random((TASKS, 1, FEATURES))
    W[-1] *= FACTOR
    panels = {name: _unit_columns(W if how is None else _after(W, how, seed)) for name, how in PANELS.items()}
    secret = panels["before"][:, -1]
    likeness = {name: float(np.mean(np.abs(secret @ P[:, :-1]))) for name, P in panels.items()}
    sentence = (
        f"Without noise the other nine models end up along the tenth one: mean |cosine| {likeness['leaked']:.3f}, up from "
        f"{likeness['before']:.3f}; with sound noise at epsilon 1 it is {likeness['protected, sound']:.3f}."
    )
    data = {"likeness": likeness, "models": {name: P.tolist() for name, P in panels.items()}}
    return Attack("model-leakage", sentence, data, lambda: _figure(panels, likeness))


def _after(W: np.ndarray, how: tuple[str, float], seed: int) -> np.ndarray:
    """One round of Algorithm 2, from models to M w."""
    variant, epsilon = how
    what = OuterSum(FEATURES, FACTOR * float(np.sqrt(FEATURES)))
    budget = Budget(epsilon, 1e-5, variant=variant) if epsilon < 1e9 else Budget(None, 1e-5)  # 1e40 stands for no noise
    plan = make_plan([Request("second-moment", 1, what)], budget)
    account = MemoryAccount()
    account.reserve(plan)
    noisy = release(plan.releases[0], what.clip(W), account, insecure_seeded_noise(seed)).value
    M = STRUCTURES.get("trace_norm").map_from_covariance(noisy, PENALTY, 0.0)
    return W @ M.T


def _unit_columns(W: np.ndarray) -> np.ndarray:
    P = W[:, 0].T
    return P / np.maximum(np.linalg.norm(P, axis=0), 1e-12)


def _figure(panels: dict[str, np.ndarray], likeness: dict[str, float]) -> dict[str, Any]:
    first, rest = next(iter(panels)), {"showticklabels": False}
    maps = {f"{name}<br>likeness to task 10: {likeness[name]:.2f}": [_map(P, name == first)] for name, P in panels.items()}
    figure = beside(maps, "One task's model shows in all the others (MP-MTL, Fig. 2)")
    for k in range(2, len(panels) + 1):
        figure["layout"][f"yaxis{k}"].update(rest)
    figure["layout"]["margin"] = {"t": 110}
    return figure


def _map(P: np.ndarray, scale: bool) -> dict[str, Any]:
    return {
        "type": "heatmap", "z": P.tolist(), "zmin": -1, "zmax": 1, "colorscale": "RdBu", "showscale": scale,
        "x": [f"task {i + 1}" for i in range(P.shape[1])], "y": [f"feature {j + 1}" for j in range(P.shape[0])],
    }  # fmt: skip
