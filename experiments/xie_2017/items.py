"""The figures of asynchronous private MTL, one function each; run by `taskveil reproduce async-NAME [--quick]`.

Fig. 2 and 7 show the objective, Fig. 3-6 the test error of the first five tasks of the same runs, a panel per epsilon, as the paper
does. "As printed" is Algorithm 1 with section 4.1's constants: its epsilon is that of one message. "Sound" spends the same stated
epsilon on all messages of a node together. Bands and intervals are over draws of the data and of the noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.common import Check, Result, below, computed, not_above, positive
from experiments.xie_2017 import runs
from experiments.xie_2017.data import SETTINGS, SHOWN_TASKS
from experiments.xie_2017.runs import DELTA, FORMS, composed, printed, size_of, sound, tuned

PAPER = "Asynchronous MTL"
UNCLEAR = "epsilons shown are ours: the paper's figures are pictures; epsilon_1 as in section 4.1"
RATE = 0.1  # share of the rows in a message, section 3.4


def epsilons(name: str, quick: bool) -> tuple[float | None, ...]:
    """None (no noise), then from large to small."""
    return (None, *SETTINGS[name].epsilons)


def label(epsilon: float | None) -> str:
    return "no noise" if epsilon is None else f"epsilon {epsilon:g}"


def wobble(curves: np.ndarray) -> np.ndarray:
    """Fluctuation: mean absolute change between neighbouring points of the last half of a curve."""
    half = curves[..., curves.shape[-1] // 2 :]
    return np.abs(np.diff(half, axis=-1)).mean(axis=-1)


def mean(values: np.ndarray) -> str:
    """Mean, and standard deviation over draws of the data."""
    over_data = np.asarray(values).reshape(len(values), -1).mean(axis=1)
    return f"{over_data.mean():.3g} ± {over_data.std(ddof=1):.2g}"


def line(messages: list[int], curves: np.ndarray, panel: str, name: str) -> dict[str, Any]:
    """A line with its band over all draws."""
    flat = curves.reshape(-1, curves.shape[-1])
    std = flat.std(axis=0, ddof=1) if len(flat) > 1 else np.zeros(flat.shape[1])
    return {"x": list(messages), "y": flat.mean(axis=0).tolist(), "std": std.tolist(), "panel": panel, "label": name}


def cost(name: str, quick: bool) -> str:
    """What the epsilon of one message comes to, if every sensitivity held."""
    sent, parts = size_of(quick).messages, []
    for e in SETTINGS[name].epsilons:
        stated = SETTINGS[name].stated(e)
        here, there = (composed(stated, n) for n in (sent, runs.LONG))
        parts.append(f"{stated:g} a message is {here:.3g} over {sent}, {there:.4g} over 10,000")
    return f"composed, delta {DELTA:g}: " + "; ".join(parts)


# ------------------------------------------------------------------- objective


def objective_checks(name: str, quick: bool) -> list[Check]:
    chosen, found = epsilons(name, quick), printed(name, quick)
    most, least = chosen[1], chosen[-1]
    ends = {e: found[e]["objective"][..., -1] for e in chosen}
    starts = {e: found[e]["objective"][..., 0] for e in chosen}
    late = {e: found[e]["objective"][..., -8:] for e in chosen}
    rank = found[None]["rank"][..., 1:]
    return [
        positive(f"{name}: without noise the objective falls", starts[None] - ends[None]),
        positive(f"{name}: it falls at epsilon {most:g} too", starts[most] - ends[most]),
        not_above(f"{name}: it settles at epsilon {most:g} (the last points rise by at most 5 %)", late[most][..., 4:].mean(axis=-1),
                  late[most][..., :4].mean(axis=-1), 0.05),
        below(f"{name}: a smaller epsilon ends higher", ends[most], ends[least]),
        below(f"{name}: a smaller epsilon fluctuates more", wobble(found[most]["objective"]), wobble(found[least]["objective"])),
        not_above(f"{name}: without noise P has rank 3 in most messages", np.abs(np.median(rank, axis=-1) - 3.0), 0 * rank[..., 0],
                  quantity="|median rank - 3|", printed="rank 3 in most time"),
    ]  # fmt: skip


def objective_result(item: str, panels: dict[str, str], quick: bool, claim: str, value: str) -> Result:
    """`panels`: the paper's panel -> problem; under each stands the sound method on the same problem."""
    series, said = {}, {"as printed": [], "sound": []}
    for panel, name in panels.items():
        both = {"as printed": printed(name, quick), "sound": {e: sound(name, e, quick) for e in epsilons(name, quick)}}
        for side, found in both.items():
            for e in epsilons(name, quick):
                messages = found["messages"] if side == "as printed" else found[e]["messages"]
                series[f"{panel} {side}, {label(e)}"] = line(
                    messages, found[e]["objective"], f"{panel}: {name}, {side}", label(e)
                )
            ends = ", ".join(f"{label(e)}: {mean(found[e]['objective'][..., -1])}" for e in epsilons(name, quick))
            said[side].append(f"{name}, from {mean(found[None]['objective'][..., 0])}: {ends}")
    names = list(panels.values())
    return Result(
        item, PAPER, claim, value,
        f"final objective by epsilon_2 of one message, {size_of(quick).messages} messages of each node. {'. '.join(said['as printed'])}. "
        f"{cost(names[0], quick)}",
        "the same epsilon_1 + epsilon_2 for all messages together. " + ". ".join(said["sound"]),
        checks=[c for n in names for c in objective_checks(n, quick)],
        series=series,
        axes={"x": "messages of a node", "y": "objective", "log": "y"},
        settings={"cost": {n: cost(n, quick) for n in names}, "note": UNCLEAR, "draws": vars(size_of(quick)),
                  "median rank of P": {n: {label(e): float(np.median(printed(n, quick)[e]["rank"][..., 1:])) for e in epsilons(n, quick)}
                                       for n in names}},
    )  # fmt: skip


def fig2(quick: bool, seed: int) -> Result:
    """Objective on three of the four problems, a panel each."""
    panels = {"2a": "synthetic, classification", "2b": "ADNI-like, classification", "2c": "synthetic, regression"}
    return objective_result(
        "fig2", panels, quick, "the objective converges with and without privacy; a smaller epsilon ends higher and fluctuates more",
        "converges for epsilon above 0.3",
    )  # fmt: skip


def fig7(quick: bool, seed: int) -> Result:
    """Objective, regression on the ADNI-like set."""
    claim = "the objective of ADNI regression converges under privacy"
    return objective_result("fig7", {"7": "ADNI-like, regression"}, quick, claim, "converges")


# ------------------------------------------------------------------- test error


def error_result(item: str, name: str, quick: bool, claim: str, value: str) -> Result:
    chosen, found = epsilons(name, quick), printed(name, quick)
    measure = "MSE" if SETTINGS[name].kind == "regression" else "error rate"
    series = {
        f"{label(e)}, task {t + 1}": line(
            found["messages"], found[e]["first tasks"][..., t], f"as printed, {label(e)}", f"task {t + 1}"
        )
        for e in chosen
        for t in range(SHOWN_TASKS)
    }
    table = {
        label(e): {
            "as printed": {f: found[e][f].tolist() for f in FORMS},
            "as printed, tuned": {} if e is None else {f: tuned(name, e, quick)[f].tolist() for f in FORMS},
            "sound": {f: sound(name, e, quick)[f].tolist() for f in FORMS},
        }
        for e in chosen
    }
    words = lambda side: "; ".join(  # noqa: E731
        f"{form}: " + ", ".join(f"{e} {mean(np.array(t[side][form]))}" for e, t in table.items() if t[side]) for form in FORMS
    )
    return Result(
        item, PAPER, claim, value,
        f"test {measure}, mean of 20 tasks, by epsilon_2 of one message. {words('as printed')}. Steps, penalty and messages tuned: "
        f"{words('as printed, tuned')}. {cost(name, quick)}",
        f"the same stated epsilon for all messages. {words('sound')}",
        checks=error_checks(name, quick), series=series,
        axes={"x": "messages of a node", "y": f"test {measure}", **({"log": "y"} if measure == "MSE" else {})},
        settings={"table": table, "measure": measure, "cost": cost(name, quick), "note": UNCLEAR, "draws": vars(size_of(quick)),
                  "tuned": {label(e): tuned(name, e, quick)["setting"] for e in chosen if e is not None}},
    )  # fmt: skip


def error_checks(name: str, quick: bool) -> list[Check]:
    chosen, found = epsilons(name, quick), printed(name, quick)
    most, least = chosen[1], chosen[-1]
    tasks = {e: wobble(np.moveaxis(found[e]["first tasks"], -1, -2)).mean(axis=-1) for e in (most, least)}
    ends = {e: found[e]["error"][..., -1] for e in chosen}
    checks = [
        below(
            f"the error of the first five tasks fluctuates less at epsilon {most:g} than at {least:g}", tasks[most], tasks[least]
        ),
        below("privacy costs accuracy", ends[None][:, 0], ends[least].mean(axis=1)),
    ]
    for e in chosen[1:]:
        ours, best = sound(name, e, quick), tuned(name, e, quick)
        for form in FORMS:
            for side, theirs in (("printed", found[e]), ("printed and tuned", best)):
                said = f"sound, {form}, is as good as {side}, {form}, at epsilon {e:g}"
                checks.append(not_above(said, ours[form].mean(axis=1), theirs[form].mean(axis=1), 0.02, about="ours"))
    return checks


def fig3(quick: bool, seed: int) -> Result:
    claim = "error rates settle; fluctuation falls as epsilon grows"
    return error_result("fig3", "synthetic, classification", quick, claim, "less fluctuation at larger epsilon")


def fig4(quick: bool, seed: int) -> Result:
    name = "ADNI-like, classification"
    claim = "converges even with few rows; worse than Fig. 3"
    result = error_result("fig4", name, quick, claim, "worse than Fig. 3, still converges")
    few, many = (printed(f"{n}, classification", quick)[1.0]["error"][..., -1].mean(axis=1) for n in ("ADNI-like", "synthetic"))
    result.checks.append(below("the larger samples of Fig. 3 give lower error at equal epsilon", many, few))
    return result


def fig5(quick: bool, seed: int) -> Result:
    name = "synthetic, regression"
    result = error_result("fig5", name, quick, "a smaller epsilon does not raise the MSE dramatically", "MSE hardly grows")
    most, least = epsilons(name, quick)[1], epsilons(name, quick)[-1]
    high, low = (printed(name, quick)[e]["error"][..., -1].mean(axis=1) for e in (least, most))
    result.checks.append(not_above(f"the MSE at epsilon {least:g} is at most twice that at {most:g}", high, 2 * low))
    return result


def fig6(quick: bool, seed: int) -> Result:
    return error_result("fig6", "ADNI-like, regression", quick, "the MSE settles in spite of few rows, many features", "settles")


# ------------------------------------------------------------------- time, composition


def time_to_target(quick: bool, seed: int) -> Result:
    """Time to a target objective, asynchronous against synchronous rounds, without noise."""
    from experiments.xie_2017 import speed

    results = speed.run(quick)
    rows = speed.summary(results)
    heavy = [r for r in rows if r["delays"] == "heavy tails"]
    even = [r for r in rows if r["delays"] != "heavy tails"]
    curves = [r for r in results["runs"] if r["curve"] and r["delays"] == "heavy tails"]
    words = lambda part: ", ".join(f"{r['preset']} {np.median(r['ratios']):.1f}" for r in part)  # noqa: E731
    return Result(
        "time",
        PAPER,
        "asynchronous updates reach a target objective sooner than synchronous rounds (section 3.2)",
        "sooner",
        "",
        f"times sooner, median over {results['seeds']} seeds: heavy tails {words(heavy)}; uniform 0-15 ms {words(even)}",
        checks=time_checks(rows),
        series={r["way"]: {"x": [t for t, _ in r["curve"]], "y": [g for _, g in r["curve"]]} for r in curves},
        axes={"x": "virtual seconds, heavy-tailed delays", "y": "objective gap / first gap", "log": "y"},
        settings={"summary": rows, "target": results["target"], "shape": "20 tasks x 200 rows x 28 features", "noise": "none"},
    )


def time_checks(rows: list[dict[str, Any]]) -> list[Check]:
    """A run is a seed: its presets are averaged first, factors on a log scale."""
    heavy, even = (
        np.mean(np.log10([r["ratios"] for r in rows if (r["delays"] == "heavy tails") is tails]), axis=0)
        for tails in (True, False)
    )
    named = {"quantity": "log10 of the time of synchronous over asynchronous rounds, over the limit"}
    return [
        positive("at least 3 times sooner under heavy-tailed delays", heavy - np.log10(3.0), about="ours", **named),
        positive("sooner under uniform delays", even, place="section 3.2", **named),
    ]


def composition(quick: bool, seed: int) -> Result:
    """What epsilon per message comes to over the messages of a run, without and with section 3.4's sampling."""
    messages = [1, 10, 100, 1000, runs.LONG]
    series: dict[str, Any] = {}
    for epsilon in (0.1, 1.0):
        for said, rate in ((f"{epsilon:g} a message", 1.0), (f"{epsilon:g} a message, {RATE:.0%} of the rows drawn", RATE)):
            series[f"composed: {said}"] = {"x": messages, "y": [composed(epsilon, n, rate) for n in messages]}
    ends = {said.removeprefix("composed: "): line["y"][-1] for said, line in series.items()}
    name = "synthetic, classification"
    sampled, whole = (printed(name, quick, size_of(quick).messages, r, 2)[1.0]["error"][..., -1] for r in (RATE, 1.0))
    return Result(
        "composition",
        PAPER,
        "what a run of 10,000 messages costs a record: Theorem 3.5 is about one message, and section 3.4 says that the cumulative loss "
        "can become meaningless and that drawing rows helps",
        "epsilon of a message; O(q epsilon) with rows drawn at rate q",
        "; ".join(f"epsilon {e} is epsilon {v:.4g} over 10,000 messages" for e, v in ends.items())
        + f" (one record, replace-one, against the server, delta {DELTA:g}, if the sensitivities held). Drawing rows multiplies the "
        f"noise of a message: on {name}, epsilon 1, the error rate is {mean(sampled)} with a tenth of the rows, {mean(whole)} with all",
        "every message is charged; a node stops when its own budget is spent",
        checks=[
            computed("a run costs a record no more than the epsilon of its figures' labels", ends["0.1 a message"], 0.1),
            computed("drawing a tenth of the rows makes a run cheaper", ends[f"1 a message, {RATE:.0%} of the rows drawn"], ends["1 a message"]),
            computed("with a tenth of the rows drawn it costs no more than the label", ends[f"0.1 a message, {RATE:.0%} of the rows drawn"], 0.1),
        ],
        series=series,
        axes={"x": "messages", "y": "epsilon", "log": "xy"},
        settings={"delta": DELTA, "rate": RATE, "error rate": {"drawn": sampled.tolist(), "all": whole.tolist()}},
    )  # fmt: skip
