"""What a curious server reads from the updates of one HAR participant."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.ponomarenko_2023.data import har_split
from experiments.ponomarenko_2023.membership import membership
from taskveil.audits.row_reconstruction import row_recovery, watched_updates
from taskveil.methods.svm.method import Svm
from taskveil.privacy.plan import Budget
from taskveil.tasks.block import TaskBlock

CONSTANTS = {"C1": 0.03, "C2": 5.0, "class_weight": "balanced"}
NONE = Budget(epsilon=None, delta=1e-5)


def attack_table(quick: bool) -> list[dict[str, Any]]:
    """AUC and true positives at 1 % false ones, members against rows of other recordings of the same person."""
    split = har_split(0, 20)
    block = TaskBlock.from_tasks(split.train)
    rounds = 60 if quick else 250
    epoch = {**CONSTANTS, "rounds": rounds, "coordinator": "safe", "local_passes": 1, "tol": 0.0}
    runs: list[tuple[str, Svm, Budget, list[int]]] = [
        ("un-masked, quasi-Newton rounds", Svm(**CONSTANTS, rounds=60, tol=0.0), NONE, [20, 60]),
        ("un-masked, one epoch a round", Svm(**epoch), NONE, [20, 60, rounds]),
        ("Bernoulli(0.5) mask", Svm(**epoch, mask=("bernoulli", 0.5), mask_seed=1), NONE, [20, 60, rounds]),
        ("Beta(2, 0.5) mask", Svm(**epoch, mask=("beta", 2.0, 0.5), mask_seed=1), NONE, [20, 60, rounds]),
        ("private, epsilon 1", Svm(**CONSTANTS, rounds=20), Budget(1.0, 1e-5, aggregation="local"), [20]),
        ("private, epsilon 10", Svm(**CONSTANTS, rounds=20), Budget(10.0, 1e-5, aggregation="local"), [20]),
    ]
    table = []
    for name, method, budget, lengths in runs:
        watched = [3, 8] if quick else [3, 8, 14]
        found: dict[int, list[tuple[float, float, float]]] = {t: [] for t in sorted(set(lengths))}
        for k in watched:
            members, others = split.train.X[split.train.rows(k)], split.test.X[split.test.rows(k)]
            updates = watched_updates(method, block, k, budget, max(lengths), seed=k)
            for t, figures in found.items():
                auc, tpr = membership(updates[:t], members, others)
                some = range(0, len(members), 12)
                exact = np.mean([row_recovery(updates[:t], members, i) > 0.99 for i in some])
                figures.append((auc, tpr, float(exact)))
        for t, figures in found.items():
            auc, tpr, exact = np.mean(figures, axis=0)
            table.append(
                {"updates": name, "rounds": t, "auc": float(auc), "auc of each": [f[0] for f in figures], "tpr at 1 % fpr": float(tpr),
                 "rows read exactly": float(exact)}
            )  # fmt: skip
    return table
