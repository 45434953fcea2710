"""The asynchronous experiments as items of `taskveil reproduce`; run.py also runs by itself with fuller output."""

from __future__ import annotations

from typing import Any

from experiments.common import Result, below, positive
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.events import Charge, PureEvent

PAPER = "Asynchronous MTL"


def async_time(quick: bool, seed: int) -> Result:
    """Time to a target objective, asynchronous against synchronous rounds (Xie et al. 2017, Fig. 2-3)."""
    from experiments.xie_2017 import run

    results = run.run(quick)
    rows = run.summary(results)
    heavy = [r["speedup"]["asynchronous"] for r in rows if r["delays"] == "heavy tails"]
    series = {
        way: {"x": [f"{r['preset']}, {r['delays']}" for r in rows], "y": [r["seconds"][way] for r in rows]} for way in run.WAYS
    }
    return Result(
        "time", PAPER, "asynchronous updates reach a target objective sooner than synchronous rounds", "sooner",
        sound=f"speed-up under heavy tails {min(heavy):.1f} or more",
        checks=[positive("at least 3 times sooner under heavy-tailed delays", [h - 3.0 for h in heavy], about="ours")],
        series=series, axes={"x": "", "y": "virtual seconds"}, settings={"seeds": results["seeds"], "noise": "none"},
    )  # fmt: skip


def async_composition(quick: bool, seed: int) -> Result:
    """What epsilon per message comes to over the messages of a run: the papers' experiments send 10,000."""
    messages, delta = [1, 10, 100, 1000, 10_000], 1e-6
    series: dict[str, Any] = {}
    for epsilon in (0.1, 1.0):
        totals = [best_epsilon([Charge(PureEvent(epsilon), n)], delta)[0] for n in messages]
        series[f"printed: {epsilon:g} a message"] = {"x": messages, "y": [epsilon] * len(messages)}
        series[f"composed: {epsilon:g} a message"] = {"x": messages, "y": totals}
    last = series["composed: 0.1 a message"]["y"][-1]
    return Result(
        "composition", PAPER, "epsilon_1 + epsilon_2 protects a record", "epsilon per message, not composed",
        as_printed=f"epsilon 0.1 a message is epsilon {last:.4g} over 10,000 messages (one record, replace-one, against the server, delta {delta:g})",
        sound="every message is charged; a node stops when its own budget is spent",
        checks=[below("the printed epsilon is what a record loses over a run", [last], [0.1])],
        series=series, axes={"x": "messages", "y": "epsilon", "log": "xy"}, settings={"delta": delta},
    )  # fmt: skip
