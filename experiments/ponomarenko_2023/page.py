"""What stands at the head of this paper's page, and the tables made from its results."""

from __future__ import annotations

from typing import Any

import numpy as np

PREFIX = "svm"

HEAD = """
# Federated MTL-SVM (Ponomarenko-Timofeev et al. 2023)

Written by `python -m experiments.paper_page ponomarenko_2023` from `results/`; do not edit. HAR must be in `$TASKVEIL_DATA`.

"As printed" is `variant="paper"`: eq. 13-14 without the box, eq. 27-28 with their sign and divisor, line 15 without w. It
diverges, so its figures cannot be drawn; "sound" is what `svm` runs. Times in the straggler figures are virtual: Gaussian epochs
whose mean and spread follow rows and features, as in section 7.1. The mathematics is in the docstrings of
`taskveil.methods.svm`, the operation counts of eq. 15 and 29 and the time against liblinear in `benchmarks/svm.py`.
"""


def spread(values: list[float]) -> str:
    return f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}"


def accuracy(document: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    table = document["settings"]["table"]
    seconds = table["seconds"]
    rows = [
        [
            name,
            spread(scores),
            ", ".join(f"{s:.4f}" for s in scores),
            f"{np.mean(seconds[name]):.2f} s" if name in seconds else "",
            ", ".join("/".join(f"{v:g}" for v in c.values()) for c in table["chosen"][name]),
        ]
        for name, scores in table["scores"].items()
    ]
    return ["method", "balanced accuracy", "splits", "processor time", "C1/C2 chosen (or rounds)"], rows


def synthetic(document: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    table = document["settings"]["table"]
    return ["data", "svm", "local", "pooled"], [[kind, *(spread(s) for s in scores.values())] for kind, scores in table.items()]


def waiting(document: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    rows = [
        [share, f"{np.mean(t['answered']):.0%}", *(f"{np.mean(t[f]):.3g}" for f in ("seconds", "final", "spread", "fallen"))]
        for share, t in document["settings"]["table"].items()
    ]
    return ["waited for", "answered", "seconds to 99 %", "final", "spread of the last third", "below its best"], rows


def masking(document: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    rows = []
    for data, part in document["settings"]["table"].items():
        rows.append([data, "local models", spread(part["local"]), spread(part["local"])])
        rows += [[data, m, spread(part["paper"][m]), spread(part["consistent"][m])] for m in part["paper"]]
    return ["data", "mask", "dw masked (as printed)", "dual step masked"], rows


def distances(document: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    rows = [
        [r["data"], r["mask"], r["mode"], f"{r['above optimum']:.1e}", f"{r['balanced accuracy']:.4f}", r["rounds"]]
        for r in document["settings"]["table"]
    ]
    return ["data", "mask", "mode", "objective above the optimum", "balanced accuracy", "rounds"], rows


def attacks(document: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    rows = [
        [r["updates"], r["rounds"], f"{r['auc']:.3f}", f"{r['tpr at 1 % fpr']:.3f}", f"{r['rows read exactly']:.0%}"]
        for r in document["settings"]["table"]
    ]
    return ["updates", "rounds seen", "AUC", "true positives at 1 % false", "rows read exactly by who knows the others"], rows


TABLES = {
    "fig5": accuracy,
    "har30": accuracy,
    "light": accuracy,
    "synthetic": synthetic,
    "masks": distances,
    "attack": attacks,
    "fig11": masking,
    "fig12": masking,
    **{f"fig{n}": waiting for n in range(6, 11)},
}
