"""The figures and tables of Hu, Wu, Smith 2023 (PMTL) as items of `taskveil reproduce pmtl-...`; those over rounds are in over_rounds.py.

"As printed" is Algorithm 1 with cohorts of exactly 100 tasks, tuned like ours (grid.py), at the epsilon its accounting gives. "Sound" is what we
ship, tuned the same way: replace-one first, which is the paper's definition (section 3.2). Like is compared with like: published with
published, fine-tuned with fine-tuned, chosen with chosen.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from experiments.common import Check, Result, below, not_above
from experiments.hu_2023.data import STANDS_FOR
from experiments.hu_2023.grid import ADD, PRINTED, REPLACE
from experiments.hu_2023.table import Table, true_epsilons

PAPER = "PMTL"
FOUR = {"vanilla": "vanilla", "mean": "mean-regularised", "symmetrised-kl": "symmetrised KL", "ewc": "EWC"}
SHORT = {PRINTED: "as printed", REPLACE: "sound, replace-one", ADD: "sound, add-remove"}
MARGIN = 0.02  # a method is not below another if it loses at most this share of the other's accuracy
TABLE_1 = {  # Table 1 of the paper: MTL and global, by fine-tuning
    0.1: {"vanilla": (0.645, 0.606), "mean": (0.608, 0.581), "symmetrised-kl": (0.486, 0.348), "ewc": (0.663, 0.556)},
    0.8: {"vanilla": (0.640, 0.648), "mean": (0.605, 0.574), "symmetrised-kl": (0.584, 0.481), "ewc": (0.595, 0.607)},
    2.0: {"vanilla": (0.677, 0.653), "mean": (0.656, 0.633), "symmetrised-kl": (0.662, 0.565), "ewc": (0.681, 0.666)},
    None: {"vanilla": (0.832, 0.812), "mean": (0.826, 0.839), "symmetrised-kl": (0.839, 0.829), "ewc": (0.837, 0.823)},
}
TABLE_3 = {  # local, PMTL, PMTL with the best fine-tuning
    "femnist": (0.618, {0.1: 0.371, 0.8: 0.498, 2.0: 0.621}, {0.1: 0.663, 0.8: 0.640, 2.0: 0.681}),
    "tags": (0.318, {0.1: 0.305, 0.8: 0.323, 2.0: 0.324}, {}),
}


@lru_cache(maxsize=2)
def table_of(quick: bool, seed: int) -> Table:
    """Shared by all items of one process."""
    return Table(quick, seed)


def about(quick: bool, *data: str, **more: Any) -> dict[str, Any]:
    return {
        "unit": "one task, against the other tasks, delta 1/m", "runs": "2 splits" if quick else "6 splits of the rows x 2 noise draws",
        "data": {d: STANDS_FOR[d] for d in data}, "model": "softmax regression on public features",
        "settings": "each side's own, chosen on validation rows (tuned.json)", **more,
    }  # fmt: skip


def worth(data: str, epsilon: float) -> str:
    """What the printed epsilon is worth under the paper's own neighbours."""
    found = true_epsilons(data, epsilon)
    return (
        f"epsilon {epsilon:g} as printed ({found['rounds']} rounds) is, replace-one, {found['known cohorts, replace-one, usual number']:.3g} for "
        f"a task drawn as often as usual and {found['known cohorts, replace-one, every round']:.3g} at worst, against tasks who know the cohorts"
    )


def curve(table: Table, data: str, side: str, method: str, column: str, panel: str, label: str) -> dict[str, Any]:
    """A line over epsilon with its deviation over runs, under a name of its own; empty where nothing was measured."""
    found = {e: table.get(data, side, method, e, column) for e in table.epsilons}
    known = {e: v for e, v in found.items() if v is not None}
    if not known:
        return {}
    points = {"x": list(known), "y": [float(v.mean()) for v in known.values()], "std": [float(v.std()) for v in known.values()]}
    return {f"{panel}: {label}": points | {"panel": panel, "label": label}}


def level(table: Table, values: np.ndarray, panel: str, label: str) -> dict[str, Any]:
    mean, spread = float(values.mean()), float(values.std())
    many = len(table.epsilons)
    return {
        f"{panel}: {label}": {
            "x": list(table.epsilons),
            "y": [mean] * many,
            "std": [spread] * many,
            "panel": panel,
            "label": label,
        }
    }


def compared(
    table: Table, claim: str, data: str, lower: tuple, higher: tuple, about: str = "paper", below_epsilon: float = np.inf
) -> list[Check]:
    """`lower` below `higher`, each (side, method, column), at every such epsilon where both were measured."""
    checks = []
    for e in (e for e in table.epsilons if e < below_epsilon):
        low, high = (table.get(data, side, method, e, column) for side, method, column in (lower, higher))
        if low is not None and high is not None:
            checks.append(below(f"{claim} at epsilon {e:g}", *alike(low, high), about=about))
    return checks


def alike(one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Runs of the same splits: where the draws differ in number, means over draws."""
    same = one.shape == other.shape
    return (one, other) if same else (one.mean(axis=1), other.mean(axis=1))


def at_least(table: Table, claim: str, data: str, ours: tuple, theirs: tuple) -> list[Check]:
    """Ours is at most 2 % of their accuracy below theirs."""
    checks = []
    for e in table.epsilons:
        mine, other = (table.get(data, side, method, e, column) for side, method, column in (ours, theirs))
        if mine is not None and other is not None:
            mine, other = alike(mine, other)
            checks.append(not_above(f"{claim} at epsilon {e:g}", other, mine, margin=MARGIN, about="ours"))
    return checks


def spoken(table: Table, data: str, side: str, method: str, column: str) -> str:
    found = {e: table.get(data, side, method, e, column) for e in table.epsilons}
    return ", ".join(f"{e:g}: {v.mean():.3f}" for e, v in found.items() if v is not None) or "not measured"


# ------------------------------------------------------------------- items


def fig1(quick: bool, seed: int) -> Result:
    """Client-level noise on the concatenation of all personal models."""
    table, panel = table_of(quick, seed), "femnist"
    mine = (ADD, "naive-dp", "published")
    guess = 1 / 62
    naive = [v for e in table.epsilons if (v := table.get("femnist", *mine[:2], e)) is not None]
    return Result(
        "fig1", PAPER, "client-level DP on all personal models fails where the billboard does not",
        "naive DP improves only marginally upon guessing; the private global model and PMTL are far above",
        as_printed=f"PMTL {spoken(table, 'femnist', PRINTED, 'mean', 'published')}; FedAvg {spoken(table, 'femnist', PRINTED, 'fedavg', 'published')}",
        sound=f"naive DP, add-remove: {spoken(table, 'femnist', *mine)}; alone {table.alone('femnist').mean():.3f}",
        checks=[
            *compared(table, "naive DP is below PMTL", "femnist", mine, (PRINTED, "mean", "published")),
            *compared(table, "naive DP is below the private global model", "femnist", mine, (PRINTED, "fedavg", "published")),
            *(below("naive DP stays within 0.05 of guessing", v, np.full(v.shape, guess + 0.05)) for v in naive[-1:]),
        ],
        series={
            **curve(table, "femnist", *mine, panel, "naive DP"),
            **curve(table, "femnist", PRINTED, "fedavg", "published", panel, "private global model"),
            **curve(table, "femnist", PRINTED, "mean", "published", panel, "PMTL"), **level(table, table.alone("femnist"), panel, "alone"),
        },
        axes={"x": "epsilon", "y": "test accuracy on femnist", "log": "x"}, settings=about(quick, "femnist"),
    )  # fmt: skip


def fig3(quick: bool, seed: int) -> Result:
    """Against the private global model of FedAvg."""
    table, data = table_of(quick, seed), ("femnist",) if quick else ("femnist", "tags")
    series: dict[str, Any] = {}
    checks: list[Check] = []
    for d in data:
        checks += compared(
            table, f"{d}: private FedAvg is below PMTL", d, (PRINTED, "fedavg", "published"), (PRINTED, "mean", "published")
        )
        checks += compared(
            table, f"{d}: sound FedAvg is below sound PMTL, published, replace-one", d, (REPLACE, "fedavg", "published"), (REPLACE, "mean", "published"),
            about="ours",
        )  # fmt: skip
        for column in ("published", "chosen"):
            name = f"{d}: sound PMTL (replace-one), {column}, is at least as good as PMTL as printed"
            checks += at_least(table, name, d, (REPLACE, "mean", column), (PRINTED, "mean", column))
            for side in (PRINTED, REPLACE, ADD):
                if d != "femnist" and side == ADD:
                    continue
                panel = f"{d}, {column}"
                series |= curve(table, d, side, "mean", column, panel, f"PMTL, {SHORT[side]}")
                if side != ADD:
                    series |= curve(table, d, side, "fedavg", column, panel, f"FedAvg, {SHORT[side]}")
            series |= level(table, table.alone(d), f"{d}, {column}", "alone")
    return Result(
        "fig3", PAPER, "PMTL beats private FedAvg at every epsilon, most for epsilon < 1", "above at every epsilon (curves; no numbers printed)",
        as_printed="; ".join(f"{d}: PMTL {spoken(table, d, PRINTED, 'mean', 'published')}, FedAvg {spoken(table, d, PRINTED, 'fedavg', 'published')}" for d in data)
        + ("" if quick else f" ({worth('femnist', 0.8)})"),
        sound="; ".join(f"{d}, replace-one: PMTL published {spoken(table, d, REPLACE, 'mean', 'published')}, chosen {spoken(table, d, REPLACE, 'mean', 'chosen')}" for d in data),
        checks=checks, series=series, axes={"x": "epsilon", "y": "test accuracy", "log": "x"},
        settings=about(quick, *data, **({} if quick else {"worth": promises(table)})),
    )  # fmt: skip


def promises(table: Table) -> dict[str, Any]:
    """Stated epsilon -> what it is worth and what both sides reach, on femnist."""
    found = {}
    for e in table.epsilons:
        true = true_epsilons("femnist", e)
        scores = {
            f"{word} {column}": float(values.mean()) for word, side in (("printed", PRINTED), ("sound", REPLACE)) for column in ("published", "chosen")
            if (values := table.get("femnist", side, "mean", e, column)) is not None
        }  # fmt: skip
        found[f"{e:g}"] = {
            "rounds": true["rounds"], "usual": true["known cohorts, replace-one, usual number"], "worst": true["known cohorts, replace-one, every round"],
        } | scores  # fmt: skip
    return found


def fig7(quick: bool, seed: int) -> Result:
    """Against FedProx: as printed where it was tuned, and the library's own runs."""
    table = table_of(quick, seed)
    checks: list[Check] = []
    series: dict[str, Any] = {}
    for rival, word in (("fedavg", "FedAvg"), ("fedprox", "FedProx")):
        lower, higher = (PRINTED, rival, "published"), (PRINTED, "mean", "published")
        checks += compared(table, f"femnist: private {word} is below PMTL", "femnist", lower, higher)
    for column in ("published", "chosen"):
        for rival in ("fedavg", "fedprox"):
            name = f"femnist: sound {rival} is below sound PMTL, {column}, add-remove"
            checks += compared(table, name, "femnist", (ADD, rival, column), (ADD, "mean", column), about="ours")
    for side, panel in ((PRINTED, "as printed"), (ADD, "sound, add-remove")):
        for column in ("published", "chosen"):
            for method, word in (("mean", "PMTL"), ("fedavg", "FedAvg"), ("fedprox", "FedProx")):
                series |= curve(table, "femnist", side, method, column, f"femnist, {panel}, {column}", word)
    prox = spoken(table, "femnist", PRINTED, "fedprox", "published")
    return Result(
        "fig7", PAPER, "PMTL beats private FedAvg and FedProx at every epsilon; the two are alike", "above at every epsilon (curves)",
        as_printed=f"FedProx {prox}; FedAvg {spoken(table, 'femnist', PRINTED, 'fedavg', 'published')}",
        sound="; ".join(f"{m}: published {spoken(table, 'femnist', ADD, m, 'published')}" for m in ("mean", "fedavg", "fedprox")),
        checks=checks, series=series, axes={"x": "epsilon", "y": "test accuracy on femnist", "log": "x"},
        settings=about(quick, "femnist", source="sound: the library's runs with its shipped settings, one draw a split"),
    )  # fmt: skip


def table1(quick: bool, seed: int) -> Result:
    """Fine-tuning after private training, femnist: MTL against global, as printed; ours beside it."""
    table = table_of(quick, seed)
    checks: list[Check] = []
    series: dict[str, Any] = {}
    for e, cells in TABLE_1.items():
        both = {m: {k: table.get("femnist", PRINTED, m, e, k) for k in FOUR} for m in ("mean", "fedavg")}
        if any(v is None for cell in both.values() for v in cell.values()):
            continue
        for kind, (mtl, other) in cells.items():
            if e is not None:
                ends = [("global", both["fedavg"][kind], other), ("MTL", both["mean"][kind], mtl)]
                (lower, low, _), (higher, high, _) = sorted(ends, key=lambda end: end[2])  # as the paper's cell has it
                claim = f"{FOUR[kind]}: fine-tuned {lower} is below fine-tuned {higher} at epsilon {e:g}"
                checks.append(below(claim, low, high, printed=f"global {other:g}, MTL {mtl:g}"))
        if e is None:
            best = max(both["mean"].values(), key=lambda v: v.mean())
            checks.append(
                below(
                    "without noise global with mean-regularisation beats every MTL",
                    best,
                    both["fedavg"]["mean"],
                    printed="0.839 against 0.839 or less",
                )
            )
    for kind, word in FOUR.items():
        for side in (PRINTED, REPLACE):
            for method, who in (("mean", "MTL"), ("fedavg", "global")):
                series |= curve(table, "femnist", side, method, kind, word, f"{who}, {SHORT[side]}")
    return Result(
        "table1", PAPER, "with privacy, fine-tuned PMTL beats a fine-tuned global model", "MTL above in 10 of 12 private cells",
        as_printed="; ".join(f"{word}: MTL {spoken(table, 'femnist', PRINTED, 'mean', k)}, global {spoken(table, 'femnist', PRINTED, 'fedavg', k)}" for k, word in FOUR.items()),
        sound="; ".join(f"{word}: MTL {spoken(table, 'femnist', REPLACE, 'mean', k)}, global {spoken(table, 'femnist', REPLACE, 'fedavg', k)}" for k, word in FOUR.items()),
        checks=checks, series=series, axes={"x": "epsilon", "y": "test accuracy on femnist", "log": "x"}, settings=about(quick, "femnist"),
    )  # fmt: skip


def table3(quick: bool, seed: int) -> Result:
    """Against learning alone; the best fine-tuning is picked on test accuracy, as the paper does."""
    table, data = table_of(quick, seed), ("femnist",) if quick else ("femnist", "tags")
    checks: list[Check] = []
    series: dict[str, Any] = {}
    said = []
    for d in data:
        local, plain, tuned = TABLE_3[d]
        alone = table.alone(d)
        series |= level(table, alone, d, "local")
        for word, columns in (("PMTL", ("published",)), ("PMTL with the best fine-tuning", tuple(FOUR))):
            series |= {
                k: v
                for c in columns
                for k, v in curve(table, d, PRINTED, "mean", c, d, word if len(columns) == 1 else f"PMTL, {FOUR[c]}").items()
            }
        series |= curve(table, d, REPLACE, "mean", "chosen", d, "PMTL, chosen, sound, replace-one")
        for e in (0.1, 0.8, 2.0):
            published = table.get(d, PRINTED, "mean", e)
            fine = [v for k in FOUR if (v := table.get(d, PRINTED, "mean", e, k)) is not None]
            if published is not None:
                low, high = (published, alone) if plain[e] < local else (alone, published)
                claim = (
                    "PMTL without fine-tuning is below local" if plain[e] < local else "local is below PMTL without fine-tuning"
                )
                checks.append(
                    below(f"{d}: {claim} at epsilon {e:g}", *alike(low, high), printed=f"local {local:g}, PMTL {plain[e]:g}")
                )
            if fine and tuned:
                best = max(fine, key=lambda v: v.mean())
                checks.append(
                    below(
                        f"{d}: local is below PMTL with the best fine-tuning at epsilon {e:g}",
                        *alike(alone, best),
                        printed=f"local {local:g}, PMTL {tuned[e]:g}",
                    )
                )
            ours = table.get(d, REPLACE, "mean", e, "chosen")
            if ours is not None:
                checks.append(
                    not_above(
                        f"{d}: the locally chosen model (replace-one) is not below local at epsilon {e:g}",
                        *alike(alone, ours),
                        margin=MARGIN,
                        about="ours",
                    )
                )
        said.append(f"{d}: local {alone.mean():.3f}, PMTL {spoken(table, d, PRINTED, 'mean', 'published')}")
    return Result(
        "table3", PAPER, "PMTL with fine-tuning beats learning alone at every epsilon; without, only at large epsilon",
        "FEMNIST: local .618; PMTL .371, .498, .621 at epsilon 0.1, 0.8, 2; with fine-tuning .663, .640, .681",
        as_printed="; ".join(said), sound="; ".join(f"{d}, replace-one, chosen: {spoken(table, d, REPLACE, 'mean', 'chosen')}" for d in data),
        checks=checks, series=series, axes={"x": "epsilon", "y": "test accuracy", "log": "x"}, settings=about(quick, *data),
    )  # fmt: skip


def fig8(quick: bool, seed: int) -> Result:
    """Against PP-SGD, whose shared and private parts add up; linear model, synthetic tags; both as printed, both with their rounds."""
    table = table_of(quick, seed)
    series = {
        **curve(table, "tags", PRINTED, "mean", "published", "tags", "PMTL"), **curve(table, "tags", PRINTED, "pp-sgd", "published", "tags", "PP-SGD"),
        **level(table, table.alone("tags"), "tags", "alone"),
    }  # fmt: skip
    other, mine = ("tags", PRINTED, "pp-sgd"), ("tags", PRINTED, "mean")
    weak = [table.get(*which, 4.0) for which in (other, mine)]
    lower, higher = (*other[1:], "published"), (*mine[1:], "published")
    checks = compared(table, "PP-SGD is below PMTL", "tags", lower, higher, below_epsilon=1)
    if all(v is not None for v in weak):
        one, two = alike(*weak)
        checks.append(not_above("PP-SGD is not above PMTL by more than 2 % at epsilon 4", one, two, margin=MARGIN))
        checks.append(not_above("PMTL is not above PP-SGD by more than 2 % at epsilon 4", two, one, margin=MARGIN))
    return Result(
        "fig8", PAPER, "PMTL beats PP-SGD for epsilon < 1 and equals it when privacy is weak", "above for epsilon < 1, similar at 4 (curves)",
        as_printed=f"PMTL {spoken(table, *mine, 'published')}; PP-SGD {spoken(table, *other, 'published')}", sound="",
        checks=checks, series=series, axes={"x": "epsilon", "y": "test accuracy on tags", "log": "x"}, settings=about(quick, "tags"),
    )  # fmt: skip
