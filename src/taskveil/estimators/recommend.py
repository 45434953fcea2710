"""What a comparison tells its reader to do, in one sentence, and what making it cost, in another."""

from __future__ import annotations

import math
from typing import Any

from taskveil.estimators.metrics import LOWER_IS_BETTER

FREE = ("constant", "local")  # nothing leaves a task


def recommended(rows: list[dict[str, Any]], metric: str) -> dict[str, Any] | None:
    """The smallest epsilon whose true guarantee comes with a gain beyond the spread; None where nothing private gains."""
    sign = 1.0 if metric in LOWER_IS_BETTER else -1.0
    alone = _alone(rows, sign)
    better = [r for r in _sound(rows) if sign * (r["mean"] - alone["mean"]) + _doubt(r, alone) < 0]
    return min(better, key=lambda r: (r["epsilon"], sign * r["mean"]), default=None)


def _alone(rows: list[dict[str, Any]], sign: float) -> dict[str, Any]:
    return min((r for r in rows if r["method"] in FREE), key=lambda r: sign * r["mean"])


def _sound(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [r for r in rows if r["epsilon"] is not None and r["statements"] and all(s["holds"] for s in r["statements"])]


def recommendation(rows: list[dict[str, Any]], metric: str) -> str:
    """What to take, in one sentence: a private setting that gains, else what shares nothing."""
    alone, best, sound = _alone(rows, 1.0 if metric in LOWER_IS_BETTER else -1.0), recommended(rows, metric), _sound(rows)
    against = f"{alone['mean']:.4g} by {'the constant' if alone['method'] == 'constant' else 'learning alone'}"
    if best is not None:
        choice = f"{best['method']} at epsilon {best['epsilon']:g} ({metric} {best['mean']:.4g}, against {against})"
        return f"Recommendation: {choice}."
    if alone["method"] == "constant":
        return f"Recommendation: none of these models yet; no private one beats the constant of each task ({metric} {against})."
    why = "no private setting beats it by more than the spread" if sound else "no other setting here has a guarantee that holds"
    return f"Recommendation: local, which shares nothing ({metric} {alone['mean']:.4g}); {why}."


def _doubt(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Standard error of the mean difference over the same splits."""
    differences = [a - b for a, b in zip(one.get("scores", ()), other.get("scores", ()))]
    n = len(differences)
    if n < 2:
        return 0.0
    centre = sum(differences) / n
    return math.sqrt(sum((d - centre) ** 2 for d in differences) / (n - 1) / n)


def cost(rows: list[dict[str, Any]]) -> str:
    """What the comparison itself used up: nothing is charged, because nothing of it is covered."""
    private = [r for r in rows if r["epsilon"] is not None]
    fits = sum(r["repeats"] for r in rows if r["method"] != "constant")
    sentence = (
        f"Cost of this comparison: {fits} fit{'s' * (fits != 1)}, no budget charged; its figures carry no noise and are for "
        "someone entitled to all rows."
    )
    if private:
        total = sum(r["repeats"] * r["epsilon"] for r in private)
        models = sum(r["repeats"] for r in private)
        many = (f"{models} private models", "together") if models > 1 else ("private model", "")
        sentence += f" Releasing the {many[0]} would cost epsilon {total:.4g} {many[1]}".rstrip() + "."
    return sentence + " To choose privately, at a charged cost, use TaskSearch."
