"""The figures and tables of Hu, Wu, Smith 2023 (PMTL) as items of `taskveil reproduce pmtl-...`.

"As printed" is Algorithm 1 with cohorts of exactly 100 tasks and the epsilon its accounting gives; its true epsilon, for
colluding tasks that know who was drawn, stands beside it. "Sound" is what we ship, at the same stated epsilon. Full items take
sound runs of the writers from results.json (made by `python -m experiments.hu_2023.run`) and compute the rest; quick
items compute everything, on 130 tasks. Differences are tested over tasks, in pairs.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.common import Check, Result, below, not_above, positive
from experiments.hu_2023 import runs, settings
from experiments.hu_2023.data import World

PAPER = "PMTL"
QUICK_EPSILONS = (0.1, 0.8, 4.0)
PRIVATE = tuple(e for e in settings.EPSILONS if e is not None)
UNIT = "one task, add-remove, against the other tasks, delta 1/m"


# ------------------------------------------------------------------ scores


class Scores:
    """Correct test rows per task: (data, how, method, epsilon, column), one array per seed; computed once per process."""

    def __init__(self, quick: bool, seed: int):
        self.quick, self.seed = quick, seed
        self.made: dict[tuple, np.ndarray] = {}

    def world(self, data: str) -> World:
        return runs.cached_world(data, self.seed, self.quick)

    def printed(self, data: str, method: str, epsilon: float | None, column: str = "none") -> np.ndarray:
        return self._get(("printed", data, method, epsilon, column))

    def sound(self, data: str, method: str, epsilon: float | None, column: str = "chosen") -> np.ndarray:
        """Accuracy by task, from the committed table where it has it."""
        stored = None if self.quick or data == "tags" else committed(data, method, epsilon, column)
        return self._get(("sound", data, method, epsilon, column)) if stored is None else stored

    def alone(self, data: str) -> np.ndarray:
        stored = None if self.quick or data == "tags" else committed(data, "local", None, "none")
        return self._get(("sound", data, "local", None, "none")) if stored is None else stored

    def _get(self, key: tuple) -> np.ndarray:
        if key not in self.made:
            self._make(*key)
        return self.made[key]

    def _make(self, how: str, data: str, name: str, epsilon: float | None, column: str) -> None:
        place = self.world(data)
        if name == "local":
            self.made[how, data, name, epsilon, column] = place.by_task(runs.alone(place, self.seed))
            return
        if how == "printed":
            method, record = runs.printed(place, name, epsilon, self.seed, self.quick)
        else:
            method, record = runs.sound(place, name, epsilon, self.seed)
        columns = {"none": runs.correct(method, place, record)}
        kinds = (settings.CHOICE,) if column == "chosen" else settings.KINDS
        if column != "none":
            columns |= runs.tuned(method, place, record, kinds, stretches(how, kinds, self.quick))
        for found, values in columns.items():
            self.made[how, data, name, epsilon, found] = place.by_task(values)


def stretches(how: str, kinds: tuple[str, ...], quick: bool) -> tuple[float, ...]:
    """Algorithm 1 as printed has none; four for four objectives is most of what a quick item can afford."""
    if how == "printed":
        return (1.0,)
    return settings.QUICK_STRETCHES if quick and len(kinds) > 1 else settings.STRETCHES


@lru_cache(maxsize=2)
def scores_of(quick: bool, seed: int) -> Scores:
    """Shared by all items of one process: figures that show the same runs do not repeat them."""
    return Scores(quick, seed)


@lru_cache(maxsize=1)
def results() -> list[dict[str, Any]]:
    from experiments.hu_2023.run import HERE

    return json.loads((HERE / "results.json").read_text())


def committed(data: str, method: str, epsilon: float | None, column: str) -> np.ndarray | None:
    """Accuracy by writer over the seeds of results.json; None where writers were not kept for this column."""
    local = {r["seed"]: np.asarray(r["tested"]) for r in results() if r["data"] == data and r["method"] == "local"}
    rows = [r for r in results() if r["data"] == data and r["method"] == method and r["epsilon"] == epsilon]
    rows = [r for r in rows if column in r.get("correct", {})]
    if not rows:
        return None
    right = sum(np.asarray(r["correct"][column]) for r in rows)
    tested = sum(local[r["seed"]] for r in rows)
    return right[tested > 0] / tested[tested > 0]


def shown(epsilon: float | None) -> Any:
    return "none" if epsilon is None else epsilon


def line(found: dict[Any, np.ndarray]) -> dict[str, Any]:
    """A curve with the standard error over tasks."""
    return {
        "x": [str(shown(e)) for e in found], "y": [float(v.mean()) for v in found.values()],
        "std": [float(v.std(ddof=1) / np.sqrt(v.size)) for v in found.values()],
    }  # fmt: skip


def span(values: dict[Any, np.ndarray]) -> str:
    low, *_, high = values
    return f"{values[low].mean():.3f} at epsilon {shown(low)} to {values[high].mean():.3f} at {shown(high)}"


def printed_and_true(place: World, epsilon: float, quick: bool) -> str:
    """What the printed epsilon is worth."""
    method = settings.paper_method("fedavg", runs.ROUNDS[quick])
    plan = runs._printed_plan(method.built(place.public).n_parameters, place.public, epsilon, runs.ROUNDS[quick])
    return f"epsilon {epsilon:g} as printed is {runs.true_epsilon(plan):.3g}"


def about(quick: bool, seed: int, **more: Any) -> dict[str, Any]:
    return {
        "guarantee": UNIT, "model": "softmax on public features", "cohort": runs.PAPER_COHORT, "seeds": [seed],
        "printed_rounds": runs.ROUNDS[quick], "sound_source": "computed here" if quick else "results.json for writers", **more,
    }  # fmt: skip


# ------------------------------------------------------------------- items


def fig1(quick: bool, seed: int) -> Result:
    """Client-level noise on the concatenation of all personal models."""
    scores, epsilons = scores_of(quick, seed), QUICK_EPSILONS if quick else PRIVATE
    naive = {e: scores.sound("femnist", "naive-dp", e, "none") for e in epsilons}
    printed = {e: scores.printed("femnist", "mean", e) for e in (epsilons if quick else QUICK_EPSILONS)}
    ours = {e: scores.sound("femnist", "mean", e) for e in epsilons}
    alone = scores.alone("femnist")
    last = max(epsilons)
    return Result(
        "fig1", PAPER, "client-level DP on all personal models fails where the billboard does not",
        "naive DP near guessing at every epsilon, personal models far above",
        as_printed=f"naive {span(naive)}; PMTL {span(printed)} ({printed_and_true(scores.world('femnist'), 0.8, quick)})",
        sound=f"mean, chosen: {span(ours)}; alone {alone.mean():.3f}",
        checks=[
            *(below(f"naive DP is below PMTL as printed at epsilon {e:g}", naive[e], printed[e]) for e in printed
              if len(naive[e]) == len(printed[e])),
            below(f"naive DP is below learning alone even at epsilon {last:g}", naive[last], alone),
            *(below(f"naive DP is below ours at epsilon {e:g}", naive[e], ours[e], about="ours") for e in epsilons),
        ],
        series={
            "naive DP": line(naive), "PMTL as printed": line(printed), "mean, chosen (sound)": line(ours),
            "alone": line(dict.fromkeys(epsilons, alone)),
        },
        axes={"x": "epsilon", "y": "accuracy on femnist"}, settings=about(quick, seed),
    )  # fmt: skip


def fig2(quick: bool, seed: int) -> Result:
    """Training loss and epsilon over rounds at a fixed clip and noise."""
    sigma, gamma, rounds = 0.05, 0.5, 30 if quick else 100
    series: dict[str, Any] = {}
    checks: list[Check] = []
    final = []
    for data in ("femnist", "tags") if quick else ("femnist", "mnist_writers", "tags"):
        place = runs.cached_world(data, seed, quick)
        at = sorted({1, 2, 5, 10, 20, 30, 60, rounds} & set(range(1, rounds + 1)))
        for variant in ("paper", "sound"):
            losses, plan = losses_over_rounds(place, sigma, gamma, rounds, variant, at, seed)
            label = "as printed" if variant == "paper" else "sound"
            series[f"loss, {data}, {label}"] = {"x": at, "y": [float(v.mean()) for v in losses]}
            if variant == "sound":
                continue
            stated = [plan.spent_after(t) for t in at]
            true = [runs.true_epsilon(_first(plan, t)) for t in at]
            series[f"epsilon printed, {data}"] = {"x": at, "y": stated}
            series[f"epsilon true, {data}"] = {"x": at, "y": true}
            third = losses[max(i for i, t in enumerate(at) if t <= max(1, rounds // 3))]
            checks += [
                below(f"{data}: the loss falls over the rounds", losses[-1], losses[0]),
                positive(f"{data}: most of the fall comes in the first third", (losses[0] - third) - (third - losses[-1])),
                below(f"{data}: the printed epsilon covers colluding tasks", [true[-1]], [stated[-1]]),
            ]
            final.append(f"{data}: loss {losses[0].mean():.2f} to {losses[-1].mean():.2f}, epsilon {stated[-1]:.3g} printed, {true[-1]:.3g} true")
    return Result(
        "fig2", PAPER, "the loss falls fast while epsilon grows slowly", "fast fall, then flat; epsilon grows with rounds",
        as_printed="; ".join(final), sound="Poisson cohorts at the same noise: the printed epsilon is then true",
        checks=checks, series=series, axes={"x": "rounds", "y": "loss, or epsilon", "log": "y"},
        settings=about(quick, seed, sigma=sigma, gamma=gamma, rounds=rounds),
    )  # fmt: skip


def fig3(quick: bool, seed: int) -> Result:
    """Against the private global model of FedAvg."""
    return _against_global(quick, seed, "fig3", ("fedavg",))


def fig7(quick: bool, seed: int) -> Result:
    """Against FedAvg and FedProx."""
    return _against_global(quick, seed, "fig7", ("fedavg", "fedprox"))


def _against_global(quick: bool, seed: int, name: str, rivals: tuple[str, ...]) -> Result:
    scores, epsilons = scores_of(quick, seed), (0.1, 4.0) if quick else PRIVATE
    series: dict[str, Any] = {}
    checks: list[Check] = []
    said: dict[str, list[str]] = {"printed": [], "sound": []}
    for data in ("femnist", "tags") if quick else ("femnist", "mnist_writers", "tags"):
        few = epsilons if quick else QUICK_EPSILONS  # the printed algorithm and the synthetic task, at three epsilons
        grid = epsilons if data != "tags" else few
        printed = {m: {e: scores.printed(data, m, e) for e in few} for m in ("mean", *rivals)}
        sound = {m: {e: scores.sound(data, m, e, "chosen" if m == "mean" else "none") for e in grid} for m in ("mean", *rivals)}
        for rival in rivals:
            checks += [
                below(f"{data}: {rival} is below PMTL as printed at epsilon {e:g}", printed[rival][e], printed["mean"][e]) for e in few
            ]
            checks += [
                below(f"{data}: {rival} is below ours at epsilon {e:g}", sound[rival][e], sound["mean"][e], about="ours") for e in grid
            ]
        checks += [_at_least(f"{data}: ours is not below as printed at epsilon {e:g}", sound["mean"][e], printed["mean"][e]) for e in few]
        for m in ("mean", *rivals):
            series[f"{data}: {m}, as printed"] = line(printed[m])
            series[f"{data}: {m}, sound"] = line(sound[m])
        said["printed"].append(f"{data}: PMTL {span(printed['mean'])}, {rivals[-1]} {span(printed[rivals[-1]])}")
        said["sound"].append(f"{data}: mean, chosen {span(sound['mean'])}; {rivals[-1]}, shared model {span(sound[rivals[-1]])}")
    truth = printed_and_true(scores.world("femnist"), 0.8, quick)
    return Result(
        name, PAPER, f"PMTL beats private {' and '.join(rivals)} at every epsilon", "above at every epsilon, most for epsilon < 1",
        as_printed="; ".join(said["printed"]) + f" ({truth})", sound="; ".join(said["sound"]), checks=checks, series=series,
        axes={"x": "epsilon", "y": "accuracy"}, settings=about(quick, seed, tags="synthetic"),
    )  # fmt: skip


def _at_least(claim: str, ours: np.ndarray, theirs: np.ndarray) -> Check:
    return not_above(claim, np.mean(theirs), np.mean(ours), about="ours")


def table1(quick: bool, seed: int) -> Result:
    """Fine-tuning after private training, femnist."""
    scores = scores_of(quick, seed)
    epsilons: tuple[float | None, ...] = (0.1, 2.0) if quick else (0.1, 0.8, 2.0, None)
    series: dict[str, Any] = {}
    checks: list[Check] = []
    cells = {"printed": [], "sound": []}
    for how in ("printed", "sound"):
        for e in epsilons:
            both = {}
            for m in ("mean", "fedavg"):
                found = {k: getattr(scores, how)("femnist", m, e, k) for k in settings.KINDS}
                both[m] = found
                series[f"{'MTL' if m == 'mean' else 'global'}, epsilon {shown(e)}, {how}"] = {
                    "x": list(found), "y": [float(v.mean()) for v in found.values()],
                }  # fmt: skip
            mtl, other = (np.mean(list(both[m].values()), axis=0) for m in ("mean", "fedavg"))
            cells[how].append(f"epsilon {shown(e)}: MTL {mtl.mean():.3f}, global {other.mean():.3f}")
            word, side = ("as printed", "paper") if how == "printed" else ("ours", "ours")
            if e is not None:
                checks.append(below(f"{word}: fine-tuned global is below fine-tuned MTL at epsilon {e:g}, mean of four", other, mtl, about=side))
            else:
                best = max(both["mean"].values(), key=lambda v: v.mean())
                checks.append(below(f"{word}: without noise global with mean-regularisation is the best", best, both["fedavg"]["mean"], about=side))
    return Result(
        "table1", PAPER, "with privacy, fine-tuned PMTL beats a fine-tuned global model",
        "MTL above in 10 of 12 private cells; without noise global with mean-regularisation is best (0.839)",
        as_printed="; ".join(cells["printed"]), sound="; ".join(cells["sound"]), checks=checks, series=series,
        axes={"x": "", "y": "accuracy on femnist"},
        settings=about(quick, seed, sound_source="computed here", stretch={how: list(stretches(how, settings.KINDS, quick)) for how in cells}),
    )  # fmt: skip


def table3(quick: bool, seed: int) -> Result:
    """Against learning alone."""
    scores, epsilons = scores_of(quick, seed), (0.1, 0.8, 2.0)
    series: dict[str, Any] = {}
    checks: list[Check] = []
    said: dict[str, list[str]] = {"printed": [], "sound": []}
    for data in ("femnist", "tags") if quick else ("femnist", "mnist_writers", "tags"):
        alone, own_alone = scores.alone(data), scores._get(("sound", data, "local", None, "none"))
        plain = {e: scores.printed(data, "mean", e) for e in epsilons}
        chosen = {e: scores.sound(data, "mean", e) for e in epsilons}
        checks += [below(f"{data}: PMTL as printed without fine-tuning is below local at epsilon 0.1", plain[0.1], own_alone)]
        checks += [below(f"{data}: local is below PMTL with fine-tuning at epsilon {e:g}", alone, chosen[e]) for e in epsilons]
        checks += [
            not_above(f"{data}: the local choice is never below local at epsilon {e:g}", alone, chosen[e], about="ours") for e in epsilons
        ]
        series |= {
            f"{data}: local": line(dict.fromkeys(epsilons, alone)), f"{data}: PMTL as printed": line(plain),
            f"{data}: mean, chosen (sound)": line(chosen),
        }  # fmt: skip
        said["printed"].append(f"{data}: local {own_alone.mean():.3f}, PMTL {span(plain)}")
        said["sound"].append(f"{data}: local {alone.mean():.3f}, mean chosen {span(chosen)}")
    return Result(
        "table3", PAPER, "PMTL with fine-tuning beats learning alone at every epsilon; without, only at large epsilon",
        "FEMNIST: local .618; PMTL .371, .498, .621 at epsilon 0.1, 0.8, 2; with fine-tuning .663, .640, .681",
        as_printed="; ".join(said["printed"]), sound="; ".join(said["sound"]), checks=checks, series=series,
        axes={"x": "epsilon", "y": "accuracy"}, settings=about(quick, seed, tags="synthetic"),
    )  # fmt: skip


def fig4(quick: bool, seed: int) -> Result:
    return _noise_grid(quick, seed, "fig4", "femnist", (0.02, 0.05, 0.1), (0.2, 0.5, 1.0))


def fig5(quick: bool, seed: int) -> Result:
    return _noise_grid(quick, seed, "fig5", "mnist_writers", (0.02, 0.05, 0.1), (0.2, 0.5, 1.0))


def fig6(quick: bool, seed: int) -> Result:
    return _noise_grid(quick, seed, "fig6", "tags", (0.01, 0.05, 0.1), (0.1, 0.5, 1.0))


STANDS_FOR = {"femnist": "FEMNIST", "mnist_writers": "CelebA (stand-in: writers of digits)", "tags": "StackOverflow (stand-in: synthetic tags)"}


def _noise_grid(quick: bool, seed: int, name: str, data: str, sigmas: tuple[float, ...], gammas: tuple[float, ...]) -> Result:
    """Accuracy and epsilon over rounds for every noise and clip."""
    place = runs.cached_world(data, seed, quick)
    rounds = 20 if quick else 100
    at = sorted({1, 5, 10, 20, 50, rounds} & set(range(1, rounds + 1)))
    sigmas, gammas = (sigmas[::2], gammas[::2]) if quick else (sigmas, gammas)
    series: dict[str, Any] = {}
    last: dict[tuple[float, float], np.ndarray] = {}
    stated: dict[tuple[float, float], float] = {}
    true: dict[tuple[float, float], float] = {}
    for gamma in gammas:
        for sigma in sigmas:
            scores, plan = accuracies_over_rounds(place, sigma, gamma, rounds, "paper", at, seed)
            last[sigma, gamma] = scores[-1]
            stated[sigma, gamma], true[sigma, gamma] = plan.epsilon(), runs.true_epsilon(plan)
            series[f"sigma {sigma:g}, gamma {gamma:g}"] = {"x": at, "y": [float(v.mean()) for v in scores]}
    low, high, small, large = sigmas[0], sigmas[-1], gammas[0], gammas[-1]
    middle = stated[high, small]
    method, record = runs.sound(place, "mean", float(min(middle, 20.0)), seed)
    ours = place.by_task(runs.tuned(method, place, record, (settings.CHOICE,), settings.STRETCHES)["chosen"])
    ratios = [true[k] / stated[k] for k in stated]
    return Result(
        name, PAPER, f"{STANDS_FOR[data]}: more noise lowers accuracy and epsilon, a larger clip raises epsilon",
        "accuracy falls and epsilon falls with sigma; epsilon grows with gamma and rounds",
        as_printed=f"after {rounds} rounds accuracy {last[low, large].mean():.3f} (sigma {low:g}, gamma {large:g}, epsilon {stated[low, large]:.3g} "
        f"printed, {true[low, large]:.3g} true) and {last[high, small].mean():.3f} (sigma {high:g}, gamma {small:g}, epsilon "
        f"{stated[high, small]:.3g} printed, {true[high, small]:.3g} true)",
        sound=f"mean, chosen, at epsilon {min(middle, 20.0):.3g}: {ours.mean():.3f}",
        checks=[
            *(below(f"gamma {g:g}: sigma {high:g} is less accurate than sigma {low:g}", last[high, g], last[low, g]) for g in gammas),
            *(below(f"gamma {g:g}: epsilon is smaller at sigma {high:g}", [stated[high, g]], [stated[low, g]]) for g in gammas),
            *(below(f"sigma {s:g}: epsilon is smaller at gamma {small:g}", [stated[s, small]], [stated[s, large]]) for s in sigmas),
            below("the printed epsilon covers colluding tasks", [max(ratios)], [1.0]),
            not_above("ours is not below as printed at its smallest epsilon", last[high, small], ours, about="ours"),
        ],
        series=series, axes={"x": "rounds", "y": f"accuracy on {data}"},
        settings=about(quick, seed, rounds=rounds, sound_source="computed here", epsilon_printed={str(k): v for k, v in stated.items()},
                       epsilon_true={str(k): v for k, v in true.items()}),
    )  # fmt: skip


def fig8(quick: bool, seed: int) -> Result:
    """Against PP-SGD, whose shared and private parts add up; linear model, synthetic tags."""
    scores, epsilons = scores_of(quick, seed), QUICK_EPSILONS if quick else (0.1, 0.4, 0.8, 2.0, 4.0)
    printed = {e: scores.printed("tags", "mean", e) for e in epsilons}
    ours = {e: scores.sound("tags", "mean", e) for e in epsilons}
    other = {e: scores.sound("tags", "pp-sgd", e, "none") for e in epsilons}
    strong = [e for e in epsilons if e < 1]
    return Result(
        "fig8", PAPER, "PMTL beats PP-SGD for epsilon < 1 and equals it when privacy is weak", "above for epsilon < 1, similar at 4",
        as_printed=f"PMTL {span(printed)} ({printed_and_true(scores.world('tags'), 0.8, quick)})",
        sound=f"mean, chosen {span(ours)}; pp-sgd {span(other)}",
        checks=[
            *(below(f"PP-SGD is below PMTL as printed at epsilon {e:g}", other[e], printed[e]) for e in strong),
            *(below(f"PP-SGD is below ours at epsilon {e:g}", other[e], ours[e], about="ours") for e in strong),
            not_above("ours is not below PP-SGD at epsilon 4", other[4.0], ours[4.0], about="ours"),
        ],
        series={"PMTL as printed": line(printed), "mean, chosen (sound)": line(ours), "pp-sgd (sound)": line(other)},
        axes={"x": "epsilon", "y": "accuracy on synthetic tags"}, settings=about(quick, seed, tags="synthetic"),
    )  # fmt: skip


# ------------------------------------------------------------ over the rounds


def accuracies_over_rounds(
    place: World, sigma: float, gamma: float, rounds: int, variant: str, at: list[int], seed: int
) -> tuple[list[np.ndarray], Any]:
    """Accuracy by task of the personal models after some rounds, and the plan."""
    from experiments.hu_2023.run import correct_by_writer

    seen: list[np.ndarray] = []

    def look(method: Any, models: np.ndarray) -> None:
        from types import SimpleNamespace

        seen.append(place.by_task(correct_by_writer(method, SimpleNamespace(public=place.public), models, place.test)))

    return seen, _watched(place, sigma, gamma, rounds, variant, at, seed, look)


def losses_over_rounds(
    place: World, sigma: float, gamma: float, rounds: int, variant: str, at: list[int], seed: int
) -> tuple[list[np.ndarray], Any]:
    """Mean training loss of every task after some rounds, and the plan."""
    seen: list[np.ndarray] = []
    label = place.block.y.argmax(axis=1)

    def look(method: Any, models: np.ndarray) -> None:
        classes = place.public.n_outputs
        bias, weights = models[:, :classes], models[:, classes:].reshape(len(models), -1, classes)
        scores = np.einsum("nd,ndk->nk", place.block.X, weights[place.block.task_of_row]) + bias[place.block.task_of_row]
        top = scores.max(axis=1, keepdims=True)
        losses = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0] - scores[np.arange(len(label)), label]
        seen.append(np.bincount(place.block.task_of_row, losses, place.block.n_tasks) / np.maximum(place.block.sizes, 1))

    return seen, _watched(place, sigma, gamma, rounds, variant, at, seed, look)


def _watched(place: World, sigma: float, gamma: float, rounds: int, variant: str, at: list[int], seed: int, look: Any) -> Any:
    method = settings.paper_method("mean", rounds, gamma)
    if variant == "sound":
        method.set_params(rate=min(1.0, runs.PAPER_COHORT / place.public.n_tasks))
    plan = runs.plan_of_noise(place, method.built(place.public).n_parameters, sigma, gamma, rounds, variant)

    def watch(number: int, state: Any) -> None:
        if number in at:
            look(method, np.asarray(state["models"]))

    runs.train(method, place, plan, seed, watch)
    return plan


def _first(plan: Any, rounds: int) -> Any:
    from dataclasses import replace

    return replace(plan, releases=plan.releases[:rounds])
