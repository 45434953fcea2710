"""The verdict and the other sentences of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from taskveil.estimators.metrics import LOWER_IS_BETTER
from taskveil.estimators.recommend import recommended
from taskveil.estimators.summary import gain_verdict, summary_verdict
from taskveil.privacy.contributions import contribution_from_dict
from taskveil.privacy.statement import up
from taskveil.report.audience import Audience
from taskveil.report.records import Run

METRICS = {
    "nmse": "error (share of variance left)",
    "mse": "mean squared error",
    "rmse": "typical error in the target's own units (RMSE)",
    "median-error": "median error in the target's units",
    "r2": "share of variance explained",
    "log-loss": "log loss (mean of -log of the probability given to the true label)",
    "auc": "area under the curve of hits over false alarms (AUC)",
    "accuracy": "share of right labels",
    "balanced-accuracy": "share of right labels, each class alike",
    "error-rate": "share of wrong labels",
    "concordance": "share of comparable pairs in the right order (concordance)",
}
NO_GAIN_SHOWN = (
    " Held-out rows show no gain here. With few rows this says little: the choice was made by how well both models fit all rows."
)
UNITS = {"task": "all data of one task", "record": "one row of one task"}
NEIGHBOURS = {"replace-one": "replaced by any other", "add-remove": "there or not"}
OBSERVERS = {
    "other-tasks": "all other tasks together", "server": "the server and all other tasks", "public": "everybody",
}  # fmt: skip


def bound_of(event: Mapping[str, Any]) -> str:
    """The length to which one unit's messages are clipped; some kinds of sum have but one, and some hold another sum."""
    return f"{contribution_from_dict(event['contribution']).bound:.6g}" if event.get("contribution") else "-"


def verdict(run: Run, audience: Audience) -> list[str]:
    """One to three sentences that a reader takes away."""
    sentences = []
    if audience.kind == "owner":
        sentences += owner_verdict(run, str(audience.task))
    elif run.comparison is not None:
        sentences += comparison_verdict(run.comparison)
    if audience.kind == "all" and run.gain:
        sentences.append(("In the saved run, " if run.comparison is not None else "") + gain_verdict(run.gain))
    if audience.kind == "all" and run.gain_summary:
        sentences.append(summary_verdict(run.gain_summary))
    if empty(run):
        sentences.append("No signal was stronger than the noise, so what was published is zero.")
    if run.certificate is not None:
        sentences.append(privacy_verdict(run))
    return [s[:1].upper() + s[1:] for s in sentences]


def empty(run: Run) -> bool:
    """Whether a server that hides noise (thresholds) published nothing but zeros."""
    values = {k: np.asarray(v) for k, v in run.boards[-1].values.items()} if run.boards else {}
    for raw in ("basis", "second-moment") if values.keys() & {"share", "features"} else ():
        values.pop(raw, None)
    return bool(values) and bool(run.plan and run.plan.releases) and not any(np.any(v) for v in values.values())


def owner_verdict(run: Run, name: str) -> list[str]:
    mine = run.gain.get(name)
    if mine is None:
        return [f"Task {name}: no estimate of the gain is stored with this run."]
    alone, shared = float(mine["error_alone"]), float(mine["error_shared"])
    kept = "keeps the shared model" if mine["kept"] == "shared" else "keeps the model it learned alone"
    metric = run.gain_metric
    if "typical_error_alone" in mine:  # in the units the owner knows
        alone, shared = float(mine["typical_error_alone"]), float(mine["typical_error_shared"])
        metric = "typical error in the target's own units"
    return [
        f"Task {name} {kept}: estimated error {shared:.3g} with what the others share, {alone:.3g} alone "
        f"({metric}; estimated on its own rows)." + (NO_GAIN_SHOWN if mine["kept"] == "shared" and shared > alone else ""),
        *clipping_words(mine),
    ]


CLIPPING_NOT_MEASURED = (
    "How much clipping cut from messages was not measured in this run. It is measured only if all tasks are in one process, and "
    "not if rows are clipped one by one."
)


def clipping_words(mine: Any) -> list[str]:
    """For an owner: what clipping made of its messages, on average."""
    if "clipped" not in mine:
        return [CLIPPING_NOT_MEASURED]
    share = float(mine["clipped"])
    if share < 0.0005:
        return ["Clipping cut nothing from its messages, so the task counts in full."]
    return [f"Clipping cut {100 * share:.2g} % of the length of its messages on average, so the task counts less by this share."]


def comparison_verdict(result: Any) -> list[str]:
    """What is recommended, and private rows against learning alone."""
    rows, metric = result["results"], result["metric"]
    alone = next((r for r in rows if r["method"] == "local"), None)
    private = [r for r in rows if r["epsilon"] is not None and all(s["holds"] for s in r["statements"])]
    if alone is None or not private:
        return [f"{len(rows)} settings compared by {metric}."]
    sign = 1 if metric in LOWER_IS_BETTER else -1
    best = min(private, key=lambda r: sign * r["mean"])
    middle = min(private, key=lambda r: (abs(math.log(r["epsilon"])), sign * r["mean"]))
    sentences = [*([result["recommendation"]] if "recommendation" in result else []), _against(middle, alone, metric)]
    if best is not middle and len({r["method"] for r in private}) > 1:
        sentences.append("Best here: " + _against(best, alone, metric))
    return sentences


def comparison_gains(result: Any) -> bool:
    """Whether a private setting is recommended; where nothing stands for learning alone, nobody can say."""
    rows = result["results"]
    return not any(r["method"] == "local" for r in rows) or recommended(rows, result["metric"]) is not None


def _against(row: Any, alone: Any, metric: str) -> str:
    lower = row["mean"] < alone["mean"]
    share = abs(row["mean"] / alone["mean"] - 1) if alone["mean"] else 0.0
    unit = next((s["unit"] for s in row["statements"]), "task")
    much = f"{share:.0%}".replace("%", " %") + (" lower than" if lower else " higher than") if share >= 0.005 else "the same as"
    return (
        f"With epsilon {row['epsilon']:g} for one {unit}, {row['method']} reaches {row['mean']:.3g} on held-out rows, "
        f"{much} each task alone ({alone['mean']:.3g}). The figure is the "
        f"{METRICS.get(metric, metric)}: {'lower' if metric in LOWER_IS_BETTER else 'higher'} is better."
    )


def number_in_words(value: float) -> str:
    """Three figures, and no power of ten below a million."""
    return f"{float(f'{value:.3g}'):,.0f}" if 999.5 <= value < 1e6 else f"{value:.3g}"


def plain_words(run: Run) -> str:
    """What epsilon means for a reader without mathematics; empty where no claim holds."""
    statements = [s for s in run.certificate.statements if s.holds and 0 < s.epsilon < math.inf] if run.certificate else []
    if not statements:
        return ""
    worst = max(statements, key=lambda s: s.epsilon)
    odds = math.exp(min(worst.epsilon, 700.0))
    except_ = f", except with a probability of about {worst.delta:.0e}" if worst.delta else ""
    return (
        f"In plain words: an observer may guess something about {UNITS[worst.unit]}. All that this run shows them multiplies the "
        f"odds of the guess by at most {number_in_words(odds)}{except_}. With epsilon 0 it would be 1: they learn nothing."
    )


def privacy_verdict(run: Run) -> str:
    """What others learn at most, as a whole sentence."""
    certificate = run.certificate
    assert certificate is not None
    if not certificate.statements:
        return "Nothing is protected: this run was made without privacy."
    false = [s for s in certificate.statements if not s.holds]
    if false:
        return f"The privacy claim does not hold: {false[0].reason}."
    widest = certificate.statements[-1]
    who = "Everybody" if widest.observer == "public" else widest.against()
    who = who[0].upper() + who[1:]
    if widest.epsilon == 0:
        return f"{who} learn nothing about any one {widest.unit}: nothing is shared."
    what = {"task": "all data of any one task", "record": "any one row"}[widest.unit]
    learn = "learns" if widest.observer == "public" else "learn"
    return f"{who} {learn} at most epsilon {up(widest.epsilon, 3)} (delta {up(widest.delta, 3)}) about {what}."
